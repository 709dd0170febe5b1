"""A year invoiced in memory by the rules of the rating alone: any clicks, in any order, over any ids."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from apps.pricing.rating import (
    Eligible,
    Fund,
    Held,
    Payable,
    Purse,
    Standing,
    asked_of,
    credits_pay,
    exact_sum,
    free_lines,
    minimum_line,
    month_end,
    month_start,
    section_of,
    tax_of,
)
from apps.pricing.rating.decimals import multiply, subtract
from apps.pricing.rating.months import Uses
from tests.money.years import END, START, TICK, YEAR, Total, Use, Year, months

NOTHING = Decimal(0)


@dataclass(frozen=True)
class Click:
    """What somebody, or the clock, does at an instant: `issue`, `month`, `void` (of the invoice `number`), `sweep`, `end` (of
    the credit `number`)."""

    at: datetime
    what: str
    number: int = 0


def clicks_of(dice: random.Random, most: int = 30) -> list[Click]:
    """Any clicks in a year, in order; some years have none at all."""
    found = [
        Click(
            START + TICK * dice.randrange(YEAR // TICK),
            dice.choice(["issue", "issue", "void", "sweep"]),
            dice.randrange(99),
        )
        for _ in range(dice.randrange(most))
    ]
    for _, last in months():
        if dice.random() < 0.5:
            found.append(Click(last + timedelta(hours=dice.choice([1, 1, 700])), "month"))
    return sorted(found, key=lambda one: one.at)


@dataclass
class Paper:
    """An invoice: what it holds of each section, what it asks for."""

    uses: list[int]
    lacks: list[int]
    own: dict[datetime, Held]
    credits: Uses
    net: Decimal
    carried_in: Decimal
    asked: Payable
    taxed: Decimal
    tax: Payable
    is_void: bool = False


@dataclass
class House:
    """A customer's year as it is invoiced. Ids are random, and uses stand in a random order."""

    year: Year
    dice: random.Random
    papers: list[Paper] = field(default_factory=list)
    given_up: dict[str, Decimal] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uses: list[Use] = self.dice.sample(self.year.uses, len(self.year.uses))
        self.ids = [f"{self.dice.getrandbits(64):016x}" for _ in self.year.credits]
        self.funds = [
            Fund(key, one.at, one.expires, one.amount) for key, one in zip(self.ids, self.year.credits, strict=True)
        ]

    @property
    def standing(self) -> list[Paper]:
        return [paper for paper in self.papers if not paper.is_void]

    def click(self, one: Click) -> None:
        """Do it; what is not possible changes nothing."""
        if one.what == "issue":
            self.issue(one.at)
        elif one.what == "month":
            self.issue(month_start(one.at), carry=True)
        elif one.what == "sweep":
            self.sweep(one.at)
        elif one.what == "end":
            self.end(self.ids[one.number], one.at)
        elif self.standing:
            paper = self.standing[one.number % len(self.standing)]
            paper.is_void = bool(exact_sum([paper.asked.payable, paper.tax.payable]))

    def close(self) -> None:
        """The year is over: everything that is open is asked for."""
        self.sweep(END)
        self.issue(END)

    def draft(self, until: datetime) -> Paper | None:
        """What would be asked for at an instant."""
        taken, charged = ({at for one in self.standing for at in getattr(one, kind)} for kind in ("uses", "lacks"))
        purse = self._purse(until)
        uses = [index for index, one in enumerate(self.uses) if index not in taken and one.at < until]
        lacks = [index for index, (at, _) in enumerate(self.year.lacks) if index not in charged and at < until]
        own: defaultdict[datetime, Held] = defaultdict(Held)
        for use in (self.uses[index] for index in uses):
            parts = [Eligible(use.allowance, use.worth, use.operations)] if use.allowance else []
            own[section_of(use.at, purse.cuts)].use(use.amount, parts)
        for at, amount in (self.year.lacks[index] for index in lacks):
            held = own[section_of(at, purse.cuts)]
            held.shortfall = exact_sum([held.shortfall, amount])
        sections: defaultdict[datetime, list[Held]] = defaultdict(list)
        for paper in self.standing:
            for section, held in paper.own.items():
                sections[section].append(held)
        standing = Standing(sections, {})
        free_lines(own, standing)
        topped = self._minimum(until, own, standing, purse)
        if not uses and not lacks and not topped:
            return None
        return self._paper(uses, lacks, dict(own), credits_pay(purse, own, standing).uses)

    def issue(self, until: datetime, *, carry: bool = False) -> None:
        """As the product does; with `carry` what comes to less than one unit stays open."""
        paper = self.draft(until)
        unit = Decimal(1).scaleb(-self.year.exponent)
        if paper is None or (carry and not _has_lines(paper) and paper.asked.exact < unit):
            return
        assert paper.net >= 0, "an invoice's net is never negative"
        assert paper.asked.payable >= 0
        assert exact_sum([paper.net, paper.carried_in]) == exact_sum([paper.asked.payable, paper.asked.carried])
        self.papers.append(paper)

    def sweep(self, now: datetime) -> None:
        """Credits whose time is over are given up, but for what pays for use that is not invoiced yet."""
        for fund in self.funds:
            if fund.over is not None and fund.over <= now:
                self._give_up(fund, now)

    def end(self, credit: str, now: datetime) -> None:
        """A person ends a credit."""
        self.funds = [replace(fund, ended=now) if fund.credit == credit else fund for fund in self.funds]
        self._give_up(next(fund for fund in self.funds if fund.credit == credit), now)

    def waiting(self, credit: str, now: datetime) -> Decimal:
        """What of a credit pays for use that is not invoiced yet."""
        draft = self.draft(now)
        return exact_sum(amount for (_, key), amount in draft.credits.items() if key == credit) if draft else NOTHING

    def _give_up(self, fund: Fund, now: datetime) -> None:
        over = subtract(self._left()[fund.credit], self.waiting(fund.credit, now))
        self.given_up[fund.credit] = exact_sum([self.given_up.get(fund.credit, NOTHING), max(over, NOTHING)])

    def total(self) -> Total:
        """What stands in the end."""
        held = [one for paper in self.standing for one in paper.own.values()]
        return Total(
            charged=Fraction(exact_sum(one.charge for one in held)),
            free=Fraction(exact_sum(one.free.amount for one in held)),
            minimum=Fraction(exact_sum(one.minimum for one in held)),
            credits=Fraction(exact_sum(amount for paper in self.standing for amount in paper.credits.values())),
            payable=Fraction(exact_sum(paper.asked.payable for paper in self.standing)),
            tax=Fraction(exact_sum(paper.tax.payable for paper in self.standing)),
        )

    def _left(self) -> dict[str, Decimal]:
        used: defaultdict[str, Decimal] = defaultdict(Decimal, self.given_up)
        for paper in self.standing:
            for (_, key), amount in paper.credits.items():
                used[key] = exact_sum([used[key], amount])
        return {fund.credit: subtract(fund.amount, used[fund.credit]) for fund in self.funds}

    def _purse(self, now: datetime) -> Purse:
        """What is granted so far."""
        used: Uses = {}
        for paper in self.standing:
            for key, amount in paper.credits.items():
                used[key] = exact_sum([used.get(key, NOTHING), amount])
        return Purse(tuple(fund for fund in self.funds if fund.start < now), self._left(), used)

    def _minimum(self, until: datetime, own: dict[datetime, Held], standing: Standing, purse: Purse) -> bool:
        topped = False
        for least, (first, last) in zip(self.year.least, months(), strict=True):
            if last > until or not least or not any(first <= one.at < last for one in self.uses):
                continue
            line = minimum_line(first, least, own, standing)
            if line is not None:
                topped = True
                own[section_of(month_end(first) - TICK, purse.cuts)].minimum = line.amount
        return topped

    def _paper(self, uses: list[int], lacks: list[int], own: dict[datetime, Held], paid: Uses) -> Paper:
        papers, exponent = self.standing, self.year.exponent
        net = subtract(exact_sum(held.charge for held in own.values()), exact_sum(paid.values()))
        carried = exact_sum(subtract(paper.asked.carried, paper.carried_in) for paper in papers)
        before = exact_sum(paper.asked.payable for paper in papers)
        asked = asked_of(exact_sum([net, carried]), before=before, exponent=exponent)
        taxed = multiply(asked.payable, self.year.tax)
        tax = tax_of(
            taxed,
            carried_in=exact_sum(subtract(paper.taxed, paper.tax.payable) for paper in papers),
            before=exact_sum(paper.tax.payable for paper in papers),
            exponent=exponent,
        )
        return Paper(uses, lacks, own, paid, net, carried, asked, taxed, tax)


def _has_lines(paper: Paper) -> bool:
    """Named lines beside usage: what has one is asked for, however little it is."""
    return bool(paper.credits) or any(held.free.amount or held.shortfall or held.minimum for held in paper.own.values())


def invoiced(year: Year, clicks: list[Click], dice: random.Random) -> Total:
    """The year with these clicks, and the ends of its credits, which are facts."""
    house = House(year, dice)
    ends = [Click(one.ended, "end", number) for number, one in enumerate(year.credits) if one.ended]
    for one in sorted([*clicks, *ends], key=lambda one: one.at):
        house.click(one)
    house.close()
    return house.total()
