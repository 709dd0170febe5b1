"""The rules (version 2) for the charges of a calendar month. They do not depend on the dates or the number of its
invoices.

Every result is computed from usage and its time, from credits, and from the amounts on other valid invoices. No rule
uses an id or the order of invoices. An invoice charges the total so far minus the amounts on the other invoices, so the
sum is the same for every order. docs/reference/invoice-amounts.md states the rules in words.

A *section* is a part of a calendar month (UTC) during which the same credits are valid. Its name is its first instant.
A month without credits has one section.
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
    """Return the first instant of the calendar month (UTC) that contains an instant."""
    return instant.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(instant: datetime) -> datetime:
    """Return the first instant of the next calendar month (UTC)."""
    return month_start(month_start(instant) + timedelta(days=32))


def section_of(instant: datetime, cuts: Sequence[datetime]) -> datetime:
    """Return the start of the section that contains an instant. It is the later of two instants: the start of the
    month, and the last of the sorted `cuts` that is not after the instant.
    """
    start, at = month_start(instant), bisect_right(cuts, instant)
    return max(start, cuts[at - 1]) if at else start


@dataclass(frozen=True, order=True)
class Eligible:
    """Used operations that may be free. `worth` is the price of one operation. `allowance` is the number of operations
    that the price book grants free each month.
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
    """A number of free operations, and their total value (positive)."""

    operations: int = 0
    amount: Decimal = NOTHING


def allowance_of(book: PriceBookDocument) -> int:
    """Return the number of operations that a book grants free every month."""
    return int(CONTEXT.scaleb(book.free_tera_operations, TERA))


def eligible_of(book: PriceBookDocument, rating: Rating) -> list[Eligible]:
    """Return the used operations of a rating that may be free, one item per price. `book` is the book that rated them."""
    allowance = allowance_of(book)
    if not allowance or rating.unused or rating.missed:
        return []
    return [
        Eligible(allowance, CONTEXT.divide(amount, Decimal(size)), size)
        for size, amount in priced_parts(rating)
        if size
    ]


def eligible_sum(parts: Iterable[Eligible]) -> list[Eligible]:
    """Return the same operations, sorted. Operations with equal allowance and price are combined."""
    found: defaultdict[tuple[int, Decimal], int] = defaultdict(int)
    for part in parts:
        found[part.allowance, part.worth] += part.operations
    return sorted(Eligible(allowance, worth, operations) for (allowance, worth), operations in found.items())


def free_most(parts: Iterable[Eligible], *, taken: int = 0) -> Free:
    """Return the free operations of a month. The most expensive operations are free first, in whatever order they were
    used or invoiced.

    Operations rated with books that grant at most n free operations get at most n in total. Several books in one month
    therefore grant as many as the most generous book alone. `taken` is the number of operations that are already free
    on version 1 invoices.
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
    """Return the free operations that an invoice grants in a section. These are the operations that `section` adds to
    the free operations of `earlier` sections of the month, minus the operations that other invoices granted (`given`).
    Their value is at most `most`, the invoice's charge for the section's work.

    `section` is the section's work on all invoices, including this invoice. The result is negative if the other
    invoices granted too much.
    """
    before, after = free_most(earlier, taken=taken), free_most([*earlier, *section], taken=taken)
    amount = subtract(subtract(after.amount, before.amount), given.amount)
    return Free(after.operations - before.operations - given.operations, min(amount, most))


def minimum_due(least: Decimal, *, charged: Decimal, topped: Decimal) -> Decimal:
    """Return the amount still to be charged for a finished month to reach `least`. `charged` is the total of all
    invoices without top-ups, and `topped` is the total of the top-ups. The result is negative if the top-ups were too
    high.
    """
    return subtract(max(subtract(least, charged), NOTHING), topped)


@dataclass(frozen=True)
class Fund:
    """A credit that can pay charges from `start` until `end` (exclusive; None means no end). If an administrator ended
    the credit early, it can pay until `ended`. A credit note that restores part of a credit creates a separate fund,
    which starts when the note is issued.
    """

    credit: str
    start: datetime
    end: datetime | None
    amount: Decimal
    ended: datetime | None = None

    @property
    def over(self) -> datetime | None:
        """The instant at which the fund stops paying; None if it never ends."""
        return min((end for end in (self.end, self.ended) if end is not None), default=None)

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key, which puts the earliest end first. Funds with the same end are interchangeable once they have
        started.

        `ended` is ignored, because ending a fund early does not change what it paid before.
        """
        return (self.end is None, self.end or self.start, self.start, self.amount, self.credit)

    def is_valid(self, at: datetime) -> bool:
        """Return whether the fund can pay a charge at the instant `at`."""
        return self.start <= at and (self.over is None or at < self.over)


Uses = dict[tuple[datetime, str], Decimal]
"""(section, credit) -> what of the credit pays for the section."""


def credits_allot(charges: Mapping[datetime, Decimal], funds: Iterable[Fund]) -> Uses:
    """Allot credits to charges, section by section in chronological order. Each section is paid from the credits that
    are valid in it, starting with the credit that ends first.
    """
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
    """Return the credits that pay an invoice's charges `own`: the credits allotted to its sections, minus the credits
    already `used` by other invoices. `beside` holds the charges of those other invoices. The invoice uses at most its
    own charge for a section, and at most the amount `left` of each credit.
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
    """Return the funds that remain after the amounts already used (`before`). Each amount is taken from the earliest
    funds of its credit. Exhausted funds are left out.
    """
    rest, found = dict(before), []
    for fund in sorted(funds, key=lambda one: (one.credit, one.start, one.amount)):
        taken = min(max(rest.get(fund.credit, NOTHING), NOTHING), fund.amount)
        rest[fund.credit] = subtract(rest.get(fund.credit, NOTHING), taken)
        if taken < fund.amount:
            found.append(replace(fund, amount=subtract(fund.amount, taken)))
    return sorted(found, key=lambda fund: fund.order)
