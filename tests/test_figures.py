"""Figures as people read them."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import figures
from apps.currencies import PLACES

SPACE = figures.NARROW_SPACE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (421_888, "412 KiB"),
        (220 * 2**20, "220 MiB"),
        (None, "not known"),
    ],
)
def test_bytes_are_written_in_binary_units(value: int | None, text: str) -> None:
    assert figures.bytes_format(value).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (Fraction(812, 10**9), "812 ns"),
        ("0.0000431", "43.1 µs"),
        (Decimal("0.00271"), "2.71 ms"),
        (timedelta(minutes=3, seconds=10), "3 min 10 s"),
        (7505, "2 h 5 min"),
        (86400, "1 d"),
        (-90, "-1 min 30 s"),
    ],
)
def test_a_duration_takes_the_unit_that_fits(seconds: figures.Number | timedelta, text: str) -> None:
    assert figures.duration_format(seconds).replace(SPACE, " ") == text


def test_what_was_measured_as_nothing_took_less_than_a_millisecond() -> None:
    assert {figures.elapsed_format(zero) for zero in ("0.000", 0)} == {"less than 1 ms"}
    assert figures.elapsed_format("1.2").replace(SPACE, " ") == "1.20 s"


@pytest.mark.parametrize(
    ("minutes", "text"), [(1440, "24 h"), (60, "1 h"), (90, "90 min"), (0, "0 min"), (60000, "1,000 h")]
)
def test_a_notice_is_told_in_hours_where_it_has_whole_ones(minutes: int, text: str) -> None:
    assert figures.notice_format(minutes).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("share", "text"), [("0.4", "40 %"), ("0.375", "37.5 %"), ("1", "100 %"), ("0.0001", "0.01 %")]
)
def test_an_agreed_share_has_no_digits_that_say_nothing(share: str, text: str) -> None:
    assert figures.share_format(Decimal(share)).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1234.5", "€ 1,234.50"),
        ("0.005", "€ 0.00500"),
        (Decimal("-3"), "-€ 3.00"),
        (Decimal("0"), "€ 0.00"),
        ("0.000012345", "€ 0.0000123"),
    ],
)
def test_an_amount_is_rounded_for_reading_but_never_to_nought(amount: Decimal | str, text: str) -> None:
    assert figures.money_format(amount, "EUR").replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("0.014237", "€ 0.01424"),
        ("12.345", "€ 12.34"),
        ("0", "€ 0.00"),
        ("0.5", "€ 0.50"),
        ("0.0000014823", "€ 0.000001482"),
        ("5.632", "€ 5.632"),
        ("1234.5678", "€ 1,234.57"),
        (None, "not priced"),
    ],
)
def test_a_price_has_four_significant_digits(amount: str | None, text: str) -> None:
    assert figures.price_format(amount, "EUR").replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("amount", "currency", "rounded", "exact", "price"),
    [
        ("1", "JPY", "JPY 1", "JPY 1", "JPY 1"),
        ("150", "JPY", "JPY 150", "JPY 150", "JPY 150"),
        ("1234.5", "JPY", "JPY 1,234", "JPY 1,234.5", "JPY 1,234"),
        ("0.152", "JPY", "JPY 0.152", "JPY 0.152", "JPY 0.152"),
        ("0.15", "KWD", "KWD 0.150", "KWD 0.150", "KWD 0.150"),
        ("1.5", "kwd", "KWD 1.500", "KWD 1.500", "KWD 1.500"),
        ("1.5", "EUR", "€ 1.50", "€ 1.50", "€ 1.50"),
        ("0.126", {"code": "EUR", "exponent": 3}, "€ 0.126", "€ 0.126", "€ 0.126"),
        ("1", {"code": "EUR", "exponent": 3}, "€ 1.000", "€ 1.000", "€ 1.000"),
    ],
)
def test_an_amount_has_the_places_of_its_currency_or_its_document(
    amount: str, currency: figures.Currency, rounded: str, exact: str, price: str
) -> None:
    written = [
        form(amount, currency) for form in (figures.money_format, figures.money_exact_format, figures.price_format)
    ]
    assert [one.replace(SPACE, " ") for one in written] == [rounded, exact, price]


@given(st.sampled_from(["JPY", "EUR", "KWD", "CLF"]), st.integers(-(10**18), 10**18))
def test_what_is_payable_is_written_with_just_its_currencys_places(currency: str, units: int) -> None:
    amount = Decimal(units).scaleb(-PLACES[currency])
    for form in (figures.money_format, figures.money_exact_format):
        sign_code, digits = form(amount, currency).split(SPACE)
        sign = "-" if sign_code.startswith("-") else ""
        assert Decimal(sign + digits.replace(",", "")) == amount
        assert len(digits.partition(".")[2]) == PLACES[currency]


def test_currencies_are_those_of_iso_4217() -> None:
    """Counted in the published list; money of every number of places that there is, and nothing that is no money."""
    assert Counter(PLACES.values()) == {2: 139, 0: 17, 3: 7, 4: 2}
    assert all(len(code) == 3 and code.isascii() and code.isupper() for code in PLACES)
    assert not {"XAU", "XDR", "XTS", "XXX", "HRK", "BGN"} & PLACES.keys()


def test_an_unknown_price_is_not_nought() -> None:
    assert figures.money_format(None, "EUR") == "not priced"
    assert figures.money_exact_format(None, "EUR") == "not priced"


def test_a_float_is_no_amount() -> None:
    assert figures.decimal(0.1) is None  # type: ignore[arg-type]


@given(
    st.decimals(min_value=Decimal("-1e20"), max_value=Decimal("1e20"), allow_nan=False, allow_infinity=False, places=25)
)
def test_the_exact_amount_reads_back_equal(amount: Decimal) -> None:
    written = figures.money_exact_format(amount, "EUR").replace(SPACE, "").replace("€", "").replace(",", "")
    assert Decimal(written) == amount


@given(st.fractions(min_value=0, max_value=1))
def test_a_share_above_nought_is_never_written_as_nought(share: Fraction) -> None:
    text = figures.percent_format(share)
    assert (text.replace(SPACE, " ") == "0.0 %") == (share == 0)
    assert (text.replace(SPACE, " ") == "100.0 %") == (share == 1)


def test_a_share_just_below_the_whole_is_not_written_as_all() -> None:
    for share, places, text in (
        (Fraction(99_999, 100_000), 1, "> 99.9 %"),
        (Fraction(9994, 10_000), 1, "99.9 %"),
        (Fraction(999, 1000), 0, "> 99 %"),
        (Fraction(20001, 20000), 1, "100.0 %"),
    ):
        assert figures.percent_format(share, places).replace(SPACE, " ") == text


@given(st.integers(min_value=0, max_value=10**18))
def test_a_short_count_is_within_half_a_per_cent(value: int) -> None:
    number, _, prefix = figures.short_format(value).partition(SPACE)
    factor = 1000 ** ("kMGTPE".index(prefix) + 1) if prefix else 1
    assert abs(Fraction(number.replace(",", "")) * factor - value) <= Fraction(value, 200)


def test_an_instant_names_its_zone() -> None:
    at = datetime(2026, 7, 1, 20, 5, tzinfo=UTC)
    assert figures.instant_format(at, "Europe/Berlin") == "2026-07-01 22:05 CEST"
    assert figures.period_format(at, at + timedelta(hours=3), "UTC") == "2026-07-01 20:05 to 23:05 UTC"
    assert figures.period_format(at, at + timedelta(hours=4), "UTC") == "2026-07-01 20:05 to 2026-07-02 00:05 UTC"


def test_energy_is_written_in_the_unit_that_fits() -> None:
    texts = [
        figures.energy_format(value).replace(figures.NARROW_SPACE, " ") for value in (0, 812, 46_000, 1_597_395_057_280)
    ]
    assert texts == ["0.00 fJ", "812 fJ", "46.0 pJ", "1.60 mJ"]
    assert figures.energy_format(None) == figures.NOT_KNOWN


@pytest.mark.parametrize(
    ("amount", "of", "thing", "text"),
    [
        ("5.632", 1_000_000, "execution", "€ 5.632 per million executions"),
        ("0.0000000121882710", 1, "execution", "€ 0.01219 per million executions"),
        ("0.0163", 1000, "execution", "€ 0.0163 per thousand executions"),
        ("21.5", 1000, "execution", "€ 0.0215 per execution"),
        ("0.000004923", 4000, "token", "€ 0.001231 per million tokens"),
        ("0.000001482", 1, "tera-operation", "€ 1.482 per million tera-operations"),
        ("0.008", 1, "tera-operation", "€ 8.00 per thousand tera-operations"),
        ("0", 1, "execution", "€ 0.00 per execution"),
        ("0.000000000000000001", 1, "execution", "€ 0.000000000001 per million executions"),
    ],
)
def test_a_unit_price_is_told_for_as_many_as_reads_well(amount: str, of: int, thing: str, text: str) -> None:
    told = " ".join(figures.unit_price_format(amount, "EUR", of=of, thing=thing)).replace(SPACE, " ")
    assert told == text
    assert figures.unit_price_format(None, "EUR") == ("not priced", "")


def test_prices_beside_each_other_have_one_scale() -> None:
    assert figures.unit_price_scale([Decimal("1"), Decimal("0.00002"), None]) == 1000
    assert (
        " ".join(figures.unit_price_format("1", "EUR", scale=1000)).replace(SPACE, " ")
        == "€ 1,000.00 per thousand executions"
    )
