"""Late cancellation: part of the book's format, a rating of its own, and rules of time that hold for every contract."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from apps.pricing.rating import (
    BookError,
    Counts,
    NotPriced,
    PriceBookDocument,
    Rating,
    RatingError,
    Terms,
    Unused,
    book_from_json,
    canonical_json,
    exact_sum,
    free_tier,
    free_until,
    late_before,
    late_counts,
    merge_ratings,
    rate,
    seconds_from,
)
from tests.pricing.rating.books import book, document

BEGIN = datetime(2026, 11, 24, 10, 30, tzinfo=UTC)
COUNTS = Counts(704_000_000, 90_000)
HOUR = timedelta(hours=1)


def _book(share: str = "0.4", notice: int = 1440, klass: str = "standard", **more: Any) -> PriceBookDocument:
    def change(given: dict[str, Any]) -> None:
        given["classes"][klass]["late_cancellation"] = {"notice_minutes": notice, "share": share}
        given.update(more)

    return book(change)


def test_it_belongs_to_the_books_digest_and_comes_back_equal() -> None:
    priced = _book("0.40")
    assert priced.to_json()["classes"]["standard"]["late_cancellation"] == {"notice_minutes": 1440, "share": "0.4"}
    assert book_from_json(priced.to_json()) == priced
    assert priced.digest != book().digest
    assert all("late_cancellation" not in one for one in book().to_json()["classes"].values())


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"share": "0.4"},
        {"notice_minutes": 60, "share": "0"},
        {"notice_minutes": 60, "share": "1.1"},
        {"notice_minutes": -1, "share": "0.4"},
        {"notice_minutes": 89281, "share": "0.4"},
        {"notice_minutes": 1.5, "share": "0.4"},
        {"notice_minutes": 60, "share": 0.4},
        {"notice_minutes": 60, "share": "0.4", "more": 1},
    ],
)
def test_what_is_no_term_is_refused_with_its_place(value: Any) -> None:
    with pytest.raises(BookError, match=r"classes\.standard\.late_cancellation"):
        book_from_json(document(lambda d: d["classes"]["standard"].update(late_cancellation=value)))


def test_it_never_costs_more_than_is_credited_for_work_that_was_missed() -> None:
    assert _book("0.4", missed_guarantee="0.4").missed_guarantee == Decimal("0.4")
    with pytest.raises(BookError, match=r"share is 0\.4, more than the 0\.3 of missed_guarantee"):
        _book("0.4", missed_guarantee="0.3")


def test_a_class_without_it_has_no_price_for_it() -> None:
    with pytest.raises(NotPriced, match="no price for late cancellation in class 'standard'"):
        rate(
            book=book(), counts=COUNTS, executions=1, terms=Terms("lpu", "float32", "standard"), unused=True, late=True
        )
    with pytest.raises(RatingError, match="Only unused executions"):
        rate(book=_book(), counts=COUNTS, executions=1, terms=Terms("lpu", "float32", "standard"), late=True)


@given(
    st.sampled_from(["standard", "priority", "off_peak", "batch", "guaranteed", "gap_fill"]),
    st.decimals("0.0001", 1, places=4, allow_nan=False),
    st.integers(1, 10**9),
    st.integers(0, 10**9),
)
def test_with_what_is_charged_for_unused_it_is_never_more_than_the_price(
    klass: str, share: Decimal, first: int, second: int
) -> None:
    priced = _book(f"{share:f}", klass=klass)
    terms = Terms("lpu", "float32", klass, instant=BEGIN.replace(hour=1))

    def of(executions: int, **kind: bool) -> Rating:
        return rate(book=priced, counts=COUNTS, executions=executions, terms=terms, **kind)

    late, unused, bought = of(first, unused=True, late=True), of(first, unused=True), of(first)
    both = exact_sum([late.amount, unused.amount])
    assert 0 <= late.amount <= bought.amount
    assert both == max(unused.amount, bought.amount * share)
    assert both <= bought.amount
    assert (late.billed_operations, late.unused, late.late) == (0, True, True)
    assert late.text == canonical_json(late.to_json())
    assert Rating.from_json(late.to_json()) == late
    assert free_tier(_book(free_tera_operations="5"), [late]) == []
    if second:  # released in two steps, or in one
        parts = [late, of(second, unused=True, late=True)]
        assert merge_ratings(priced, parts).amount == of(first + second, unused=True, late=True).amount
    with pytest.raises(RatingError, match="one line"):
        merge_ratings(priced, [late, unused])


_spans = st.tuples(st.integers(0, 5000), st.integers(1, 3000))  # minutes from BEGIN, and for how many
_reserved = st.lists(_spans, min_size=1, max_size=6).map(
    lambda spans: [
        (BEGIN + timedelta(minutes=start), BEGIN + timedelta(minutes=start + length)) for start, length in spans
    ]
)
_lines = st.lists(
    st.builds(Unused, st.integers(0, 5000), st.fractions(Fraction(1, 1000), 200, max_denominator=1000)),
    min_size=1,
    max_size=3,
)
_notices = st.integers(0, 4000)
_after = st.integers(-6000, 12000).map(lambda minutes: BEGIN + timedelta(minutes=minutes))


@given(_lines, _reserved, _notices, _after, st.integers(0, 3000))
def test_later_is_never_cheaper(
    lines: list[Unused], reserved: list[Any], notice: int, released: datetime, more: int
) -> None:
    def late(at: datetime) -> list[int]:
        return late_counts(lines, reserved=reserved, released=at, notice_minutes=notice)

    now, then = late(released), late(released + timedelta(minutes=more))
    assert all(0 <= a <= line.count for a, line in zip(now, lines, strict=True))
    assert all(before <= after for before, after in zip(now, then, strict=True)), "of each line"
    assert late(max(end for _, end in reserved) + HOUR) == [line.count for line in lines], "in the end all of it"


@given(_lines, _reserved, _notices, _after)
def test_it_costs_nothing_before_the_notice_and_the_instant_that_is_named(
    lines: list[Unused], reserved: list[Any], notice: int, released: datetime
) -> None:
    needed = sum((line.count * line.seconds for line in lines), start=Fraction(0))
    assume(needed)
    until = free_until(lines, reserved=reserved, notice_minutes=notice)
    room = seconds_from(reserved, min(start for start, _ in reserved))
    assert (until is None) == (room < needed)
    if until is None:
        return
    assert until == until.replace(minute=0, second=0, microsecond=0)
    late = late_counts(lines, reserved=reserved, released=released, notice_minutes=notice)
    if released < until:
        assert not any(late)
    first = min(start for start, _ in reserved)
    if late_before(released, notice_minutes=notice) <= first:
        assert not any(late)
        assert released < until
    # An hour later at most one execution's worth may still be in good time.
    once = late_counts(lines, reserved=reserved, released=until, notice_minutes=notice)
    left = seconds_from(reserved, late_before(until, notice_minutes=notice))
    assert left < needed
    assert any(once) or left + sum(line.seconds for line in lines) >= needed


@given(_reserved, _notices, _after, st.integers(1, 3000), st.fractions(Fraction(1, 100), 60, max_denominator=100))
def test_what_is_used_first_was_reserved_first(
    reserved: list[Any], notice: int, released: datetime, count: int, seconds: Fraction
) -> None:
    """Using one more execution never makes more of the rest late, and takes at most that one off."""
    before = late_counts([Unused(count, seconds)], reserved=reserved, released=released, notice_minutes=notice)
    after = late_counts([Unused(count - 1, seconds)], reserved=reserved, released=released, notice_minutes=notice)
    assert 0 <= before[0] - after[0] <= 1


@given(_after, _notices)
def test_it_stays_the_same_for_the_rest_of_the_hour(released: datetime, notice: int) -> None:
    hour = released.replace(minute=0)
    assert late_before(released, notice_minutes=notice) == late_before(hour, notice_minutes=notice)
    assert late_before(hour + HOUR, notice_minutes=notice) - late_before(hour, notice_minutes=notice) == HOUR
    assert late_before(released, notice_minutes=notice) <= released + timedelta(minutes=notice)
