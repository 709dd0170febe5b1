"""The cost of owning devices, by processor class.

If no rate of a class is in force, the cost is derived from the pool's own data (capital, depreciation, power). The cost
may be unknown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from uuid import UUID

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.fleet.current import cost_of
from apps.fleet.models import Pool, PoolCost
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import PRICE_PLACES
from apps.reports.models import CostRate

HOUR = 3600  # seconds
MICROSECOND = timedelta(microseconds=1)
FIRST_YEAR, LAST_YEAR = 2000, 2100
MOST = Decimal(10) ** 9  # for a device-hour, in any currency


def processor_classes() -> list[str]:
    """Return the processor classes of all current and past pools in alphabetical order."""
    return sorted(set(Pool.objects.values_list("processor_class", flat=True)))


def costrate_set(
    *,
    processor_class: str,
    per_hour: Decimal,
    currency: str,
    effective_from: datetime,
    note: str,
    actor: User,
    now: datetime,
) -> CostRate:
    """Set the cost per device-hour of a class from a given time, which may be in the past. Raises Problem if the input
    is invalid.
    """
    known = processor_classes()
    if processor_class not in known:
        raise Problem(
            422,
            "No such class",
            f"There is no pool of class '{processor_class}'. The classes are {', '.join(known) or 'none yet'}.",
            kind="class-unknown",
        )
    if not 0 < per_hour < MOST:
        raise Problem(
            422,
            "Impossible cost",
            f"The cost of a device-hour must be more than 0 and less than {MOST:,}. If the cost is unknown, do not enter one.",
            kind="cost-invalid",
        )
    if not FIRST_YEAR <= effective_from.year < LAST_YEAR:
        raise Problem(
            422,
            "Impossible date",
            f"A cost must take effect in a year from {FIRST_YEAR} to {LAST_YEAR - 1}.",
            kind="date-invalid",
        )
    if "\x00" in note or len(note) > 200:
        raise Problem(422, "Impossible note", "Enter a note of at most 200 characters.", kind="note-invalid")
    rate = CostRate.objects.create(
        processor_class=processor_class,
        currency=currency,
        per_hour=per_hour,
        effective_from=effective_from,
        note=note,
        set_by=actor,
        set_at=now,
    )
    detail = {"per_hour": decimal_text(per_hour), "currency": currency, "effective_from": effective_from.isoformat()}
    audit_record(action="cost-rate.set", subject=f"class {processor_class}", actor=actor, now=now, detail=detail)
    return rate


@dataclass(frozen=True)
class Segment:
    """A part of a period in which no cost changes. `per_hour` holds the entered rates by class, and `derived` holds the
    costs derived from pool data. Unknown costs are left out.
    """

    start: datetime
    end: datetime
    per_hour: dict[str, Decimal]
    derived: dict[UUID, Fraction] = field(default_factory=dict)

    def rate(self, processor_class: str, pool_id: UUID | None = None) -> Fraction | None:
        """Return the cost of a device-hour: the rate of the class, or else the cost derived from pool data. None if
        both are unknown.
        """
        stated = self.per_hour.get(processor_class)
        if stated is not None:
            return Fraction(stated)
        return None if pool_id is None else self.derived.get(pool_id)

    def cost(self, processor_class: str, seconds: Fraction, pool_id: UUID | None = None) -> Fraction | None:
        """Return the exact cost of device time in this segment. None if the cost is unknown."""
        if not seconds:
            return Fraction(0)
        rate = self.rate(processor_class, pool_id)
        return None if rate is None else rate * seconds / HOUR


def seconds_of(length: timedelta) -> Fraction:
    """Return a duration as an exact number of seconds."""
    return Fraction(length // MICROSECOND, 10**6)


def segments(*, start: datetime, end: datetime, currency: str) -> list[Segment]:
    """Split [start, end) at each change of a cost."""
    if start >= end:
        return []
    rates, pool_costs = _rates(end, currency), _pool_costs(end, currency)
    starts = {rate.effective_from for some in rates.values() for rate in some}
    starts |= {row.begins for some in pool_costs.values() for row in some}
    cuts = sorted(instant for instant in starts if instant > start)
    return [_segment(first, last, rates, pool_costs) for first, last in pairwise([start, *cuts, end])]


def _rates(end: datetime, currency: str) -> dict[str, list[CostRate]]:
    found: dict[str, list[CostRate]] = {}
    for rate in CostRate.objects.filter(currency=currency, effective_from__lt=end).order_by("effective_from", "id"):
        found.setdefault(rate.processor_class, []).append(rate)
    return found


def _pool_costs(end: datetime, currency: str) -> dict[UUID, list[PoolCost]]:
    found: dict[UUID, list[PoolCost]] = {}
    for row in PoolCost.objects.filter(currency=currency, begins__lt=end).order_by("begins"):
        found.setdefault(row.pool_id, []).append(row)
    return found


def _segment(
    first: datetime, last: datetime, rates: dict[str, list[CostRate]], pool_costs: dict[UUID, list[PoolCost]]
) -> Segment:
    return Segment(
        first,
        last,
        {name: one.per_hour for name, some in rates.items() if (one := _at(some, first))},
        {pool: cost for pool, some in pool_costs.items() if (cost := _derived(some, first)) is not None},
    )


def _at(ordered: Sequence[CostRate], instant: datetime) -> CostRate | None:
    place = bisect_right([rate.effective_from for rate in ordered], instant)
    return ordered[place - 1] if place else None


def _derived(ordered: Sequence[PoolCost], instant: datetime) -> Fraction | None:
    place = bisect_right([row.begins for row in ordered], instant)
    return cost_of(ordered[place - 1]).per_hour if place else None


def unknown(some: Sequence[Segment], processor_class: str, pool_id: UUID | None = None) -> str:
    """Return a sentence that says why a cost is unknown; empty if the cost is known in every segment."""
    missing = [one for one in some if one.rate(processor_class, pool_id) is None]
    if not missing:
        return ""
    if len(missing) == len(some):
        return f"No cost has been entered for class {processor_class}."
    return f"No cost has been entered for class {processor_class} for the time before {missing[-1].end:%Y-%m-%d %H:%M} UTC."


def rounded(amount: Fraction | Decimal | None) -> Decimal | None:
    """Round a fraction half-even to 12 decimal places. A Decimal or None is returned unchanged."""
    if amount is None or isinstance(amount, Decimal):
        return amount
    with localcontext(prec=120, rounding=ROUND_HALF_EVEN):
        return (Decimal(amount.numerator) / Decimal(amount.denominator)).quantize(Decimal(1).scaleb(-PRICE_PLACES))
