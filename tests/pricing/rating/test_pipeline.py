from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.rating import Counts, NotPriced, Rating, RatingError, Terms, rate
from apps.pricing.rating.terms import LARGER, PER_TERA, PLUS, SMALLER, TIMES
from tests.pricing.rating.books import book

BOOK = book()
NIGHT = datetime(2026, 11, 24, 1, tzinfo=UTC)  # 02:00 in Berlin, a Tuesday
NOON = datetime(2026, 11, 24, 11, tzinfo=UTC)

counts = st.builds(Counts, operations=st.integers(0, 10**15), cycles=st.integers(1, 10**10))
executions = st.integers(1, 10**13)
terms = st.builds(
    Terms,
    processor_class=st.sampled_from(["lpu", "lpu2"]),
    precision=st.sampled_from(["float32", "float16", "int8"]),
    klass=st.sampled_from(sorted(BOOK.classes)),
    commitment=st.sampled_from(sorted(BOOK.commitments)),
    instant=st.just(NIGHT),
    discounts=st.dictionaries(st.sampled_from(["negotiated", "launch"]), st.decimals("0.1", "1", places=4), max_size=2),
)


def _independent(counts: Counts, executions: int, terms: Terms) -> Fraction:
    """The same price, written down again in fractions from the words of the price book alone."""
    document = BOOK.to_json()
    operations = max(counts.operations, counts.cycles * document["minimum_operations_per_cycle"][terms.processor_class])
    listed = Fraction(operations * executions, 10**12) * Fraction(
        document["prices"][terms.processor_class][terms.precision]
    )
    price_class = document["classes"][terms.klass]
    discount = min([Fraction(price_class["discount"]), *map(Fraction, terms.discounts.values())])
    price = listed * Fraction(price_class["surcharge"]) * discount * Fraction(document["commitments"][terms.commitment])
    return max(price, listed * Fraction(document["floor"]))


@given(counts, executions, terms)
def test_the_amount_is_the_exact_product(counts: Counts, executions: int, terms: Terms) -> None:
    rating = rate(book=BOOK, counts=counts, executions=executions, terms=terms)
    assert Fraction(rating.amount) == _independent(counts, executions, terms)
    assert rating.amount > 0


@given(counts, st.lists(executions, min_size=1, max_size=6), terms, st.booleans())
def test_the_parts_of_a_contract_sum_to_the_whole(counts: Counts, parts: list[int], terms: Terms, unused: bool) -> None:
    whole = rate(book=BOOK, counts=counts, executions=sum(parts), terms=terms, unused=unused)
    pieces = [rate(book=BOOK, counts=counts, executions=n, terms=terms, unused=unused).amount for n in parts]
    assert sum(map(Fraction, pieces)) == Fraction(whole.amount)


def _computed(left: Fraction, right: Fraction) -> dict[str, Fraction]:
    """What each operation of a step makes of its two sides, in fractions."""
    return {
        TIMES: left * right,
        PER_TERA: left * right / 10**12,
        LARGER: max(left, right),
        SMALLER: min(left, right),
        PLUS: left + right,
    }


@given(counts, executions, terms, st.booleans())
def test_every_step_follows_from_its_input_and_factor(
    counts: Counts, executions: int, terms: Terms, unused: bool
) -> None:
    rating = rate(book=BOOK, counts=counts, executions=executions, terms=terms, unused=unused)
    for step in rating.steps:
        left, right = Fraction(step.input), Fraction(step.factor)
        expected = _computed(left, right)[step.operation]
        assert Fraction(step.result) == expected
        assert step.rule.endswith(".")
    assert rating.steps[-1].result == rating.amount


@given(counts, executions, terms, st.booleans())
def test_a_rating_survives_json(counts: Counts, executions: int, terms: Terms, unused: bool) -> None:
    rating = rate(book=BOOK, counts=counts, executions=executions, terms=terms, unused=unused)
    assert Rating.from_json(json.loads(json.dumps(rating.to_json()))).to_json() == rating.to_json()


@given(counts, executions, terms)
def test_nothing_is_sold_below_the_floor_and_no_discount_is_added_to_another(
    counts: Counts, executions: int, terms: Terms
) -> None:
    rating = rate(book=BOOK, counts=counts, executions=executions, terms=terms)
    assert rating.amount >= rating.step("list").result * BOOK.floor
    assert rating.step("discount").factor == min([BOOK.classes[terms.klass].discount, *terms.discounts.values()])


def test_a_device_that_waits_is_billed_by_its_cycles() -> None:
    starved = rate(book=BOOK, counts=Counts(10, 1000), executions=3, terms=Terms("lpu", "int8", "standard"))
    assert (starved.counted_operations, starved.billed_operations) == (30, 3 * 1000 * 1024)


def test_the_classes_cost_what_the_book_says() -> None:
    def cost(klass: str) -> Decimal:
        terms = Terms("lpu", "float32", klass, instant=NIGHT)
        return rate(book=BOOK, counts=Counts(10**12, 1), executions=1000, terms=terms).amount

    assert {name: cost(name) / 8 for name in BOOK.classes} == {
        "standard": Decimal(1),
        "priority": Decimal("1.75"),
        "guaranteed": Decimal(2),
        "off_peak": Decimal("0.6"),
        "batch": Decimal("0.5"),
        "gap_fill": Decimal("0.3"),
    }


def test_off_peak_is_refused_by_day_and_without_an_instant() -> None:
    for instant, said in ((NOON, "is not an off-peak hour"), (None, "needs the instant")):
        with pytest.raises(NotPriced, match=said):
            rate(book=BOOK, counts=Counts(1, 1), executions=1, terms=Terms("lpu", "int8", "off_peak", instant=instant))


def test_a_program_of_nothing_is_not_free() -> None:
    with pytest.raises(NotPriced, match="nothing to bill"):
        rate(book=BOOK, counts=Counts(0, 10), executions=1, terms=Terms("host", "float32", "standard"))


@pytest.mark.parametrize("executions", [0, -1, 10**18 + 1])
def test_impossible_volumes_are_refused(executions: int) -> None:
    with pytest.raises(RatingError, match="cannot be priced"):
        rate(book=BOOK, counts=Counts(1, 1), executions=executions, terms=Terms("lpu", "int8", "standard"))


def test_an_instant_must_say_its_offset() -> None:
    naive = (NIGHT + timedelta(0)).replace(tzinfo=None)
    with pytest.raises(RatingError, match="without a time zone"):
        rate(book=BOOK, counts=Counts(1, 1), executions=1, terms=Terms("lpu", "int8", "off_peak", instant=naive))


def test_unused_work_costs_the_share_that_its_class_states() -> None:
    def unused(klass: str) -> Decimal:
        terms = Terms("lpu", "float32", klass, instant=NIGHT)
        return rate(book=BOOK, counts=Counts(10**12, 1), executions=1000, terms=terms, unused=True).amount

    assert unused("guaranteed") == Decimal("4.8")
    assert unused("standard") == 0
