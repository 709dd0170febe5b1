"""Forms write back the document that they were built from, and name each fault beside its field."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.draft_forms import ClassesForm, PricesForm, SectionForm
from apps.pricing.draft_hours import GRIDS, HoursForm
from apps.pricing.draft_terms import TermsForm
from apps.pricing.drafts import draft_faults
from apps.pricing.rating import book_from_json
from apps.pricing.seed import SHIPPED, shipped
from tests.pricing.rating.books import document

SECTIONS: tuple[type[SectionForm], ...] = (PricesForm, ClassesForm, HoursForm, TermsForm)


def entered(form: SectionForm, **changes: str) -> dict[str, str]:
    """What a browser sends for the form as it was built, with `changes`; a change to None leaves the field out."""
    sent: dict[str, str] = {}
    for name in form.fields:
        value = form[name].value()
        if value is True:
            sent[name] = "on"
        elif value is not False and value is not None:
            sent[name] = str(value)
    if isinstance(form, HoursForm):
        sent |= {cell.name: str(cell.value) for _, months in form.grids for _, cells in months for cell in cells}
    return sent | changes


def answered(kind: type[SectionForm], book: dict[str, Any], **changes: str) -> SectionForm:
    return kind(book, entered(kind(book), **changes))


@pytest.mark.parametrize("kind", SECTIONS)
@pytest.mark.parametrize("version", SHIPPED)
def test_a_form_that_nobody_changed_writes_the_same_book(kind: type[SectionForm], version: int) -> None:
    book = shipped(version)
    form = answered(kind, book)
    assert form.is_valid(), form.errors
    assert book_from_json(form.written()).digest == book_from_json(book).digest


@pytest.mark.parametrize("kind", SECTIONS)
def test_the_book_of_the_tests_stays_the_same_too(kind: type[SectionForm]) -> None:
    form = answered(kind, document())
    assert form.is_valid(), form.errors
    assert book_from_json(form.written()).digest == book_from_json(document()).digest


NONSENSE = ("-5", "10^17", "abc", "😀", "x" * 10_000, "1e9", "١٢", "NaN", "0x10", "1,50", "<script>")


@pytest.mark.parametrize("text", [*NONSENSE, "0", "100000000000000000"])
def test_nonsense_as_a_price_is_a_sentence_beside_the_field(text: str) -> None:
    form = answered(PricesForm, document(), **{"price-lpu-float32": text})
    assert not form.is_valid()
    assert form.errors["price-lpu-float32"][0].endswith(".")


@pytest.mark.parametrize("text", ["-5", "-0.5", "0", "1000000001"])
def test_a_price_out_of_its_range_names_the_field_and_the_range(text: str) -> None:
    form = answered(PricesForm, document(), **{"price-lpu-float32": text})
    said = "“Price, lpu, float32” must be above 0 and at most 1,000,000,000."
    assert form.errors["price-lpu-float32"] == [said]


def test_an_amount_or_a_factor_below_0_names_the_field_and_the_range() -> None:
    form = answered(TermsForm, document(), floor="-0.5", minimum_charge="-5")
    assert form.errors["floor"] == ["“Floor” must be from 0 to 1."]
    assert form.errors["minimum_charge"][0].endswith("” must be from 0 to 1,000,000,000.")


@pytest.mark.parametrize("text", [*NONSENSE, "100000000000000000"])
@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (TermsForm, "notice_days"),
        (TermsForm, "quote_validity_minutes"),
        (TermsForm, "floor"),
        (TermsForm, "currency"),
        (ClassesForm, "surcharge-standard"),
        (ClassesForm, "discount-standard"),
        (HoursForm, "factor-0"),
        (HoursForm, "fill_first"),
    ],
)
def test_nonsense_in_other_numbers_is_a_sentence(kind: type[SectionForm], name: str, text: str) -> None:
    form = answered(kind, document(), **{name: text})
    assert not form.is_valid()
    assert form.errors[name][0].endswith(".")


def test_thousands_may_be_separated() -> None:
    form = answered(TermsForm, document(), quote_validity_minutes="2,880")
    assert form.is_valid()
    assert form.written()["quote_validity_minutes"] == 2880


@given(st.decimals(min_value="0.000000000001", max_value="999999999", places=12, allow_nan=False))
def test_a_price_is_written_as_it_was_entered(price: Any) -> None:
    form = answered(PricesForm, document(), **{"price-lpu-float32": f"{price:f}"})
    assert form.is_valid(), form.errors
    assert book_from_json(form.written()).prices["lpu"]["float32"] == price


def test_a_price_and_its_minimum_come_together() -> None:
    book = document()
    missing = answered(PricesForm, book, **{"price-lpu-int8": "0.5", "minimum-lpu-int8": ""})
    assert "minimum-lpu-int8" in missing.errors
    alone = answered(PricesForm, book, **{"price-lpu-int8": "", "minimum-lpu-int8": "5"})
    assert "price-lpu-int8" in alone.errors


def test_a_class_is_added_and_removed() -> None:
    added = answered(PricesForm, document(), new="tpu", **{"price--int8": "0.25", "minimum--int8": "1000"})
    assert added.is_valid(), added.errors
    book = added.written()
    assert book["prices"]["tpu"] == {"int8": "0.25"}
    gone = {f"{part}-tpu-{one}": "" for part in ("price", "minimum") for one in ("int8", "float16", "float32")}
    removed = answered(PricesForm, book, **gone)
    assert removed.is_valid(), removed.errors
    assert "tpu" not in removed.written()["prices"]
    assert "new" in answered(PricesForm, document(), new="lpu").errors
    assert "new" in answered(PricesForm, document(), new="Ünknown").errors


def test_a_class_of_service_is_added_and_removed() -> None:
    book = document()
    form = answered(ClassesForm, book, new="night")
    assert form.is_valid(), form.errors
    written = form.written()
    assert written["classes"]["night"]["offered"] is False
    assert draft_faults(written) == []
    removed = answered(ClassesForm, written, **{"remove-night": "on"})
    assert removed.is_valid()
    assert "night" not in removed.written()["classes"]


def test_a_fault_of_the_whole_book_is_shown_beside_its_field() -> None:
    book = document()
    book["classes"]["standard"]["unused"] = "0.9"
    faults = draft_faults(book)
    form = ClassesForm(book)
    assert form.faults_show(faults) == []
    assert form.errors["unused-standard"][0].startswith("This is 0.9, more than")


def test_a_range_of_hours_is_filled() -> None:
    book = document()
    form = answered(
        HoursForm,
        book,
        action="fill",
        fill_days="weekend",
        fill_first="5",
        fill_last="7",
        fill_from="22",
        fill_until="24",
        fill_period="1",
    )
    assert form.is_valid(), form.errors
    tariff = form.written()["tariff"]
    assert [tariff["weekend"][month][hour] for month in (5, 6, 7) for hour in (22, 23)] == [1] * 6
    assert tariff["weekday"] == book["tariff"]["weekday"]


def test_a_range_that_ends_before_it_starts_is_refused() -> None:
    form = answered(HoursForm, document(), action="fill", fill_from="22", fill_until="6")
    assert "fill_until" in form.errors


def test_a_period_in_use_cannot_be_removed() -> None:
    form = answered(HoursForm, document(), **{"remove-1": "on"})
    assert "Some hours still use period B" in form.errors["period-1"][0]


def test_a_period_is_added_and_another_removed_without_a_gap() -> None:
    book = document()
    count = len(book["tariff"]["periods"])
    cells = {f"{key}-{month}-{hour}": str(count) for key in GRIDS for month in range(12) for hour in range(24)}
    changes = {f"period-{count}": "flat", f"off-{count}": "on", "remove-0": "on"}
    form = answered(HoursForm, book, **cells, **changes)
    assert form.is_valid(), form.errors
    tariff = form.written()["tariff"]
    assert [one["name"] for one in tariff["periods"]][-1] == "flat"
    assert {index for row in tariff["weekday"] for index in row} == {count - 1}


@pytest.mark.parametrize("value", ["99", "-1", "x", "", "1" * 500])
def test_a_cell_of_no_period_is_never_stored(value: str) -> None:
    form = answered(HoursForm, document(), **{"weekday-0-0": value})
    assert not form.is_valid() or form.written()["tariff"]["weekday"][0][0] in {0, 1}


@pytest.mark.parametrize(
    "line", ["tomorrow Feast", "2026-12-25", "2026-02-30 None", "20261225 Run", "2026-01-01 A\n2026-01-01 B"]
)
def test_a_faulty_holiday_names_its_line(line: str) -> None:
    form = answered(HoursForm, document(), holidays=line)
    assert form.errors["holidays"][0].startswith("Line ")


def test_an_unknown_zone_is_refused() -> None:
    form = answered(HoursForm, document(), zone="Mars/Olympus")
    assert "not known" in form.errors["zone"][0]


def test_documents_stay_json() -> None:
    for kind in SECTIONS:
        form = answered(kind, document())
        assert form.is_valid()
        json.dumps(form.written())


def test_a_class_of_service_has_a_key_that_contracts_can_hold() -> None:
    assert "at most 20 characters" in str(answered(ClassesForm, document(), new="a" * 21).errors["new"])
