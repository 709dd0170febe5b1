"""Whose turn it is, and what is kept for whom: the rule of `apps/sales/fair_order.py` on any free time."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.sales.fair_order import DAY, PASSED_MOST, Waiting, claim_of, is_protected, order, without
from apps.timetable.admission import Interval, Limits, Placement, Work, free_between, merge, place, total

END = 60
SLOTS = st.lists(st.tuples(st.integers(0, END), st.integers(1, 12)), max_size=6).map(
    lambda pairs: merge(Interval(at, min(at + length, END)) for at, length in pairs)
)
FREE = st.fixed_dictionaries({"a": SLOTS, "b": SLOTS})
WORK = st.builds(
    Work, count=st.integers(1, 8), each=st.integers(1, 5).map(Fraction), setup=st.integers(0, 2).map(Fraction)
)
MOST = st.sampled_from([1, 3])


@settings(max_examples=150, deadline=None)
@given(free=FREE, work=WORK, most=MOST, other=WORK)
def test_what_is_missing_for_a_protected_request_never_grows_by_a_later_one(
    free: dict[str, list[Interval]], work: Work, most: int, other: Work
) -> None:
    limits = Limits(0, END, None, most)
    if isinstance(place(work, free, limits), Placement):
        return
    claim = claim_of(work, free, limits)
    offered = without(free, [claim])
    assert sum(map(total, offered.values())) + sum(map(total, claim.kept.values())) == sum(map(total, free.values()))
    placed = place(other, offered, Limits(0, END, None, 3))
    if isinstance(placed, Placement):
        taken = [(piece.device, Interval(piece.start, piece.end)) for piece in placed.windows]
        left = {
            device: [
                part
                for slot in slots
                for part in free_between([one for name, one in taken if name == device], slot.start, slot.end)
            ]
            for device, slots in free.items()
        }
        assert claim_of(work, left, limits).missing <= claim.missing


@settings(max_examples=100, deadline=None)
@given(free=FREE, length=st.integers(1, 20))
def test_a_claim_lies_where_the_least_is_missing_and_its_release_serves_the_request(
    free: dict[str, list[Interval]], length: int
) -> None:
    work, limits = Work(1, Fraction(length)), Limits(0, END)
    claim = claim_of(work, free, limits)
    tried = [
        length
        - total(
            [
                Interval(max(one.start, at), min(one.end, at + length))
                for one in slots
                if one.start < at + length and one.end > at
            ]
        )
        for slots in free.values()
        for at in range(END - length + 1)
    ]
    assert claim.missing == min(tried)
    if claim.missing == 0:
        assert isinstance(place(work, claim.kept, limits), Placement)


REQUESTS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 9), st.integers(1, 60), st.integers(0, 2 * PASSED_MOST)),
    max_size=12,
)


@settings(max_examples=100, deadline=None)
@given(rows=REQUESTS, served=st.dictionaries(st.sampled_from("xyz"), st.integers(1, 9)), now=st.integers(10, 40))
def test_protected_requests_come_first_by_age_and_the_others_in_turns(
    rows: list[tuple[str, int, int, int]], served: dict[str, int], now: int
) -> None:
    waiting = [
        Waiting(number, who, filed, filed + lasts, passed) for number, (who, filed, lasts, passed) in enumerate(rows)
    ]
    first, rest = order(waiting, dict(served), now)
    assert sorted(one.key for one in [*first, *rest]) == list(range(len(rows)))  # type: ignore[type-var]
    assert [one.filed for one in first] == sorted(one.filed for one in first)
    assert all(is_protected(one, now) for one in first)
    assert all(one.passed < PASSED_MOST and now - one.filed < min(DAY, (one.until - one.filed) / 4) for one in rest)
    for who in "xyz":
        mine = [number for number, one in enumerate(rest) if one.organisation == who]
        assert [rest[n].filed for n in mine] == sorted(rest[n].filed for n in mine)
        for here, there in pairwise(mine):  # nobody comes twice between two of another's
            between = [one.organisation for one in rest[here + 1 : there]]
            assert all(between.count(other) <= 2 for other in "xyz")
    leaders = [one.organisation for one in rest[: len({one.organisation for one in rest})]]
    assert len(set(leaders)) == len(leaders)
    assert [served.get(str(who), 0) for who in leaders] == sorted(served.get(str(who), 0) for who in leaders)
