"""Compute an invoice's charges for each section from the charges on the other invoices. The module uses neither Django
nor a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from apps.pricing.rating.decimals import decimal_text, exact_sum, subtract
from apps.pricing.rating.months import (
    Eligible,
    Free,
    Fund,
    Uses,
    credits_due,
    eligible_sum,
    free_due,
    funds_left,
    minimum_due,
    month_start,
)


@dataclass
class Held:
    """The charges of an invoice or a draft for one section."""

    usage: Decimal = Decimal(0)
    free: Free = field(default_factory=Free)
    shortfall: Decimal = Decimal(0)
    minimum: Decimal = Decimal(0)
    eligible: list[Eligible] = field(default_factory=list)

    @property
    def charged(self) -> Decimal:
        """The amount that counts towards the month's minimum charge."""
        return exact_sum([self.usage, self.free.amount.copy_negate(), self.shortfall])

    @property
    def charge(self) -> Decimal:
        return exact_sum([self.charged, self.minimum])

    def use(self, amount: Decimal, eligible: Iterable[Eligible]) -> None:
        """Add the amount of rated usage, and the operations that are eligible for the free allowance."""
        self.usage = exact_sum([self.usage, amount])
        self.eligible = eligible_sum([*self.eligible, *eligible])

    def to_json(self, section: datetime) -> dict[str, Any]:
        """Return the charges in their stored form."""
        return {
            "start": stamp(section),
            "usage": decimal_text(self.usage),
            "free": {"operations": self.free.operations, "amount": decimal_text(self.free.amount)},
            "shortfall": decimal_text(self.shortfall),
            "minimum": decimal_text(self.minimum),
            "eligible": [part.to_json() for part in self.eligible],
        }


def stamp(instant: datetime) -> str:
    """Format an instant as ISO 8601 in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def held_of_json(document: Mapping[str, Any]) -> tuple[datetime, Held]:
    """Read the start and the charges of a section from the stored form."""
    return datetime.fromisoformat(document["start"]), Held(
        usage=Decimal(document["usage"]),
        free=Free(int(document["free"]["operations"]), Decimal(document["free"]["amount"])),
        shortfall=Decimal(document["shortfall"]),
        minimum=Decimal(document["minimum"]),
        eligible=[Eligible.from_json(part) for part in document["eligible"]],
    )


@dataclass
class Older:
    """The charges and free operations of all version 1 invoices in one month. An invoice belongs to the month in which
    its period ends.
    """

    charged: Decimal = Decimal(0)
    free: int = 0


@dataclass(frozen=True)
class Standing:
    """All sections of valid invoices, and the totals of version 1 invoices by month."""

    sections: Mapping[datetime, list[Held]]
    older: Mapping[datetime, Older]

    def of_month(self, month: datetime) -> list[Held]:
        """Return the charges in all sections of a month."""
        return [one for start, held in self.sections.items() if month_start(start) == month for one in held]

    def eligible(self, sections: Iterable[datetime]) -> list[Eligible]:
        """Return the operations that may be free in these sections."""
        return eligible_sum(part for at in sections for one in self.sections.get(at, []) for part in one.eligible)

    def free(self, section: datetime) -> Free:
        """Return the free operations already granted in a section."""
        held = [one.free for one in self.sections.get(section, [])]
        return Free(sum(one.operations for one in held), exact_sum(one.amount for one in held))


@dataclass(frozen=True)
class FreeLine:
    """The free operations that a draft grants in a section. `most` is the largest allowance. `basis` holds the input
    figures.
    """

    section: datetime
    free: Free
    most: int
    basis: dict[str, Any]


def free_lines(own: Mapping[datetime, Held], standing: Standing) -> list[FreeLine]:
    """Compute the free operations of a draft's sections, and store them in `own`."""
    found = (_free_line(section, own, standing) for section in sorted(own) if own[section].eligible)
    return [line for line in found if line is not None]


def _free_line(section: datetime, own: Mapping[datetime, Held], standing: Standing) -> FreeLine | None:
    month, held = month_start(section), own[section]
    ours = _between(own, month, section)
    earlier = standing.eligible(_between(standing.sections, month, section))
    beside, given = standing.eligible([section]), standing.free(section)
    older = standing.older[month].free if month in standing.older else 0
    free = free_due(
        earlier=[*earlier, *(part for start in ours for part in own[start].eligible)],
        section=[*beside, *held.eligible],
        given=given,
        most=held.usage,
        taken=older,
    )
    if not free.amount:
        return None
    basis = {
        "section": stamp(section),
        "taken": older + _free_operations(standing.of_month(month)) + _free_operations(own[start] for start in ours),
        "operations": free.operations,
        "earlier": [part.to_json() for part in earlier],
        "beside": [part.to_json() for part in beside],
        "given": {"operations": given.operations, "amount": decimal_text(given.amount)},
        "older": older,
    }
    held.free = free
    return FreeLine(section, free, max(part.allowance for part in [*held.eligible, *beside]), basis)


