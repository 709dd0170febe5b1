"""Compare the monthly costs of hosting options, and find the break-even volumes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from apps.planner.hosting.costs import Cost, Range, ranges_cheaper, searched, volumes
from apps.planner.hosting.measurement import Row

POOL, HOURLY, MONTHLY, SPOT, OWN, UNPRICED = "pool", "hourly", "monthly", "spot", "own", "unpriced"
MOST = 10**15  # items per month; larger volumes are not searched


@dataclass(frozen=True)
class HostingOption:
    """A Takt pool, a rented machine or an owned machine, with its monthly cost.

    `rate` is in items per second on one machine. `latency` is in seconds per item; None if unknown. `certainty` is
    "exact", "bound" or "measured". `reasons` are the unmet requirements.
    """

    key: str
    kind: str
    title: str
    model: str
    machine: str
    certainty: str
    currency: str = ""
    cost: Cost | None = None
    rate: Fraction | None = None
    latency: Fraction | None = None
    note: str = ""
    reasons: tuple[str, ...] = ()
    measured_at: datetime | None = None
    expires_at: datetime | None = None
    source: str = ""

    @property
    def is_interruptible(self) -> bool:
        return self.kind == SPOT


@dataclass(frozen=True)
class BreakEven:
    """The volumes, up to `searched`, at which `place` costs no more than `against`."""

    place: HostingOption
    against: HostingOption
    ranges: tuple[Range, ...]
    searched: int

    @property
    def first(self) -> int | None:
        return self.ranges[0].first if self.ranges else None


@dataclass(frozen=True)
class Group:
    """The hosting options in one currency.

    `reference` is the option with which the others are compared. `volumes` are the rows of the table.
    """

    currency: str
    places: tuple[HostingOption, ...]
    reference: HostingOption | None
    break_evens: tuple[BreakEven, ...]
    volumes: tuple[int, ...]


def groups_of(places: Iterable[HostingOption], *, items: int, currency: str) -> list[Group]:
    """Group the options by currency, the plan's currency first. `items` is the monthly volume."""
    by_currency: dict[str, list[HostingOption]] = {currency: []}
    for place in places:
        if place.cost is not None:
            by_currency.setdefault(place.currency, []).append(place)
    return [_group(code, found, items) for code, found in by_currency.items() if found]


def _group(currency: str, places: list[HostingOption], items: int) -> Group:
    ordered = sorted(places, key=lambda place: (bool(place.reasons), _at(place, items)))  # stable for equal costs
    reference = _reference(ordered)
    found = tuple(_break_evens(ordered, reference))
    marks = [volume for one in found for volume in _marks(one)]
    return Group(currency, tuple(ordered), reference, found, tuple(volumes(items, marks)))


def _at(place: HostingOption, items: int) -> Fraction:
    assert place.cost is not None
    return place.cost.of(items)


def _reference(ordered: Sequence[HostingOption]) -> HostingOption | None:
    for kind in (POOL, HOURLY):
        found = next((place for place in ordered if place.kind == kind and not place.reasons), None)
        if found is not None:
            return found
    return None


def _break_evens(places: Sequence[HostingOption], reference: HostingOption | None) -> Iterable[BreakEven]:
    hours = {place.machine: place for place in places if place.kind == HOURLY}
    for place in places:
        if reference is not None and place is not reference and place.kind != POOL:
            yield _break_even(place, reference)
        hour = hours.get(place.machine)
        if place.kind == MONTHLY and hour is not None and hour is not reference:
            yield _break_even(place, hour)


def _break_even(place: HostingOption, against: HostingOption) -> BreakEven:
    assert place.cost is not None
    assert against.cost is not None
    until = searched(place.cost, against.cost, MOST)
    return BreakEven(place, against, ranges_cheaper(place.cost, against.cost, MOST), until)


def _marks(found: BreakEven) -> list[int]:
    if not found.ranges:
        return []
    first = found.ranges[0]
    return [volume for volume in (first.first, first.last + 1) if 1 < volume <= found.searched]


def row_chosen(
    rows: Iterable[Row], *, leading: str | None, item: Mapping[str, int], latency: Fraction | None
) -> tuple[Row, Fraction] | None:
    """Return the fastest row whose latency is at most `latency`, with its rate in items per second.

    If every row exceeds `latency`, return the row with the lowest latency. Return None if no row was measured with items
    of these sizes.
    """
    fitting = [(row, rate) for row in rows if (rate := item_rate(row, leading, item)) is not None]
    if not fitting:
        return None
    within = [pair for pair in fitting if latency is None or pair[0].latency <= latency]
    if within:
        return max(within, key=lambda pair: (pair[1], -pair[0].p95_ns))
    return min(fitting, key=lambda pair: pair[0].p95_ns)


def item_rate(row: Row, leading: str | None, item: Mapping[str, int]) -> Fraction | None:
    """Return a row's rate in items per second; None if the row's batch does not consist of whole items of these sizes."""
    if set(row.dims) != set(item):
        return None
    size = 1 if leading is None else item[leading]
    if row.batch % size or any(row.dims[name] != item[name] for name in item if name != leading):
        return None
    return row.rate / size
