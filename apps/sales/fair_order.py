"""The order in which standing requests are served when a pool has free time, and the time that is reserved for old requests.

Pure: no Django, no clock.

The rule (docs/adr/0087):

- A request is *protected* once it has waited a day, or a quarter of the time between its filing and its deadline if that is
  shorter, or once 20 requests that were filed after it were served on the pool. Protected requests come first, by the
  instant of filing.
- All others are served round-robin: the first request of each organisation, then the second of each, and so on. In each
  round the organisation that was served least recently comes first. Within an organisation the order is that of filing.
- The four oldest protected requests that do not fit each have a *claim*: free time that no later request may use. For a
  request in one window, it is the free part of the stretch that lacks the least time; for a divisible request, the largest
  free pieces. So a claim never becomes smaller, and the request is served as soon as the time that it lacks is released.

Times are whole microseconds.
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
    """A waiting request. `passed`: the number of requests filed later that have been served on the pool."""

    key: Hashable
    organisation: Hashable
    filed: int
    until: int
    passed: int = 0


class Claim(NamedTuple):
    """Free time on each device that only one protected request may use, and the amount of time that is still missing there."""

    kept: dict[str, list[Interval]]
    missing: int


def protected_from(one: Waiting) -> int:
    """Return the instant from which a request is protected because of its age."""
    return one.filed + min(WAITED_MOST, (one.until - one.filed) // WAITED_SHARE)


def is_protected(one: Waiting, now: int) -> bool:
    """Whether the request is protected: only it may use the time that it claims."""
    return now >= protected_from(one) or one.passed >= PASSED_MOST


def order(waiting: Iterable[Waiting], served: Mapping[Hashable, int], now: int) -> tuple[list[Waiting], list[Waiting]]:
    """Return the protected requests and the others, each in the order in which they are tried.

    `served`: the time at which the pool last served each organisation. Organisations without an entry come first.
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
    """Return the claim of work that has no room: the free part of the range of time in which the least time is missing.

    For work in one window, the range is the stretch of a device with the least sold time (the first of equal
    stretches). For divisible work, the claim consists of the largest free pieces, up to the allowed number of windows.
    """
    return _claim_of_pieces(work, free, limits) if limits.windows_max > 1 else _claim_of_stretch(work, free, limits)


def without(free: Free, claims: Iterable[Claim]) -> dict[str, list[Interval]]:
    """Return the free time outside all claims."""
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
    """Return the candidate starts of a stretch; one of them has the most free time.

    A stretch that begins within a slot has no less free time if it moves to the start of the slot, and one that begins
    between slots has no less free time if it moves to the next slot.
    """
    last = inside.end - length
    if last < inside.start:
        return []
    edges = {inside.start, last, *(one.start for one in slots)}
    return sorted(edge for edge in edges if inside.start <= edge <= last)
