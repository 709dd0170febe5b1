"""Random years of a customer, and what each must come to: by the year's facts alone, without a single invoice.

Shares no code with the rules that it checks but the calendar: free operations by trying every split between two books,
credits by events, rounding by fractions.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

START = datetime(2026, 1, 1, tzinfo=UTC)
END = datetime(2027, 1, 1, tzinfo=UTC)
YEAR = END - START
TICK = timedelta(microseconds=1)


@dataclass(frozen=True)
class Use:
    """Operations used at an instant, each at a price, of a book that gives `allowance` free in a month."""

    at: datetime
    worth: Decimal
    operations: int
    allowance: int

    @property
    def amount(self) -> Decimal:
        return self.worth * self.operations


@dataclass(frozen=True)
class Credit:
    """A credit from its grant until it expires (None: never), or until a person ends it."""

    at: datetime
    amount: Decimal
    expires: datetime | None
    ended: datetime | None = None

    def is_valid(self, at: datetime) -> bool:
        """Whether it pays for what is charged at an instant."""
        return self.at <= at and all(end is None or at < end for end in (self.expires, self.ended))


@dataclass(frozen=True)
class Year:
    """The facts of a year: what was used, granted, lacked to commitments, and the least of each month (0: none)."""

    uses: tuple[Use, ...]
    credits: tuple[Credit, ...]
    lacks: tuple[tuple[datetime, Decimal], ...]
    least: tuple[Decimal, ...]
    exponent: int
    tax: Decimal


@dataclass(frozen=True)
class Total:
    """What all invoices that stand at the end of a year come to together."""

    charged: Fraction
    free: Fraction
    minimum: Fraction
    credits: Fraction
    payable: Fraction
    tax: Fraction


def year_of(dice: random.Random) -> Year:
    """A year of up to 40 uses: many at the edges of months, of prices far apart, some of them late cancellations, beside
    credits that begin, expire and are ended anywhere and at the last instant of a month."""
    exponent = dice.choice([0, 2, 2, 2, 3])
    unit = Decimal(1).scaleb(-exponent)
    allowances = dice.choice([(0, 0), (1000, 1000), (0, 500), (500, 1000), (2000, 300)])
    changes = START + YEAR * dice.random()
    uses = [_use(dice, unit, allowances, changes) for _ in range(dice.randrange(1, 40))]
    granted = [_credit(dice, unit) for _ in range(dice.choice([0, 1, 2, 4]))]
    lacks = [(_instant(dice), unit * dice.randrange(1, 3000)) for _ in range(dice.choice([0, 0, 0, 1, 2]))]
    leasts = [unit * dice.choice([0, 0, 100, 2000]) for _ in range(2)]
    least = tuple(leasts[last > changes] for _, last in months())
    return Year(
        tuple(uses), tuple(granted), tuple(lacks), least, exponent, Decimal(dice.choice(["0", "0.19", "0.077"]))
    )


def _use(dice: random.Random, unit: Decimal, allowances: tuple[int, int], changes: datetime) -> Use:
    at, worth = _instant(dice), unit * Decimal(dice.choice([1, 2, 7, 40, 333])) * Decimal("0.0137")
    if dice.random() < 0.1:  # late cancellation: a share of a price, and no operation
        return Use(at, worth * Decimal("0.4"), 1, 0)
    return Use(at, worth, dice.choice([1, 3, 50, 700, 4000]), allowances[at >= changes])


def _credit(dice: random.Random, unit: Decimal) -> Credit:
    at, ends, ended = _instant(dice), _instant(dice), _instant(dice)
    expires = ends if ends > at else None
    is_ended = dice.random() < 0.6 and at < ended < (expires or END)
    return Credit(at, unit * dice.randrange(1, 4000), expires, ended if is_ended else None)


def _instant(dice: random.Random) -> datetime:
    """Anywhere in the year, one time in three at the edge of a month."""
    if dice.random() < 0.66:
        return START + TICK * dice.randrange(YEAR // TICK)
    first = datetime(2026, dice.randrange(1, 13), 1, tzinfo=UTC)
    return max(START, first + TICK * dice.choice([-1, 0, 0, 1, -1_000_000]))


def months() -> list[tuple[datetime, datetime]]:
    """The twelve months, half-open."""
    firsts = [*(datetime(2026, number, 1, tzinfo=UTC) for number in range(1, 13)), END]
    return list(pairwise(firsts))


def total_of(year: Year) -> Total:
    """What the year comes to, however it is invoiced."""
    cuts = sorted({at for one in year.credits for at in (one.at, one.expires, one.ended) if at})
    charges: list[tuple[datetime, Fraction]] = []
    free = minimum = Fraction(0)
    for least, (first, last) in zip(year.least, months(), strict=True):
        edges = [first, *(cut for cut in cuts if first < cut < last), last]
        inside = [one for one in year.uses if first <= one.at < last]
        lacks = [(at, Fraction(amount)) for at, amount in year.lacks if first <= at < last]
        found = []
        for left, right in pairwise(edges):
            given = _free(one for one in inside if one.at < right) - _free(one for one in inside if one.at < left)
            used = sum((Fraction(one.amount) for one in inside if left <= one.at < right), Fraction(0))
            lacking = sum((amount for at, amount in lacks if left <= at < right), Fraction(0))
            free += given
            found.append([left, used - given + lacking])
        top = max(Fraction(least) - sum(amount for _, amount in found), Fraction(0)) if inside else Fraction(0)
        found[-1][1] += top
        minimum += top
        charges += [(at, amount) for at, amount in found]
    paid, charged = _paid(charges, year.credits), sum((amount for _, amount in charges), Fraction(0))
    unit = Fraction(1, 10**year.exponent)
    net = charged - paid
    payable = round(net / unit) * unit if net >= unit else Fraction(0)
    tax = round(Fraction(year.tax) * payable / unit) * unit
    return Total(charged, free, minimum, paid, payable, tax)


def _free(uses: Iterable[Use]) -> Fraction:
    """The most that a month's free operations can be worth, where books of two allowances were in force: every way to
    split them between the two that could be the best is tried."""
    by_level: defaultdict[int, list[tuple[Fraction, int]]] = defaultdict(list)
    for one in uses:
        by_level[one.allowance].append((Fraction(one.worth), one.operations))
    levels = [level for level in sorted(by_level) if level]
    if not levels:
        return Fraction(0)
    if len(levels) == 1:
        return _dearest(by_level[levels[0]], levels[0])
    low, high = levels
    splits = {0, low, *_sums(by_level[low]), *(high - at for at in _sums(by_level[high]))}
    return max(_dearest(by_level[low], at) + _dearest(by_level[high], high - at) for at in splits if 0 <= at <= low)


def _sums(parts: Sequence[tuple[Fraction, int]]) -> list[int]:
    found = [0]
    for _, size in sorted(parts, reverse=True):
        found.append(found[-1] + size)
    return found


def _dearest(parts: Sequence[tuple[Fraction, int]], most: int) -> Fraction:
    worth = Fraction(0)
    for price, size in sorted(parts, reverse=True):
        worth += price * min(size, most)
        most -= min(size, most)
    return worth


def _paid(charges: Sequence[tuple[datetime, Fraction]], granted: Sequence[Credit]) -> Fraction:
    """What credits pay: each charge in turn takes of those that are valid, of the next to expire first."""
    left = {index: Fraction(one.amount) for index, one in enumerate(granted)}
    paid = Fraction(0)
    for at, amount in sorted(charges):
        due = amount
        while due > 0:
            valid = [
                (one.expires or datetime.max.replace(tzinfo=UTC), one.at, index)
                for index, one in enumerate(granted)
                if left[index] > 0 and one.is_valid(at)
            ]
            if not valid:
                break
            index = min(valid)[2]
            part = min(due, left[index])
            due, left[index], paid = due - part, left[index] - part, paid + part
    return paid
