"""The order in which standing requests are served, and the free time that old requests claim.

Pure functions: no Django, no clock. Times are whole microseconds. The rule is in docs/adr/0087:

- A request becomes *protected* after a day, or after a quarter of the time from filing to deadline if this is shorter.
  A request also becomes protected after the pool has served 20 later requests. Protected requests are served first, in
  the order of filing.
- The other requests are served round-robin by organisation. In each round, the organisation that was served least
  recently comes first. Each organisation's requests are served in the order of filing.
- Each of the four oldest protected requests that do not fit has a *claim*: free time that no later request may use. For
  a request in one window, the claim is the free time of the stretch that is most nearly free. For a divisible request,
  the claim is the largest free pieces.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from apps.timetable.admission import Interval, Limits, Work, clip, free_between, intersect, merge, total

DAY = 24 * 3600 * 10**6
WAITED_SHARE = 4  # a request is protected after this part of its time: 1 / 4
WAITED_MOST = DAY
PASSED_MOST = 20
CLAIMS_MOST = 4

Free = Mapping[str, Sequence[Interval]]


class Waiting(NamedTuple):
    """A waiting request. `passed`: the number of later requests that the pool has already served."""

    key: Hashable
    organisation: Hashable
    filed: int
    until: int
    passed: int = 0


class Claim(NamedTuple):
    """Free time, by device, that only one protected request may use. `missing`: the time that is still needed."""

    kept: dict[str, list[Interval]]
    missing: int


def protected_from(one: Waiting) -> int:
    """Return the instant at which a request is old enough to be protected."""
    return one.filed + min(WAITED_MOST, (one.until - one.filed) // WAITED_SHARE)


def is_protected(one: Waiting, now: int) -> bool:
    """Return True if the request is protected."""
    return now >= protected_from(one) or one.passed >= PASSED_MOST


def order(waiting: Iterable[Waiting], served: Mapping[Hashable, int], now: int) -> tuple[list[Waiting], list[Waiting]]:
    """Return the protected requests and the other requests, both in the order of service.

    `served`: the time at which the pool last served each organisation.
    """
    by_filing = sorted(waiting, key=lambda one: (one.filed, str(one.key)))
    protected = [one for one in by_filing if is_protected(one, now)]
    turns: defaultdict[Hashable, int] = defaultdict(int)
    ranked = []
    for one in by_filing:
        if not is_protected(one, now):
            ranked.append(((turns[one.organisation], served.get(one.organisation, 0), one.filed, str(one.key)), one))
            turns[one.organisation] += 1
    return protected, [one for _, one in sorted(ranked, key=lambda pair: pair[0])]


def claim_of(work: Work, free: Free, limits: Limits) -> Claim:
    """Return the free time to claim for work that does not fit."""
    return _claim_of_pieces(work, free, limits) if limits.windows_max > 1 else _claim_of_stretch(work, free, limits)


def without(free: Free, claims: Iterable[Claim]) -> dict[str, list[Interval]]:
    """Return the free time that no claim covers."""
    taken: defaultdict[str, list[Interval]] = defaultdict(list)
    for claim in claims:
        for device, kept in claim.kept.items():
            taken[device] += kept
    return {
        device: [left for one in slots for left in free_between(taken.get(device, []), one.start, one.end)]
        for device, slots in free.items()
    }


def _usable(slots: Sequence[Interval], limits: Limits) -> list[Interval]:
    inside = clip(slots, limits.not_before, limits.not_after)
    return inside if limits.allowed is None else intersect(inside, _allowed(limits))


def _allowed(limits: Limits) -> list[Interval]:
    if limits.allowed is None:
        return [Interval(limits.not_before, limits.not_after)]
    return merge(clip((Interval(one.start, one.end) for one in limits.allowed), limits.not_before, limits.not_after))


def _claim_of_pieces(work: Work, free: Free, limits: Limits) -> Claim:
    pieces = [
        (device, one) for device in sorted(free) for one in _usable(free[device], limits) if work.capacity(one.length)
    ]
    pieces.sort(key=lambda pair: (-work.capacity(pair[1].length), pair[1].start, pair[0]))
    kept: defaultdict[str, list[Interval]] = defaultdict(list)
    left = work.count
    for device, one in pieces[: limits.windows_max]:
        count = min(work.capacity(one.length), left)
        if count:
            kept[device].append(Interval(one.start, one.start + work.length(count)))
            left -= count
    return Claim(dict(kept), -int(-(left * work.each) // 1))


def _claim_of_stretch(work: Work, free: Free, limits: Limits) -> Claim:
    length = work.length(work.count)
    best: tuple[tuple[int, int, str], str, list[Interval]] | None = None
    for device in sorted(free):
        slots = _usable(free[device], limits)
        for inside in _allowed(limits):
            for start in _starts(slots, inside, length):
                parts = clip(slots, start, start + length)
                rank = (length - total(parts), start, device)
                if best is None or rank < best[0]:
                    best = (rank, device, parts)
    if best is None:
        return Claim({}, length)
    (missing, _, _), device, parts = best
    return Claim({device: parts} if parts else {}, missing)


def _starts(slots: Sequence[Interval], inside: Interval, length: int) -> list[int]:
    # Moving a start back to the start of its slot, or forward to the next slot, loses no free time.
    last = inside.end - length
    if last < inside.start:
        return []
    edges = {inside.start, last, *(one.start for one in slots)}
    return sorted(edge for edge in edges if inside.start <= edge <= last)
