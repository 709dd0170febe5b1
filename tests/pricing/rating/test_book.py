from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.currencies import PLACES
from apps.pricing.rating import BookError, Currency, NotPriced, book_from_json, book_from_text
from tests.pricing.rating.books import SHIPPED, book, document


def test_the_shipped_book_parses_and_round_trips() -> None:
    shipped = book_from_text(SHIPPED.read_bytes())
    again = book_from_json(json.loads(json.dumps(shipped.to_json())))
    assert again == shipped
    assert again.digest == shipped.digest


def test_spaces_key_order_and_trailing_zeros_do_not_change_the_digest() -> None:
    shuffled = dict(reversed(list(document(lambda d: d.update(floor="0.2500")).items())))
    assert book_from_text(json.dumps(shuffled, indent=7)).digest == book().digest


def test_what_a_book_may_say_besides_survives_json() -> None:
    def change(d: dict[str, Any]) -> None:
        d.update(minimum_charge="5", free_tera_operations="0.5", missed_guarantee="0.25", commitment_days={"month": 30})
        d["tariff"]["periods"][1]["factor"] = "0.6"
        d["classes"]["standard"]["time_of_use"] = True

    rich = book(change)
    again = book_from_json(json.loads(json.dumps(rich.to_json())))
    assert again == rich
    assert again.digest == rich.digest != book().digest
    assert (rich.tariff.period("off-peak").factor, rich.missed_guarantee) == (Decimal("0.6"), Decimal("0.25"))


@pytest.mark.parametrize(
    ("code", "exponent", "said"),
    [
        ("EUR", 3, "currency.exponent is 3, but ISO 4217 gives EUR 2"),
        ("JPY", 2, "currency.exponent is 2, but ISO 4217 gives JPY 0"),
        ("KWD", 2, "currency.exponent is 2, but ISO 4217 gives KWD 3"),
        ("ABC", 2, "currency.code is ABC, which is no currency of ISO 4217"),
        ("XAU", 0, "currency.code is XAU, which is no currency of ISO 4217"),
        ("BGN", 2, "currency.code is BGN, which is no currency of ISO 4217"),
    ],
)
def test_a_currency_is_as_iso_4217_has_it_where_that_is_asked_for(code: str, exponent: int, said: str) -> None:
    """Books that were published before that was asked stay readable, with their digest."""
    written = document(lambda d: d.update(currency={"code": code, "exponent": exponent}))
    with pytest.raises(BookError, match=said):
        book_from_json(written, currencies=PLACES)
    assert book_from_json(written).to_json() == written


@given(st.sampled_from(sorted(PLACES)), st.integers(0, 4))
def test_only_the_places_of_the_currency_are_taken(code: str, exponent: int) -> None:
    written = document(lambda d: d.update(currency={"code": code, "exponent": exponent}))
    if exponent == PLACES[code]:
        assert book_from_json(written, currencies=PLACES).currency == Currency(code, exponent)
    else:
        with pytest.raises(BookError, match=r"write that\.$"):
            book_from_json(written, currencies=PLACES)


