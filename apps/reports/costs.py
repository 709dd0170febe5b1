"""What owning devices costs: rates by processor class, each from an instant on. A cost that nobody stated is unknown.

Where no rate of a class is in force, the facts of a pool (capital, depreciation, power) say what its devices cost.
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
MOST = Decimal(10) ** 9  # of a device-hour, in any currency


def processor_classes() -> list[str]:
    """The classes of every pool there is or was, by name."""
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
    """Add what a device-hour of a class costs from an instant on, in the past too. Raises Problem for nonsense."""
    known = processor_classes()
    if processor_class not in known:
        raise Problem(
            422,
            "No such class",
            f"There is no pool of class '{processor_class}'. Known: {', '.join(known)}.",
            kind="class-unknown",
        )
    if not 0 < per_hour < MOST:
        raise Problem(
            422,
            "Impossible cost",
            f"A device-hour costs more than 0 and less than {MOST:,}; leave out what is not known.",
            kind="cost-invalid",
        )
    if not FIRST_YEAR <= effective_from.year < LAST_YEAR:
        raise Problem(
            422, "Impossible date", f"A cost begins between {FIRST_YEAR} and {LAST_YEAR}.", kind="date-invalid"
        )
    if "\x00" in note or len(note) > 200:
        raise Problem(422, "Impossible note", "A note has at most 200 characters of text.", kind="note-invalid")
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
    """A part of a month in which no cost changes: `per_hour` by class where a rate is stated, `derived` by pool where its
    facts are; without those whose cost is unknown."""

    start: datetime
    end: datetime
    per_hour: dict[str, Decimal]
    derived: dict[UUID, Fraction] = field(default_factory=dict)

    def rate(self, processor_class: str, pool_id: UUID | None = None) -> Fraction | None:
        """What a device-hour of the pool costs: as stated for its class, else as its facts say; None when neither is."""
        stated = self.per_hour.get(processor_class)
        if stated is not None:
            return Fraction(stated)
        return None if pool_id is None else self.derived.get(pool_id)

    def cost(self, processor_class: str, seconds: Fraction, pool_id: UUID | None = None) -> Fraction | None:
        """What so much device time costs here, exactly; None when its cost is not known and the time is not 0."""
        if not seconds:
            return Fraction(0)
        rate = self.rate(processor_class, pool_id)
        return None if rate is None else rate * seconds / HOUR


def seconds_of(length: timedelta) -> Fraction:
    """A length of time in exact seconds."""
    return Fraction(length // MICROSECOND, 10**6)


def segments(*, start: datetime, end: datetime, currency: str) -> list[Segment]:
    """[start, end) cut wherever a rate begins; nothing where the period is empty."""
    if start >= end:
        return []
    rates: dict[str, list[CostRate]] = {}
    for rate in CostRate.objects.filter(currency=currency, effective_from__lt=end).order_by("effective_from", "id"):
        rates.setdefault(rate.processor_class, []).append(rate)
    facts: dict[UUID, list[PoolCost]] = {}
    for row in PoolCost.objects.filter(currency=currency, begins__lt=end).order_by("begins"):
        facts.setdefault(row.pool_id, []).append(row)
    begins = {rate.effective_from for some in rates.values() for rate in some if rate.effective_from > start}
    begins |= {row.begins for some in facts.values() for row in some if row.begins > start}
    return [
        Segment(
            first,
            last,
            {name: one.per_hour for name, some in rates.items() if (one := _at(some, first))},
            {pool: found for pool, some in facts.items() if (found := _derived(some, first)) is not None},
        )
        for first, last in pairwise([start, *sorted(begins), end])
    ]


def _at(ordered: Sequence[CostRate], instant: datetime) -> CostRate | None:
    """The rate in force: the last that began, and of those that began together the one entered last."""
    place = bisect_right([rate.effective_from for rate in ordered], instant)
    return ordered[place - 1] if place else None


def _derived(ordered: Sequence[PoolCost], instant: datetime) -> Fraction | None:
    """A device-hour by the facts in force: the last that began."""
    place = bisect_right([row.begins for row in ordered], instant)
    return cost_of(ordered[place - 1]).per_hour if place else None


def unknown(some: Sequence[Segment], processor_class: str, pool_id: UUID | None = None) -> str:
    """Why a cost is not known, in a sentence; empty where every part has one."""
    missing = [one for one in some if one.rate(processor_class, pool_id) is None]
    if not missing:
        return ""
    if len(missing) == len(some):
        return f"No cost of class {processor_class} is stated."
    return f"No cost of class {processor_class} is stated before {missing[-1].end:%Y-%m-%d %H:%M} UTC."


def rounded(amount: Fraction | Decimal | None) -> Decimal | None:
    """An amount as it is told: a cost half-even to 12 places, since its exact value may have no last one."""
    if amount is None or isinstance(amount, Decimal):
        return amount
    with localcontext(prec=120, rounding=ROUND_HALF_EVEN):
        return (Decimal(amount.numerator) / Decimal(amount.denominator)).quantize(Decimal(1).scaleb(-PRICE_PLACES))
