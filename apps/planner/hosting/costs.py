"""The monthly cost of a machine by volume, and break-even volumes.

A volume is a whole number of items per month. A month has 730 hours. Costs are exact fractions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

HOURS = 730
SECONDS_PER_HOUR = 3600
WATTS = 1000  # of a kilowatt
UNITS_MAX = 200  # the maximum number of machines for which ranges are computed


@dataclass(frozen=True)
class Cost:
    """The cost of N items per month: max(`least`, machines * `fixed` + N * `each`).

    The number of machines is N / `capacity`, rounded up. `capacity` is None for a machine that is charged only while it
    works.
    """

    each: Fraction
    fixed: Fraction = Fraction(0)
    capacity: Fraction | None = None
    least: Fraction = Fraction(0)

    def machines(self, items: int) -> int:
        """Return the number of machines that a volume needs."""
        return 1 if self.capacity is None else max(1, -(-items // self.capacity))

    def of(self, items: int) -> Fraction:
        """Return the monthly cost of `items`, which must be at least 1."""
        return max(self.least, self.machines(items) * self.fixed + items * self.each)

    def last_of(self, machines: int) -> int:
        """Return the largest monthly volume that these machines can process."""
        assert self.capacity is not None
        return machines * self.capacity // 1


def rented_hourly(price_per_hour: Fraction, rate: Fraction) -> Cost:
    """Return the cost of a machine that is charged only while it works. `rate` is in items per second."""
    return Cost(each=price_per_hour / (rate * SECONDS_PER_HOUR))


def rented_monthly(price_per_hour: Fraction, rate: Fraction) -> Cost:
    """Return the cost of machines that are rented for whole months. `rate` is in items per second."""
    return Cost(each=Fraction(0), fixed=price_per_hour * HOURS, capacity=rate * SECONDS_PER_HOUR * HOURS)


@dataclass(frozen=True)
class Owned:
    """The costs of an owned machine.

    `capital` is depreciated evenly over `months`. `watts` is the power drawn during work. `pue` is the building's power
    usage effectiveness. `energy_price` is per kilowatt-hour. `utilisation` is the usable share of the hours in a month.
    """

    capital: Fraction
    months: int
    watts: Fraction
    energy_price: Fraction
    pue: Fraction
    utilisation: Fraction

    @property
    def energy_per_hour(self) -> Fraction:
        return self.watts / WATTS * self.pue * self.energy_price

    def cost(self, rate: Fraction) -> Cost:
        """Return the monthly cost at `rate` items per second."""
        return Cost(
            each=self.energy_per_hour / (rate * SECONDS_PER_HOUR),
            fixed=self.capital / self.months,
            capacity=rate * SECONDS_PER_HOUR * HOURS * self.utilisation,
        )


@dataclass(frozen=True)
class Range:
    """A range of volumes; `first` and `last` are included."""

    first: int
    last: int


def ranges_cheaper(place: Cost, other: Cost, most: int) -> tuple[Range, ...]:
    """Return the volumes up to `most` at which `place` costs no more than `other`, as ascending ranges.

    Volumes that need more than `UNITS_MAX` machines are not searched.
    """
    found: list[Range] = []
    for first, last in _pieces(place, other, most):
        kept = _where(place, other, first, last)
        if kept is None:
            continue
        if found and found[-1].last + 1 == kept.first:
            kept = Range(found.pop().first, kept.last)
        found.append(kept)
    return tuple(found)


def searched(place: Cost, other: Cost, most: int) -> int:
    """Return the last volume that `ranges_cheaper` searches."""
    ends = [cost.last_of(UNITS_MAX) for cost in (place, other) if cost.capacity is not None and cost.fixed]
    return max(0, min([most, *ends]))


def _pieces(place: Cost, other: Cost, most: int) -> Iterator[tuple[int, int]]:
    until = searched(place, other, most)
    ends = sorted({end for end in (*_bends(place, until), *_bends(other, until), until) if 1 <= end <= until})
    first = 1
    for end in ends:
        yield first, end
        first = end + 1


def _bends(cost: Cost, until: int) -> Iterable[int]:
    fulls: list[int] = []
    if cost.capacity is not None and cost.fixed:
        machines = 1
        while (full := cost.last_of(machines)) < until:
            fulls.append(full)
            machines += 1
    if not cost.least:
        return fulls
    starts = [1, *(full + 1 for full in fulls)]
    minima = []
    for first, last in zip(starts, [*fulls, until], strict=True):
        if cost.each and first <= last:
            minima.append((cost.least - cost.machines(first) * cost.fixed) / cost.each // 1)
    return [*fulls, *(int(one) for one in minima)]


def _where(place: Cost, other: Cost, first: int, last: int) -> Range | None:
    at_first, at_last = other.of(first) - place.of(first), other.of(last) - place.of(last)
    if at_first >= 0 and at_last >= 0:
        return Range(first, last)
    if at_first < 0 and at_last < 0:
        return None
    slope = (at_last - at_first) / (last - first)
    if at_first < 0:
        return Range(first + int(-(at_first // slope)), last)  # ceil(-at_first / slope)
    return Range(first, first + int(at_first // -slope))


def volumes(items: int, marks: Iterable[int]) -> list[int]:
    """Return the volumes to show: `items`, `marks`, and round numbers around them."""
    wanted = sorted({items, *marks})
    low, high = max(1, wanted[0] // 10), wanted[-1] * 10
    steps = [factor * 10**power for power in range(len(str(low)) - 1, len(str(high))) for factor in (1, 2, 5)]
    return sorted({*wanted, *(step for step in steps if low <= step <= high)})
