"""Cases of money: books of any currency and tariff, programs of any size, every form of contract, run in any leases.

A case is plain data made from hypothesis's draws or from a seeded generator, so that tests and the benchmark share it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any

from apps.pricing.rating import (
    Counts,
    PriceBookDocument,
    Rating,
    Schedule,
    Terms,
    book_from_json,
    rate,
    rate_lease,
    rate_quota,
    tariff_bound,
)
from tests.pricing.rating.books import document

ZONES = ("America/New_York", "Europe/Berlin", "Australia/Lord_Howe")
CURRENCIES = (("JPY", 0), ("EUR", 2), ("KWD", 3))
# The nights on which clocks change there, in 2026: days of 23 and 25 hours (23.5 and 24.5 on Lord Howe).
CHANGES = {
    "America/New_York": ((3, 8), (11, 1)),
    "Europe/Berlin": ((3, 29), (10, 25)),
    "Australia/Lord_Howe": ((10, 4), (4, 5)),
}
KLASSES = ("standard", "priority", "off_peak", "batch", "hourly", "guaranteed")


def book_of(zone: str, currency: tuple[str, int], *, price: str = "0.008", tera: str = "0.002") -> PriceBookDocument:
    """A book with three kinds of hour, a class that follows them, and guaranteed intervals on offer."""

    def change(d: dict[str, Any]) -> None:
        d["currency"] = {"code": currency[0], "exponent": currency[1]}
        d["prices"]["lpu"].update(float32=price, int8=tera)
        d["classes"]["guaranteed"]["offered"] = True
        d["classes"]["hourly"] = {**d["classes"]["standard"], "title": "Hourly", "time_of_use": True}
        d["tariff"]["zone"] = zone
        d["tariff"]["periods"] = [
            {"name": "day", "off_peak": False, "factor": "1.25"},
            {"name": "night", "off_peak": True, "factor": "0.6"},
            {"name": "evening", "off_peak": False},
        ]
        for name in ("weekday", "weekend"):
            d["tariff"][name] = [[1] * 6 + [0] * 12 + [2] * 4 + [1] * 2] * 12
        d["minimum_charge"] = "5"
        d["free_tera_operations"] = "0.5"

    return book_from_json(document(change))


BOOKS = {
    (zone, currency): book_of(zone, currency, price=price)
    for zone in ZONES
    for currency, price in zip(CURRENCIES, ("1.25", "0.008", "0.000000000001"), strict=True)
}


@dataclass(frozen=True)
class Case:
    """One contract: its price book, program and terms, the leases that ran (executions each), where they began."""

    book: PriceBookDocument
    counts: Counts
    terms: Terms
    executions: int
    leases: tuple[int, ...]
    start: datetime
    seconds: Fraction
    served: tuple[str, ...]

    @property
    def full(self) -> bool:
        """Whether the whole volume was used."""
        return sum(self.leases) == self.executions


def quoted(case: Case) -> Rating:
    """What the quote says and what is held: everything used, as bought."""
    return rate(book=case.book, counts=case.counts, executions=case.executions, terms=case.terms)


def metered(case: Case) -> list[Rating]:
    """The leases, one after another from the contract's start, each by what it got."""
    found: list[Rating] = []
    begin = case.start
    for executions, served in zip(case.leases, case.served, strict=True):
        terms = case.terms
        if served:
            terms = Terms(**{**terms.__dict__, "served": served})
        measured = None
        if terms.measured:
            measured = Counts(
                case.counts.operations * executions * 3 // 4, max(1, case.counts.cycles * executions // 2)
            )
        found.append(
            rate_lease(
                book=case.book,
                counts=case.counts,
                executions=executions,
                terms=terms,
                start=begin,
                seconds=case.seconds,
                measured=measured,
            )
        )
        begin += timedelta(microseconds=int(executions * case.seconds * 10**6) + 1)
    return found


def rest(case: Case) -> Rating | None:
    """What was bought and not used, at the class's share for that."""
    left = case.executions - sum(case.leases)
    if not left:
        return None
    return rate(book=case.book, counts=case.counts, executions=left, terms=case.terms, unused=True)


def quota_of(case: Case) -> tuple[Rating, list[Rating], Rating | None]:
    """The same program drawn from a raw quota: (quota, draws, the rest)."""
    terms = Terms(**{**case.terms.__dict__, "form": "quota", "schedule": None, "measured": False})
    draws = [rate(book=case.book, counts=case.counts, executions=n, terms=terms) for n in case.leases]
    drawn = sum(item.billed_operations for item in draws)
    volume = quoted(case).billed_operations
    quota = rate_quota(book=case.book, operations=volume, terms=terms)
    left = volume - drawn
    return quota, draws, rate_quota(book=case.book, operations=left, terms=terms, unused=True) if left else None


def case_of(dice: random.Random) -> Case:
    """One case; amounts from about 1e-15 to above 1e12."""
    zone, currency = dice.choice(ZONES), dice.choice(CURRENCIES)
    book = BOOKS[zone, currency]
    counts = Counts(dice.randrange(10 ** dice.randrange(1, 16)), dice.randrange(1, 10 ** dice.randrange(1, 11)))
    form = dice.choice(("execution", "execution", "spread", "interval"))
    klass = "guaranteed" if form == "interval" else dice.choice(KLASSES)
    month, day = dice.choice(CHANGES[zone])
    start = datetime(2026, month, day, tzinfo=UTC) + timedelta(seconds=dice.randrange(-86_400, 86_400))
    end = start + timedelta(days=2)
    if form == "execution":
        schedule, executions = None, dice.randrange(1, 10 ** dice.randrange(1, 13))
    else:
        every = Fraction(1, 1000) if form == "interval" else Fraction(86_400)
        span = (
            timedelta(seconds=dice.randrange(1, 3600)) if form == "interval" else timedelta(days=dice.randrange(1, 60))
        )
        schedule = Schedule.between(each=dice.randrange(1, 1000), every=every, start=start, end=start + span)
        executions = schedule.executions
    terms = Terms(
        processor_class="lpu",
        precision=dice.choice(("float32", "int8")),
        klass=klass,
        commitment=dice.choice(sorted(book.commitments)),
        instant=tariff_bound(book, klass, start, end),
        form=form,
        schedule=schedule,
        measured=dice.random() < 0.2,
        discounts={"negotiated": Decimal("0.95")} if dice.random() < 0.2 else {},
    )
    leases = tuple(_leases(dice, executions))
    served = tuple(dice.choice(("", "", "", "batch")) for _ in leases)
    seconds = Fraction(dice.randrange(1, 20 * 3600), executions)
    return Case(book, counts, terms, executions, leases, start, seconds, served)


def cases(count: int, seed: int = 2026) -> Iterator[Case]:
    """So many cases, the same on every machine."""
    dice = random.Random(seed)
    for _ in range(count):
        yield case_of(dice)


def _leases(dice: random.Random, executions: int) -> list[int]:
    """The volume cut into up to four leases, in half of the cases all of it."""
    used = executions if dice.random() < 0.5 else dice.randrange(1, executions + 1)
    cuts = sorted({dice.randrange(1, used) for _ in range(3)}) if used > 1 else []
    edges = [0, *cuts, used]
    return [right - left for left, right in pairwise(edges)]
