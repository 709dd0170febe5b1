"""Compare the monthly costs of hosting options, and find the volumes at which one option is cheaper than another. Pure."""

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
    """A hosting option: a Takt pool, a rented machine or an owned machine, with its cost.

    `key` is unique in the comparison. `kind` is one of the constants above. `machine` names the machine; its hourly,
    monthly and spot options share this name. `certainty` is "exact", "bound" or "measured". `rate` is the number of
    items per second on one machine. `latency` is the time in seconds for one item; None if unknown. `reasons` are the
    requirements that the option does not meet.
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
        """Whether the machine can be withdrawn at any time."""
        return self.kind == SPOT


@dataclass(frozen=True)
class BreakEven:
    """The ranges of volumes, up to `searched`, at which `place` does not cost more than `against`."""

    place: HostingOption
    against: HostingOption
    ranges: tuple[Range, ...]
    searched: int

    @property
    def first(self) -> int | None:
        """The lowest volume at which `place` does not cost more than `against`; None if no such volume was found."""
        return self.ranges[0].first if self.ranges else None


@dataclass(frozen=True)
class Group:
    """The hosting options in one currency.

    `reference` is the cheapest pool that meets the requirements or, if there is none, the machine with the lowest
    hourly price. `volumes` are the rows of the table.
    """

    currency: str
    places: tuple[HostingOption, ...]
    reference: HostingOption | None
    break_evens: tuple[BreakEven, ...]
    volumes: tuple[int, ...]


def groups_of(places: Iterable[HostingOption], *, items: int, currency: str) -> list[Group]:
    """Group the options by currency, with their costs at volumes around `items` per month. The plan's currency is first."""
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
    """Yield the break-evens of each machine with the reference, and of monthly with hourly rental of the same machine."""
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
    """Return the first volume of the first cheaper range, and the volume just after that range.

    A volume is left out if it is 1 or was not searched.
    """
    if not found.ranges:
        return []
    first = found.ranges[0]
    return [volume for volume in (first.first, first.last + 1) if 1 < volume <= found.searched]


def row_chosen(
    rows: Iterable[Row], *, leading: str | None, item: Mapping[str, int], latency: Fraction | None
) -> tuple[Row, Fraction] | None:
    """Return the best row of a measurement, with its rate in items per second; None if no row measured such items.

    The best row has the highest rate among the rows within the required latency. If no row is within the latency, the
    best row is the one with the lowest latency. `item` gives the sizes of one item; a batch may contain several items.
    """
    fitting = [(row, rate) for row in rows if (rate := item_rate(row, leading, item)) is not None]
    if not fitting:
        return None
    within = [pair for pair in fitting if latency is None or pair[0].latency <= latency]
    if within:
        return max(within, key=lambda pair: (pair[1], -pair[0].p95_ns))
    return min(fitting, key=lambda pair: pair[0].p95_ns)


def item_rate(row: Row, leading: str | None, item: Mapping[str, int]) -> Fraction | None:
    """Return the items per second of a row.

    None if the row was measured at other sizes, or if its batch is not a whole number of items.
    """
    if set(row.dims) != set(item):
        return None
    size = 1 if leading is None else item[leading]
    if row.batch % size or any(row.dims[name] != item[name] for name in item if name != leading):
        return None
    return row.rate / size
