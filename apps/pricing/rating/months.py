"""The rules (version 2) for the charges of a calendar month.

The charges do not depend on the number, order or dates of the invoices. An invoice charges the month's total so far,
minus the amounts on the other valid invoices. docs/reference/invoice-amounts.md states the rules in words.

A *section* is a part of a calendar month (UTC) during which the same credits are valid. A section is identified by its
first instant.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from apps.pricing.rating.book import PriceBookDocument
from apps.pricing.rating.decimals import CONTEXT, TERA, decimal_text, exact_sum, multiply, subtract
from apps.pricing.rating.forms import priced_parts
from apps.pricing.rating.terms import Rating

RULES = 2
"""The version of the rules that invoices are issued by; invoices without one were issued by version 1."""
MICROSECOND = timedelta(microseconds=1)
NOTHING = Decimal(0)


def month_start(instant: datetime) -> datetime:
    """Return the first instant of the calendar month (UTC) that contains `instant`."""
    return instant.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(instant: datetime) -> datetime:
    """Return the first instant of the month (UTC) after the month that contains `instant`."""
    return month_start(month_start(instant) + timedelta(days=32))


def section_of(instant: datetime, cuts: Sequence[datetime]) -> datetime:
    """Return the start of the section that contains `instant`. `cuts` must be sorted."""
    start, at = month_start(instant), bisect_right(cuts, instant)
    return max(start, cuts[at - 1]) if at else start


@dataclass(frozen=True, order=True)
class Eligible:
    """Used operations that are eligible for the free allowance. `worth` is the price of one operation. `allowance` is
    the number of free operations that the price book grants per month.
    """

    allowance: int
    worth: Decimal
    operations: int

    def to_json(self) -> dict[str, Any]:
        return {"allowance": self.allowance, "worth": decimal_text(self.worth), "operations": self.operations}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Eligible:
        return Eligible(int(document["allowance"]), Decimal(document["worth"]), int(document["operations"]))


@dataclass(frozen=True)
class Free:
    """The number of free operations, and their total value."""

    operations: int = 0
    amount: Decimal = NOTHING


def allowance_of(book: PriceBookDocument) -> int:
    """Return the number of free operations that a price book grants per month."""
    return int(CONTEXT.scaleb(book.free_tera_operations, TERA))


def eligible_of(book: PriceBookDocument, rating: Rating) -> list[Eligible]:
    """Return the used operations of a rating that may be free, one item per price. `book` is the price book of the
    rating.
    """
    allowance = allowance_of(book)
    if not allowance or rating.unused or rating.missed:
        return []
    return [
        Eligible(allowance, CONTEXT.divide(amount, Decimal(size)), size)
        for size, amount in priced_parts(rating)
        if size
    ]


def eligible_sum(parts: Iterable[Eligible]) -> list[Eligible]:
    """Combine operations of equal allowance and price, and return the sorted result."""
    found: defaultdict[tuple[int, Decimal], int] = defaultdict(int)
    for part in parts:
        found[part.allowance, part.worth] += part.operations
    return sorted(Eligible(allowance, worth, operations) for (allowance, worth), operations in found.items())


def free_most(parts: Iterable[Eligible], *, taken: int = 0) -> Free:
    """Return the free operations of a month. The most expensive operations are free first.

    Operations whose allowance is at most n get at most n free operations in total. `taken` is the number of operations
    already free on version 1 invoices.
    """
    merged = eligible_sum(parts)
    levels = sorted({part.allowance for part in merged})
    used = dict.fromkeys(levels, 0)
    operations, amounts = 0, [NOTHING]
    for part in sorted(merged, key=lambda one: (one.worth.copy_negate(), one.allowance)):
        above = levels[levels.index(part.allowance) :]
        room = min(level - taken - sum(used[one] for one in levels if one <= level) for level in above)
        free = max(min(part.operations, room), 0)
        used[part.allowance] += free
        operations += free
        amounts.append(multiply(part.worth, free))
    return Free(operations, exact_sum(amounts))


def free_due(
    *, earlier: Sequence[Eligible], section: Sequence[Eligible], given: Free, most: Decimal, taken: int = 0
) -> Free:
    """Return the free operations that an invoice grants in a section, with a value of at most `most`.

    `section` lists the section's operations on all invoices. `earlier` lists the operations in the month's earlier
    sections. `given` is what the other invoices granted in the section. The result is negative if the other invoices
    granted too much.
    """
    before, after = free_most(earlier, taken=taken), free_most([*earlier, *section], taken=taken)
    amount = subtract(subtract(after.amount, before.amount), given.amount)
    return Free(after.operations - before.operations - given.operations, min(amount, most))


def minimum_due(least: Decimal, *, charged: Decimal, topped: Decimal) -> Decimal:
    """Return the amount that must still be charged for a finished month to reach `least`. `charged` is the total
    without top-ups, and `topped` is the total of the top-ups. The result is negative if the top-ups were too high.
    """
    return subtract(max(subtract(least, charged), NOTHING), topped)


@dataclass(frozen=True)
class Fund:
    """A credit that can pay charges from `start` until `end` (exclusive; None means no end). A credit that was ended
    early can pay until `ended`.
    """

    credit: str
    start: datetime
    end: datetime | None
    amount: Decimal
    ended: datetime | None = None

    @property
    def over(self) -> datetime | None:
        """The instant at which the fund stops paying; None if the fund never ends."""
        return min((end for end in (self.end, self.ended) if end is not None), default=None)

    @property
    def order(self) -> tuple[Any, ...]:
        # `ended` is left out: ending a fund early does not change what the fund paid before.
        return (self.end is None, self.end or self.start, self.start, self.amount, self.credit)

    def is_valid(self, at: datetime) -> bool:
        """Return whether the fund can pay a charge at the instant `at`."""
        return self.start <= at and (self.over is None or at < self.over)


Uses = dict[tuple[datetime, str], Decimal]
"""(section, credit) -> what of the credit pays for the section."""


def credits_allot(charges: Mapping[datetime, Decimal], funds: Iterable[Fund]) -> Uses:
    """Allot credits to charges, section by section in chronological order. The credit that ends first is used first."""
    ordered = sorted(funds, key=lambda fund: fund.order)
    left = [fund.amount for fund in ordered]
    found: Uses = {}
    for section in sorted(charges):
        rest = charges[section]
        for index, fund in enumerate(ordered):
            amount = min(rest, left[index])
            if amount <= 0 or not fund.is_valid(section):
                continue
            key = (section, fund.credit)
            found[key] = exact_sum([found.get(key, NOTHING), amount])
            rest, left[index] = subtract(rest, amount), subtract(left[index], amount)
    return found


def credits_due(
    *,
    own: Mapping[datetime, Decimal],
    beside: Mapping[datetime, Decimal],
    used: Mapping[tuple[datetime, str], Decimal],
    funds: Sequence[Fund],
    left: Mapping[str, Decimal],
) -> Uses:
    """Return the credits that an invoice uses for its charges (`own`).

    `beside` holds the charges of the other invoices, and `used` holds the credits that the other invoices used. At most
    the amount in `left` is taken from each credit.
    """
    charges = {at: exact_sum([own.get(at, NOTHING), beside.get(at, NOTHING)]) for at in own.keys() | beside.keys()}
    wanted, rest = credits_allot(charges, funds), dict(left)
    found: Uses = {}
    for section in sorted(own):
        others = exact_sum(amount for (at, _), amount in used.items() if at == section)
        paid = exact_sum(amount for (at, _), amount in wanted.items() if at == section)
        room = min(own[section], subtract(paid, others))
        for credit in dict.fromkeys(fund.credit for fund in sorted(funds, key=lambda fund: fund.order)):
            key = (section, credit)
            more = subtract(wanted.get(key, NOTHING), used.get(key, NOTHING))
            amount = min(more, room, rest.get(credit, NOTHING))
            if amount > 0:
                found[key] = amount
                room, rest[credit] = subtract(room, amount), subtract(rest[credit], amount)
    return found


def funds_left(funds: Iterable[Fund], before: Mapping[str, Decimal]) -> list[Fund]:
    """Return the funds that remain after the amounts in `before` are taken from the earliest funds of each credit."""
    rest, found = dict(before), []
    for fund in sorted(funds, key=lambda one: (one.credit, one.start, one.amount)):
        taken = min(max(rest.get(fund.credit, NOTHING), NOTHING), fund.amount)
        rest[fund.credit] = subtract(rest.get(fund.credit, NOTHING), taken)
        if taken < fund.amount:
            found.append(replace(fund, amount=subtract(fund.amount, taken)))
    return sorted(found, key=lambda fund: fund.order)
