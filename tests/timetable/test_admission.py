"""Placing work is complete, never overlaps and never leaves its limits; checked against trying everything."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.timetable.admission import (
    Interval,
    Limits,
    Placement,
    Rated,
    Refusal,
    Work,
    clip,
    free_between,
    intersect,
    merge,
    place,
    total,
)
from tests.tiers import some

HORIZON = 60
points = st.integers(0, HORIZON)
intervals = st.lists(st.builds(lambda a, b: Interval(min(a, b), max(a, b)), points, points), max_size=6)
fractions = st.fractions(min_value=Fraction(1, 3), max_value=8, max_denominator=7)
works = st.builds(Work, count=st.integers(1, 12), each=fractions, setup=st.just(Fraction(0)) | fractions)
devices = st.dictionaries(st.sampled_from(["a", "b", "c"]), intervals.map(merge), min_size=1)
rated = st.lists(
    st.builds(lambda a, b, rank: Rated(min(a, b), max(a, b), rank), points, points, st.integers(0, 2)), max_size=4
).map(tuple)
limits = st.builds(
    Limits, not_before=points, not_after=points, allowed=st.none() | rated, windows_max=st.integers(1, 3)
)


def points_of(found: list[Interval]) -> set[int]:
    return {point for one in found for point in range(one.start, one.end)}


def best_by_trying(work: Work, free: dict[str, list[Interval]], limit: Limits) -> tuple[int, int] | None:
    """(rank, end) of the best placement, found point by point and over every choice of slots."""
    ranks = sorted({one.rank for one in limit.allowed}) if limit.allowed is not None else [0]
    for rank in ranks:
        slots: list[Interval] = []
        for usable in free.values():
            open_points = {point for point in points_of(usable) if limit.not_before <= point < limit.not_after}
            if limit.allowed is not None:
                chosen = [Interval(one.start, one.end) for one in limit.allowed if one.rank <= rank]
                open_points &= points_of(chosen)
            slots += merge(Interval(point, point + 1) for point in open_points)
        for end in range(HORIZON + 1):
            cut = [Interval(slot.start, min(slot.end, end)) for slot in slots]
            for size in range(1, limit.windows_max + 1):
                if any(
                    sum(work.capacity(one.length) for one in some) >= work.count for some in combinations(cut, size)
                ):
                    return rank, end
    return None


@settings(max_examples=some(100))
@given(works, devices, limits)
def test_a_fit_is_found_whenever_there_is_one_and_it_is_the_best(
    work: Work, free: dict[str, list[Interval]], limit: Limits
) -> None:
    found = place(work, free, limit)
    best = best_by_trying(work, free, limit)
    if best is None:
        assert isinstance(found, Refusal)
        assert found.room < work.count
    else:
        assert isinstance(found, Placement)
        assert (found.rank, found.end) == best


@settings(max_examples=some(100))
@given(works, devices, limits)
def test_windows_never_overlap_and_never_leave_free_time_or_limits(
    work: Work, free: dict[str, list[Interval]], limit: Limits
) -> None:
    found = place(work, free, limit)
    if isinstance(found, Refusal):
        return
    assert sum(piece.count for piece in found.windows) == work.count
    assert len(found.windows) <= limit.windows_max
    for piece in found.windows:
        inside = {point for point in points_of(free[piece.device]) if limit.not_before <= point < limit.not_after}
        if limit.allowed is not None:
            inside &= points_of([Interval(one.start, one.end) for one in limit.allowed if one.rank <= found.rank])
        assert set(range(piece.start, piece.end)) <= inside
        assert piece.count >= 1
        assert piece.end - piece.start == work.length(piece.count)
    for device in free:
        mine = sorted((piece.start, piece.end) for piece in found.windows if piece.device == device)
        assert all(first[1] <= second[0] for first, second in pairwise(mine))


@settings(max_examples=some(100))
@given(works, st.integers(1, 40))
def test_a_window_of_the_stated_length_holds_exactly_that_many(work: Work, count: int) -> None:
    length = work.length(count)
    assert length >= work.setup + count * work.each > length - 1
    assert work.capacity(length) >= count
    assert work.capacity(length - 1) < count


@given(intervals, intervals)
def test_sums_of_intervals_agree_with_sums_of_points(left: list[Interval], right: list[Interval]) -> None:
    assert points_of(intersect(left, right)) == points_of(left) & points_of(right)
    assert points_of(free_between(left, 5, 40)) == set(range(5, 40)) - points_of(left)
    assert total(left) == len(points_of(left))
    assert points_of(clip(left, 7, 30)) == points_of(left) & set(range(7, 30))


def test_cheap_time_is_taken_before_early_time() -> None:
    limit = Limits(0, 100, allowed=(Rated(0, 50, 1), Rated(50, 100, 0)))
    found = place(Work(10, Fraction(1)), {"d": [Interval(0, 100)]}, limit)
    assert isinstance(found, Placement)
    assert found.windows[0].start == 50


def test_a_refusal_says_how_much_would_have_fitted() -> None:
    found = place(Work(10, Fraction(1)), {"d": [Interval(0, 4), Interval(6, 9)]}, Limits(0, 100))
    assert found == Refusal(needed=10, largest=4, free=7, room=4)


def test_splitting_pays_the_setup_in_every_window() -> None:
    work = Work(4, Fraction(10), setup=Fraction(5))
    free = {"a": [Interval(0, 26)], "b": [Interval(0, 26)]}
    assert isinstance(place(work, free, Limits(0, 100)), Refusal)
    found = place(work, free, Limits(0, 100, windows_max=2))
    assert isinstance(found, Placement)
    assert [(piece.device, piece.end, piece.count) for piece in found.windows] == [("a", 25, 2), ("b", 25, 2)]
