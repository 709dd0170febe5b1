"""What a volume costs at a place, exactly, and from which volume on one place is cheaper than another.

A volume is a whole number of items a month; a month has 730 hours (8,760 / 12). Amounts are fractions of a currency.
Nothing is converted: places are compared only within one currency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

HOURS = 730
SECONDS_PER_HOUR = 3600
WATTS = 1000  # of a kilowatt
UNITS_MAX = 200  # machines up to which ranges are looked for; more are nobody's comparison


@dataclass(frozen=True)
class Cost:
    """The cost of N items a month: max(`least`, machines * `fixed` + N * `each`).

    `capacity`: the items that one machine does in a month; machines = ceil(N / capacity), at least one. None where no
    machine is paid for, only what is used. `most`: the items that there is room for at all, None without a limit.
    """

    each: Fraction
    fixed: Fraction = Fraction(0)
    capacity: Fraction | None = None
    least: Fraction = Fraction(0)

    def machines(self, items: int) -> int:
        """How many machines a volume takes; 1 where none is paid for as a whole."""
        return 1 if self.capacity is None else max(1, -(-items // self.capacity))

    def of(self, items: int) -> Fraction:
        """The cost of a volume of at least one item."""
        return max(self.least, self.machines(items) * self.fixed + items * self.each)

    def last_of(self, machines: int) -> int:
        """The largest volume that so many machines do; of one that does not reach an item a month, 0."""
        assert self.capacity is not None
        return machines * self.capacity // 1


def rented_hourly(price_per_hour: Fraction, rate: Fraction) -> Cost:
    """A machine that is rented while it works: `rate` items a second, time billed as it runs."""
    return Cost(each=price_per_hour / (rate * SECONDS_PER_HOUR))


def rented_monthly(price_per_hour: Fraction, rate: Fraction) -> Cost:
    """Machines that are rented for whole months, busy or not."""
    return Cost(each=Fraction(0), fixed=price_per_hour * HOURS, capacity=rate * SECONDS_PER_HOUR * HOURS)


@dataclass(frozen=True)
class Owned:
    """A machine of one's own. `capital` is written off over `months` evenly; `watts` are drawn while it works; `pue` is what
    the building draws for each watt of the machine; `energy_price`: of a kilowatt-hour; `utilisation`: the share of a month's
    hours in which it can be given work."""

    capital: Fraction
    months: int
    watts: Fraction
    energy_price: Fraction
    pue: Fraction
    utilisation: Fraction

    @property
    def energy_per_hour(self) -> Fraction:
        """What an hour of work draws, in money."""
        return self.watts / WATTS * self.pue * self.energy_price

    def cost(self, rate: Fraction) -> Cost:
        """At `rate` items a second."""
        return Cost(
            each=self.energy_per_hour / (rate * SECONDS_PER_HOUR),
            fixed=self.capital / self.months,
            capacity=rate * SECONDS_PER_HOUR * HOURS * self.utilisation,
        )


@dataclass(frozen=True)
class Range:
    """Volumes from `first` to `last` at which one place costs no more than another."""

    first: int
    last: int


def ranges_cheaper(place: Cost, other: Cost, most: int) -> tuple[Range, ...]:
    """The volumes from 1 to `most` at which `place` costs at most as much as `other`, as ranges in rising order.

    Between two volumes at which a machine is added, or a minimum ends, both costs are straight lines: each such piece is
    decided by whole numbers alone. Searched up to `UNITS_MAX` machines of either.
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
    """The last volume that `ranges_cheaper` looks at."""
    ends = [cost.last_of(UNITS_MAX) for cost in (place, other) if cost.capacity is not None and cost.fixed]
    return max(0, min([most, *ends]))


def _pieces(place: Cost, other: Cost, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of volumes in which both costs are straight."""
    until = searched(place, other, most)
    ends = sorted({end for end in (*_bends(place, until), *_bends(other, until), until) if 1 <= end <= until})
    first = 1
    for end in ends:
        yield first, end
        first = end + 1


def _bends(cost: Cost, until: int) -> Iterable[int]:
    """The last volumes of straight pieces: where a machine is full, and where the minimum ends within a piece."""
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
    """The volumes of a straight piece at which `place` costs at most as much."""
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
    """Volumes to show: the stated one, those at which something changes, and 1, 2, 5 times the powers of ten around them."""
    wanted = sorted({items, *marks})
    low, high = max(1, wanted[0] // 10), wanted[-1] * 10
    steps = [factor * 10**power for power in range(len(str(low)) - 1, len(str(high))) for factor in (1, 2, 5)]
    return sorted({*wanted, *(step for step in steps if low <= step <= high)})