def test_one_digit_changes_the_digest() -> None:
    assert book(lambda d: d["prices"]["lpu"].update(int8="0.002000000001")).digest != book().digest


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.pop("floor"), "lacks floor"),
        (lambda d: d.update(extra=1), "unknown entries extra"),
        (lambda d: d.update(format="other/9"), "format is"),
        (lambda d: d.update(version=0), "version is 0"),
        (lambda d: d.update(version=True), "version is True"),
        (lambda d: d["currency"].update(code="eur"), "currency.code"),
        (lambda d: d["currency"].update(exponent=9), "currency.exponent"),
        (lambda d: d["prices"]["lpu"].update(int8=0.002), "not a plain decimal"),
        (lambda d: d["prices"]["lpu"].update(int8="1e-3"), "not a plain decimal"),
        (lambda d: d["prices"]["lpu"].update(int8="NaN"), "not a plain decimal"),
        (lambda d: d["prices"]["lpu"].update(int8="0.0000000000001"), "more than 12 decimal places"),
        (lambda d: d["prices"]["lpu"].update(int8="0"), "leave out what is not for sale"),
        (lambda d: d["prices"]["lpu"].update(int8="-1"), "leave out what is not for sale"),
        (lambda d: d["classes"]["batch"].update(title="a\x00b"), "not a printable text"),
        (lambda d: d["classes"]["batch"].update(promise="\ud800"), "not a printable text"),
        (lambda d: d["classes"]["batch"].update(unused="0.3"), "must not cost more than what is held"),
        (lambda d: d["prices"].update({"a b": {}}), "has a name that is not"),
        (lambda d: d.update(prices={}), "prices is not an object"),
        (lambda d: d["minimum_operations_per_cycle"].pop("lpu"), "minimum_operations_per_cycle lacks lpu"),
        (lambda d: d.update(floor="1.1"), "not a factor from 0 to 1"),
        (lambda d: d["classes"]["batch"].update(discount="0.12345"), "more than 4 decimal places"),
        (lambda d: d["classes"]["priority"].update(surcharge="0.9"), "not a factor of at least 1"),
        (lambda d: d["classes"]["batch"].update(offered="yes"), "neither true nor false"),
        (lambda d: d["classes"]["batch"].pop("title"), "classes.batch lacks title"),
        (lambda d: d["classes"]["batch"].update(finish_within_minutes=0), "finish_within_minutes is 0"),
        (lambda d: d["commitments"].update(none="0.5"), 'commitments must hold "none"'),
        (lambda d: d["tariff"].update(zone="Europe/Nowhere"), "check the spelling"),
        (lambda d: d["tariff"].update(zone="../../etc/passwd"), "check the spelling"),
        (lambda d: d["tariff"]["weekday"].pop(), "12 rows"),
        (lambda d: d["tariff"]["weekend"][3].append(0), "12 rows"),
        (lambda d: d["tariff"]["weekday"][0].__setitem__(0, 7), "not the index of a period"),
        (lambda d: d["tariff"].update(periods=[]), "1 to 24 periods"),
        (lambda d: d["tariff"]["holidays"].append({"day": "2026-02-30", "name": "x"}), "not a date"),
        (lambda d: d["classes"]["batch"].update(discount="0"), "nothing is sold for nothing"),
        (lambda d: d["commitments"].update(year="0"), "nothing is sold for nothing"),
        (lambda d: d["prices"]["lpu"].update(int8="1000000001"), "costs at most"),
        (lambda d: d["tariff"]["periods"][0].update(factor="0"), "nothing is sold for nothing"),
        (lambda d: d["tariff"]["periods"][0].update(factor="1.5"), "no class has time_of_use"),
        (lambda d: d["tariff"]["periods"][1].update(name="peak"), "two periods of one name"),
        (lambda d: d["classes"]["batch"].update(time_of_use=1), "neither true nor false"),
        (lambda d: d.update(minimum_charge="-1"), "minimum_charge is -1"),
        (lambda d: d.update(free_tera_operations=3), "not a plain decimal"),
        (lambda d: d.update(commitment_days={"decade": 3650}), "is not one of the commitments"),
        (lambda d: d.update(missed_guarantee="2"), "missed_guarantee is 2"),
        (lambda d: [p.update(off_peak=False) for p in d["tariff"]["periods"]], "no off-peak hour"),
    ],
)
def test_a_faulty_book_is_refused_with_its_place(change: Any, said: str) -> None:
    with pytest.raises(BookError) as refusal:
        book(change)
    assert said in str(refusal.value)


def test_every_fault_is_listed_at_once() -> None:
    def spoil(d: dict[str, Any]) -> None:
        d["floor"], d["version"], d["tariff"]["zone"] = "2", -1, "Moon/Base"

    with pytest.raises(BookError) as refusal:
        book(spoil)
    assert len(refusal.value.problems) == 3


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"format": NaN}'])
def test_what_is_not_a_book_is_refused(text: str) -> None:
    with pytest.raises(BookError):
        book_from_text(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s)
    )
)
def test_any_json_is_a_book_or_a_clear_refusal(value: Any) -> None:
    for key in ("prices", "classes", "commitments", "tariff", "currency", "minimum_operations_per_cycle"):
        with pytest.raises(BookError):
            book(lambda d, key=key: d.update({key: value}))


def test_what_has_no_price_is_named() -> None:
    for ask, said in (
        (lambda: book().unit_price("tpu", "int8"), "no processor class 'tpu'"),
        (lambda: book().unit_price("lpu", "int4"), "no price for 'int4' on 'lpu'"),
        (lambda: book().price_class("gold"), "no class 'gold'"),
        (lambda: book().commitment("decade"), "no commitment 'decade'"),
    ):
        with pytest.raises(NotPriced, match=said):
            ask()


def test_prices_are_decimals() -> None:
    assert book().unit_price("lpu", "float32") == Decimal("0.008")