def _between(sections: Iterable[datetime], month: datetime, section: datetime) -> list[datetime]:
    return [start for start in sections if month <= start < section]


def _free_operations(held: Iterable[Held]) -> int:
    return sum(one.free.operations for one in held)


@dataclass(frozen=True)
class MinimumLine:
    """The amount still to be charged for a finished month. `basis` holds the input figures."""

    amount: Decimal
    basis: dict[str, Any]


def minimum_line(
    month: datetime, least: Decimal, own: Mapping[datetime, Held], standing: Standing
) -> MinimumLine | None:
    """Return a month's shortfall against `least`, before credits; None if the shortfall is 0."""
    ours = [held for section, held in own.items() if month_start(section) == month]
    theirs = standing.of_month(month)
    net = exact_sum(subtract(held.usage, held.free.amount) for held in ours)
    shortfall = exact_sum(held.shortfall for held in ours)
    older = standing.older[month].charged if month in standing.older else Decimal(0)
    before = exact_sum([*(held.charged for held in theirs), older])
    topped = exact_sum(held.minimum for held in theirs)
    missing = minimum_due(least, charged=exact_sum([net, shortfall, before]), topped=topped)
    if missing == 0:
        return None
    basis = {
        "month": stamp(month),
        "minimum": decimal_text(least),
        "net": decimal_text(net),
        "shortfall": decimal_text(shortfall),
        "invoiced_before": decimal_text(before),
        "topped_before": decimal_text(topped),
    }
    return MinimumLine(missing, basis)


@dataclass(frozen=True)
class Purse:
    """The credits of one currency. `left` is the unused amount of each credit. `used` holds the amounts that valid
    invoices used in each section, and `older` holds the amounts that version 1 invoices used.
    """

    funds: tuple[Fund, ...] = ()
    left: Mapping[str, Decimal] = field(default_factory=dict)
    used: Uses = field(default_factory=dict)
    older: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def cuts(self) -> list[datetime]:
        """The instants at which the set of valid credits changes."""
        return sorted({fund.start for fund in self.funds} | {fund.over for fund in self.funds if fund.over is not None})


@dataclass(frozen=True)
class Payment:
    """The credits that pay a draft. `basis` holds the input figures."""

    uses: Uses
    basis: dict[str, Any]


def credits_pay(purse: Purse, own: Mapping[datetime, Held], standing: Standing) -> Payment:
    """Compute the credits that pay each section of a draft."""
    first = min(own, default=None)
    funds = [] if first is None else _funds_at(purse, first)
    if first is None or not funds:
        return Payment({}, {})
    used = {key: amount for key, amount in purse.used.items() if key[0] >= first}
    charged = {at: exact_sum(one.charge for one in held) for at, held in standing.sections.items() if at >= first}
    uses = credits_due(
        own={section: held.charge for section, held in own.items()},
        beside=charged,
        used=used,
        funds=funds,
        left=purse.left,
    )
    basis = {
        "funds": [_fund_basis(fund, purse.left[fund.credit]) for fund in funds],
        **_beside_basis(charged, used),
    }
    return Payment(uses, basis)


def _beside_basis(charged: Mapping[datetime, Decimal], used: Uses) -> dict[str, Any]:
    return {
        "beside": [{"start": stamp(at), "charge": decimal_text(charged[at])} for at in sorted(charged)],
        "used": [{"start": stamp(at), "grant": key, "amount": decimal_text(used[at, key])} for at, key in sorted(used)],
    }


def _funds_at(purse: Purse, first: datetime) -> list[Fund]:
    before = dict(purse.older)
    for (section, credit), amount in purse.used.items():
        if section < first:
            before[credit] = exact_sum([before.get(credit, Decimal(0)), amount])
    return [one for one in funds_left(purse.funds, before) if one.over is None or one.over > first]


def _fund_basis(fund: Fund, left: Decimal) -> dict[str, Any]:
    return {
        "grant": fund.credit,
        "start": stamp(fund.start),
        "end": None if fund.end is None else stamp(fund.end),
        "amount": decimal_text(fund.amount),
        "left": decimal_text(left),
        **({} if fund.ended is None else {"ended": stamp(fund.ended)}),
    }
