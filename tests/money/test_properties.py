"""Quote = held = preview = invoice = offline recomputation, over contracts of every form, in three zones and currencies."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.pricing.rating import (
    Counts,
    NotPriced,
    Rating,
    RatingError,
    Terms,
    exact_sum,
    free_tier,
    minimum_topup,
    rate,
    rate_bought,
    rate_lease,
    tariff_parts,
)
from tests.money import equalities
from tests.money.cases import BOOKS, CHANGES, CURRENCIES, ZONES, book_of, case_of, cases, metered
from tests.money.equalities import check, check_quota

EUR = BOOKS["Europe/Berlin", ("EUR", 2)]
NOON = datetime(2026, 11, 24, 11, tzinfo=UTC)
drawn = st.integers(0, 2**64).map(lambda seed: case_of(random.Random(seed)))


@settings(max_examples=400)
@given(drawn)
def test_what_was_quoted_is_what_is_invoiced_or_the_difference_has_a_name(case: equalities.Case) -> None:
    check(case)


@settings(max_examples=200)
@given(drawn)
def test_a_quota_is_drawn_to_the_last_operation(case: equalities.Case) -> None:
    check_quota(case)


def test_the_cases_reach_from_next_to_nothing_to_a_million_millions() -> None:
    amounts = [equalities.quoted(case).amount for case in cases(600)]
    assert min(amounts) < Decimal("1e-15")
    assert max(amounts) > Decimal("1e12")


def _check_all(count: int) -> None:
    for case in cases(count):
        check(case)


@pytest.mark.parametrize("places", [2, 12, 20])
def test_a_lease_that_is_rounded_is_found(monkeypatch: pytest.MonkeyPatch, places: int) -> None:
    """The property bites: rounding what is metered, however finely, makes some case fail."""
    unit, wide = Decimal(1).scaleb(-places), Context(prec=120)

    def rounded(case: equalities.Case) -> list[Rating]:
        return [Rating(**{**one.__dict__, "amount": one.amount.quantize(unit, context=wide)}) for one in metered(case)]

    monkeypatch.setattr(equalities, "metered", rounded)
    with pytest.raises((AssertionError, RatingError)):
        _check_all(60)


def test_a_discount_that_is_kept_from_the_customer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(case: equalities.Case) -> list[Rating]:
        return [rate_bought(case.book, one) for one in metered(case)]

    honest = [equalities.named_differences(case, metered(case), None) for case in cases(40)]
    monkeypatch.setattr(equalities, "metered", without)
    assert [equalities.named_differences(case, without(case), None) for case in cases(40)] != honest


operations = st.integers(0, 10**18)
cycles = st.integers(0, 10**12)


@given(
    operations,
    cycles,
    st.sampled_from(sorted(EUR.classes)),
    st.sampled_from(["lpu", "lpu2", "host"]),
    st.integers(1, 10**9),
)
def test_nothing_that_holds_a_processor_is_free(
    operations: int, cycles: int, klass: str, processor: str, executions: int
) -> None:
    terms = Terms(processor, "float32", klass, "three_years", NOON, {"all": Decimal("0.0001")})
    if klass == "off_peak":
        terms = Terms(**{**terms.__dict__, "instant": NOON.replace(hour=1)})
    try:
        rating = rate(book=EUR, counts=Counts(operations, cycles), executions=executions, terms=terms)
    except NotPriced:
        assert operations == 0
        assert cycles == 0 or processor == "host"
    else:
        assert rating.amount > 0


@given(st.integers(1, 10**15), st.integers(1, 10**9), st.integers(1, 10**9))
def test_a_model_that_only_moves_data_is_billed_by_its_cycles(moved: int, cycles: int, executions: int) -> None:
    """Of two programs of equal cycles, the dense one by its operations, the other by what its processor could not do."""
    minimum = EUR.minimum("lpu", "float32")
    dense, mover = Counts(cycles * minimum + moved, cycles), Counts(0, cycles)
    terms = Terms("lpu", "float32", "standard")
    dear, least = (rate(book=EUR, counts=one, executions=executions, terms=terms) for one in (dense, mover))
    assert dear.billed_operations == dense.operations * executions
    assert least.billed_operations == cycles * minimum * executions
    equal = rate(book=EUR, counts=Counts(cycles * minimum, cycles), executions=executions, terms=terms)
    assert equal.amount == least.amount, "dense at the minimum and idle at it cost the same"


@given(
    st.sampled_from(ZONES),
    st.integers(0, 1),
    st.integers(-48 * 3600, 48 * 3600),
    st.fractions(Fraction(1, 10**9), Fraction(3600)),
    st.integers(1, 200),
    st.lists(st.integers(0, 199), max_size=8),
)
def test_an_execution_belongs_to_the_hour_of_its_first_cycle(
    zone: str, which: int, seconds: int, each: Fraction, executions: int, probes: list[int]
) -> None:
    book = BOOKS[zone, ("EUR", 2)]
    month, day = CHANGES[zone][which]
    start = datetime(2026, month, day, tzinfo=UTC) + timedelta(seconds=seconds)
    parts = tariff_parts(book, start=start, seconds=each, executions=executions)
    assert sum(part.executions for part in parts) == executions
    assert all(left.end <= right.start for left, right in pairwise(parts))
    owners = [part.period for part in parts for _ in range(part.executions)]
    for probe in probes:
        if probe < executions:
            first = start + timedelta(microseconds=int(probe * each * 10**6))
            assert owners[probe] == book.tariff.period_at(first).name


def test_a_night_of_changing_clocks_is_as_long_as_it_is() -> None:
    """00-06 local in the period night, one execution a minute over the whole local day."""
    lengths = {}
    for zone in ZONES:
        book = BOOKS[zone, ("EUR", 2)]
        for month, day in CHANGES[zone]:
            midnight = datetime(2026, month, day, tzinfo=book.tariff.tzinfo)
            parts = tariff_parts(book, start=midnight, seconds=Fraction(60), executions=12 * 60)
            lengths[zone, month] = parts[0].executions
    assert lengths == {
        ("America/New_York", 3): 300,
        ("America/New_York", 11): 420,
        ("Europe/Berlin", 3): 300,
        ("Europe/Berlin", 10): 420,
        ("Australia/Lord_Howe", 10): 330,
        ("Australia/Lord_Howe", 4): 390,
    }


def test_a_delay_of_the_platform_never_raises_the_tariff() -> None:
    """Bound at night and run by day: the night's price. Bound by day and run at night: the night's too."""
    counts, night = Counts(10**12, 1), NOON.replace(hour=1)
    for bound, ran, factor in ((night, NOON, "0.6"), (NOON, night, "0.6"), (NOON, NOON, "1.25")):
        terms = Terms("lpu", "float32", "hourly", instant=bound)
        rating = rate_lease(book=EUR, counts=counts, executions=10, terms=terms, start=ran, seconds=Fraction(1))
        assert rating.amount == Decimal("0.08") * Decimal(factor)


def test_the_month_s_free_operations_go_to_its_work_in_order() -> None:
    terms = Terms("lpu", "float32", "standard")
    ratings = [rate(book=EUR, counts=Counts(3 * 10**11, 1), executions=1, terms=terms) for _ in range(3)]
    free = free_tier(EUR, ratings)
    assert [(one.index, one.operations) for one in free] == [(0, 3 * 10**11), (1, 2 * 10**11)]
    assert exact_sum(one.amount for one in free) == Decimal("0.004")
    assert free_tier(EUR, ratings, taken=5 * 10**11) == []
    assert minimum_topup(EUR, Decimal("4.25")) == Decimal("0.75")
    assert minimum_topup(EUR, Decimal(7)) == 0


def test_a_guaranteed_interval_costs_two_while_reserved_and_three_fifths_unused() -> None:
    (case,) = [
        case
        for case in cases(400)
        if case.terms.form == "interval" and case.terms.commitment == "none" and not case.terms.discounts
    ][:1]
    quote = equalities.quoted(case)
    least, most = equalities.both_ends(case.book, quote)
    assert (least.amount, most.amount) == (quote.list_amount * Decimal("0.6"), quote.list_amount * 2)


def test_each_currency_rounds_by_its_own_exponent() -> None:
    for currency in CURRENCIES:
        book = book_of("Europe/Berlin", currency)
        assert book.currency.exponent == currency[1]
