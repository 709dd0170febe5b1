"""The rules by which a month is charged, whenever and in however many invoices it is asked for (version 2).

Everything here is a function of what was used and when, of credits and of what standing invoices hold already. No rule
looks at an id or at the order in which invoices were issued: an invoice asks for what is charged by now less what the others
hold, so that the sum over any time is the same for every order. The rules in words: docs/guides/amounts.md.

A *section* is a part of a calendar month (UTC) in which the same credits are valid; it is named by its first instant, and a
month without credits has one.
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
    """The first instant of the calendar month (UTC) around an instant."""
    return instant.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def month_end(instant: datetime) -> datetime:
    """The first instant of the next month."""
    return month_start(month_start(instant) + timedelta(days=32))


def section_of(instant: datetime, cuts: Sequence[datetime]) -> datetime:
    """The section of an instant: the last of its month's start and the sorted `cuts` that is not after it."""
    start, at = month_start(instant), bisect_right(cuts, instant)
    return max(start, cuts[at - 1]) if at else start


@dataclass(frozen=True, order=True)
class Eligible:
    """Used operations that may be free: so many, each worth `worth`, of a book that gives `allowance` free in a month."""

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
    """Operations that are free, and what they are worth together (positive)."""

    operations: int = 0
    amount: Decimal = NOTHING


def allowance_of(book: PriceBookDocument) -> int:
    """The operations that a book gives free in every month."""
    return int(CONTEXT.scaleb(book.free_tera_operations, TERA))


def eligible_of(book: PriceBookDocument, rating: Rating) -> list[Eligible]:
    """What of a rating may be free: used work, part by part of one price, by the book that it was rated with."""
    allowance = allowance_of(book)
    if not allowance or rating.unused or rating.missed:
        return []
    return [
        Eligible(allowance, CONTEXT.divide(amount, Decimal(size)), size)
        for size, amount in priced_parts(rating)
        if size
    ]


def eligible_sum(parts: Iterable[Eligible]) -> list[Eligible]:
    """The same with equal prices together, in order."""
    found: defaultdict[tuple[int, Decimal], int] = defaultdict(int)
    for part in parts:
        found[part.allowance, part.worth] += part.operations
    return sorted(Eligible(allowance, worth, operations) for (allowance, worth), operations in found.items())


def free_most(parts: Iterable[Eligible], *, taken: int = 0) -> Free:
    """The free operations of a month: the dearest first, whatever the order in which they were used or invoiced.

    Of what was rated by books that give at most so many, no more than so many are free; so several books in a month give
    together what the most generous of them gives. `taken` are free already by invoices of version 1.
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
    """What an invoice gives free of a section: what all its work adds to the free operations of the `earlier` sections of
    its month, less what other invoices gave; at most `most`, what the invoice itself asks for the section's work.

    `section` is the work of all invoices, this one too. Less than nothing where others gave too much.
    """
    before, after = free_most(earlier, taken=taken), free_most([*earlier, *section], taken=taken)
    amount = subtract(subtract(after.amount, before.amount), given.amount)
    return Free(after.operations - before.operations - given.operations, min(amount, most))


def minimum_due(least: Decimal, *, charged: Decimal, topped: Decimal) -> Decimal:
    """What a month that is over is still to be asked to come to `least`: `charged` by all invoices without what they asked
    for that, `topped`. Less than nothing where they asked too much."""
    return subtract(max(subtract(least, charged), NOTHING), topped)


@dataclass(frozen=True)
class Fund:
    """What a credit can pay from `start` until before `end` (None: for ever), or before a person `ended` it. A credit note
    that gives a part of a credit back makes a fund of its own, from its own instant on."""

    credit: str
    start: datetime
    end: datetime | None
    amount: Decimal
    ended: datetime | None = None

    @property
    def over(self) -> datetime | None:
        """The first instant for which it does not pay any more; None: it pays for ever."""
        return min((end for end in (self.end, self.ended) if end is not None), default=None)

    @property
    def order(self) -> tuple[Any, ...]:
        """The next to end first; those that end together are interchangeable from their start on. That a person ended one
        changes nothing in what it paid before, so it does not count here."""
        return (self.end is None, self.end or self.start, self.start, self.amount, self.credit)

    def is_valid(self, at: datetime) -> bool:
        """Whether it pays for what was charged at an instant."""
        return self.start <= at and (self.over is None or at < self.over)


Uses = dict[tuple[datetime, str], Decimal]
"""(section, credit) -> what of the credit pays for the section."""


def credits_allot(charges: Mapping[datetime, Decimal], funds: Iterable[Fund]) -> Uses:
    """Which credit pays what: sections in the order of time, each from the credits that are valid in it, the next to end
    first."""
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
    """What an invoice that charges `own` uses of credits: what they pay for its sections, less what other invoices, which
    charge `beside`, used for them already. Never more than it charges for a section, nor than is `left` of a credit."""
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
    """The funds less what of each credit is used already, its first fund first; those that are used up are left out."""
    rest, found = dict(before), []
    for fund in sorted(funds, key=lambda one: (one.credit, one.start, one.amount)):
        taken = min(max(rest.get(fund.credit, NOTHING), NOTHING), fund.amount)
        rest[fund.credit] = subtract(rest.get(fund.credit, NOTHING), taken)
        if taken < fund.amount:
            found.append(replace(fund, amount=subtract(fund.amount, taken)))
    return sorted(found, key=lambda fund: fund.order)
