"""Figures as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import figures

SPACE = figures.NARROW_SPACE


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1023, "1,023 B"), (1024, "1.00 KiB"), (421_888, "412 KiB"), (220 * 2**20, "220 MiB"), (None, "not known")],
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
    assert figures.money_format(amount).replace(SPACE, " ") == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [("0.014237", "€ 0.0142"), ("12.345", "€ 12.34"), ("0", "€ 0.00"), ("0.5", "€ 0.500"), (None, "not priced")],
)
def test_a_price_keeps_three_significant_digits(amount: str | None, text: str) -> None:
    assert figures.price_format(amount).replace(SPACE, " ") == text


def test_an_unknown_price_is_not_nought() -> None:
    assert figures.money_format(None) == "not priced"
    assert figures.money_exact_format(None) == "not priced"


def test_a_float_is_no_amount() -> None:
    assert figures.decimal(0.1) is None  # type: ignore[arg-type]


@given(st.decimals(min_value=Decimal("-1e20"), max_value=Decimal("1e20"), allow_nan=False, allow_infinity=False, places=25))
def test_the_exact_amount_reads_back_equal(amount: Decimal) -> None:
    written = figures.money_exact_format(amount).replace(SPACE, "").replace("€", "").replace(",", "")
    assert Decimal(written) == amount


@given(st.fractions(min_value=0, max_value=1))
def test_a_share_above_nought_is_never_written_as_nought(share: Fraction) -> None:
    text = figures.percent_format(share)
    assert (text.replace(SPACE, " ") == "0.0 %") == (share == 0)


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
    texts = [figures.energy_format(value).replace(figures.NARROW_SPACE, " ") for value in (0, 812, 46_000, 1_597_395_057_280)]
    assert texts == ["0.00 fJ", "812 fJ", "46.0 pJ", "1.60 mJ"]
    assert figures.energy_format(None) == figures.NOT_KNOWN
