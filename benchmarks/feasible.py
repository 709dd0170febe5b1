"""Whether what a plan calls feasible is sold, and nothing else: `python -m benchmarks.feasible [--fleets N] [--attempts N]
[--seed N]`

Random fleets (1 to 8 pools of three processors and of hosts, 1 to 20 devices, some of them draining, failed or spare, power
settings, three price books) with random timetables, and for each a task with up to three models. A plan is made by the service
on PostgreSQL, a second one with requirements at the very edge of what the first one showed. Then for every candidate, with `now`
as it was for the plan: a feasible one is quoted and accepted, and the end of its last window and its price, on quote, contract
and hold, must be the plan's; one that the plan refuses for capacity is quoted and accepted too, and admission must refuse it;
every other reason must be true by stored facts (`benchmarks.feasible_truth`). Of what an exhaustive placement accepts at least
99 % must be called feasible. All of a fleet is rolled back. Quotes of candidates that were not chosen leave out the tables
of other classes and hours.

Then eight processes accept `--attempts` quotes of several organisations on few devices, while the fleet changes now and then
(`benchmarks.feasible_race`). Exit status 1 when anything differs.
"""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING, Any
from uuid import UUID

from benchmarks.arguments import parser, whole
from benchmarks.feasible_market import Base, Market, base_open, market_open, tightened
from benchmarks.feasible_race import race
from benchmarks.feasible_truth import LONGEST, USUAL, Facts, Proven, Work, facts_of, latency_of, proven_of, work_of
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.planner.models import Plan
    from apps.sales.models import Contract

SHARE = Fraction(99, 100)
SHOWN, EVERY = 20, 20
KINDS = ("single", "cascade")


@dataclass
class Told:
    """What the fleets came to; `wrong` in sentences."""

    counted: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Row:
    """A candidate of a plan with what is true of it."""

    row: dict[str, Any]
    facts: Facts
    plan: Plan
    programs: dict[UUID, Any]
    work: Work | None
    proven: Proven | None

    @property
    def until(self) -> datetime:
        """The end of the task's window."""
        return self.facts.market.until or self.facts.market.now + USUAL

    @property
    def farthest(self) -> datetime:
        """The end of the longest window that a quote may have."""
        return self.facts.market.now + LONGEST


def main(arguments: list[str]) -> int:
    command = parser("feasible", __doc__ or "")
    for name, default in (("fleets", 1000), ("attempts", 10_000), ("seed", 1)):
        command.add_argument(f"--{name}", type=whole, default=default, help=f"default: {default}")
    given = command.parse_args(arguments)
    with house():
        base = base_open()
        failed = _fleets(base, given.fleets, given.seed) if given.fleets else False
        failed |= race(given.attempts, given.seed, base) if given.attempts else False
    return 1 if failed else 0


def _fleets(base: Base, fleets: int, seed: int) -> bool:
    from django.db import transaction

    told, began = Told(), time.monotonic()
    for number in range(fleets):
        with transaction.atomic():
            try:
                _fleet(base, seed, number, told)
            except Exception as error:  # noqa: BLE001 - what breaks is part of the answer
                told.wrong.append(f"fleet {number} broke: {error!r}"[:400])
            transaction.set_rollback(True)
        if (number + 1) % EVERY == 0:
            print(f"  {number + 1} fleets, {time.monotonic() - began:.0f} s, {len(told.wrong)} differences", flush=True)
    return _report(fleets, seed, told, time.monotonic() - began)


def _fleet(base: Base, seed: int, number: int, told: Told) -> None:
    market, dice = market_open(base, seed, number)
    plan = _planned(base, market)
    rows = [row for row in plan.candidates if row["price"] is not None]
    market = tightened(market, dice.choice(rows) if rows else None, dice)
    plan = _planned(base, market)
    facts = facts_of(market)
    programs = {one.pk: one for one in market.programs}
    told.counted["plans"] += 1
    told.counted["plans with a choice"] += plan.chosen is not None
    for index, row in enumerate(plan.candidates):
        told.counted["candidates"] += 1
        if row["kind"] not in KINDS:
            told.counted[f"candidates of the kind {row['kind']}, not worked out anew"] += 1
            continue
        error = Fraction(plan.basis["error"])
        one = Row(row, facts, plan, programs, work_of(row, programs), proven_of(row, programs, error, market))
        for what in _judge(base, one, told, is_chosen=plan.chosen is not None and index == 0):
            told.wrong.append(f"fleet {number}, {row['title']} on {row['pool']}: {what}")


def _planned(base: Base, market: Market) -> Plan:
    from apps.planner.services import plan_create
    from apps.planner.solver import Requirements

    return plan_create(
        subject=market.subject,
        requirements=Requirements(**market.stated),
        actor=base.engineer,
        now=market.now,
        klass=market.klass,
        until=market.until,
    )


def _judge(base: Base, one: Row, told: Told, *, is_chosen: bool) -> Iterator[str]:
    """What is wrong with what the plan says of a candidate."""
    row, plan = one.row, one.plan
    yield from _figures(one)
    contract = None
    if one.work is not None and row["price"] is not None:
        contract = _accepted(base, one, is_chosen=is_chosen)
        yield from _placement(one, told, contract)
    if row["feasible"]:
        told.counted["called feasible"] += 1
        told.counted["chosen, and accepted from the plan's own quote"] += is_chosen and contract is not None
        if contract is None:
            yield "called feasible, and refused"
        else:
            told.counted["called feasible and accepted"] += 1
            yield from _same(one, contract)
        yield from (f"called feasible, and {name} is not met" for name in _unmet(one))
        return
    if not row["reasons"]:
        yield "infeasible without a reason"
    for reason in row["reasons"]:
        name, is_true = _true(one, reason, contract)
        told.reasons[name] += 1
        if not is_true:
            yield f"not true: {reason} (until {one.until}, requirements {plan.requirements})"


def _figures(one: Row) -> Iterator[str]:
    """Figures that differ from those worked out anew."""
    row = one.row
    found = {
        "accuracy": None if one.proven is None else one.proven.accuracy,
        "duration": None if one.work is None else one.work.seconds,
        "latency": None if one.work is None else latency_of(row, one.work, one.programs),
    }
    for name, value in found.items():
        if value is not None and Fraction(row[name] or -1) != value:
            yield f"{name} is {row[name]}, worked out anew {value}"
    if row["kind"] == "cascade" and one.proven is not None:
        items, shares = one.plan.requirements["items"], one.proven.shares
        counts = [line["executions"] for line in row["lines"]]
        if counts != [items, *(max(1, ceil(items * share)) for share in shares)]:
            yield f"executions are {counts} of {items} items, of which {[str(share) for share in shares]} go on"


def _placement(one: Row, told: Told, contract: Contract | None) -> Iterator[str]:
    """Exhaustive placement beside admission, and beside what the plan says where nothing else stands against it."""
    assert one.work is not None
    pool = one.row["pool"]
    fits = one.facts.fits(one.work, pool, one.until)
    if fits != (contract is not None):
        yield f"exhaustive placement says {fits}, admission {contract is not None} ({one.work}, until {one.until})"
    if any(_unmet(one)):
        return
    told.counted["nothing but capacity in question"] += 1
    told.counted["exhaustive placement accepts"] += fits
    told.counted["of these called feasible"] += fits and one.row["feasible"]
    freely = one.facts.fits_freely(one.work, pool, one.until)
    told.counted["a freer rule might accept"] += freely
    told.counted["of these called feasible "] += freely and one.row["feasible"]


def _unmet(one: Row) -> Iterator[str]:
    """The requirements that the candidate does not meet, capacity aside."""
    stated, row = one.facts.market.stated, one.row
    accuracy = one.proven.accuracy if one.proven else Fraction(-1)
    if "accuracy" in stated and accuracy < stated["accuracy"]:
        yield "accuracy"
    for name in ("latency", "duration"):
        if name in stated and (row[name] is None or Fraction(row[name]) > stated[name]):
            yield name
    if "budget" in stated and (row["price"] is None or Decimal(row["price"]) > stated["budget"]):
        yield "budget"


def _same(one: Row, contract: Contract) -> Iterator[str]:
    """The plan's instant and price beside the contract's."""
    from apps.ledger.models import Hold
    from apps.timetable.models import Window

    ends = max(
        period.upper
        for period in Window.objects.filter(reservation=contract.reservation_id).values_list("period", flat=True)
    )
    if one.row["completion"] != ends.isoformat():
        yield f"done by {one.row['completion']}, its last window ends {ends.isoformat()}"
    held = sum(Hold.objects.filter(contract_id=contract.pk).values_list("amount", flat=True), Decimal(0))
    prices = {Fraction(one.row["price"]), Fraction(contract.quote.worst), Fraction(contract.net), Fraction(held)}
    if len(prices) > 1:
        yield f"the plan's, quote's, contract's and hold's prices differ: {prices}"


def _accepted(base: Base, one: Row, *, is_chosen: bool, until: datetime | None = None) -> Contract | None:
    """The contract of a candidate's quote, made and accepted at the plan's moment; None where admission refuses. Its rows are
    there until the fleet is rolled back for the comparison, and their time is free again."""
    from django.db import transaction

    from apps.accounts.problems import Problem
    from apps.fleet.models import Pool
    from apps.sales.plans import plan_lines_get
    from apps.sales.services import QuoteLine, quote_accept, quote_create
    from apps.timetable.models import Window
    from apps.timetable.services import CapacityTaken

    market, planned = one.facts.market, None
    lines = [
        QuoteLine(one.programs[UUID(line["program"])], line["executions"], line["expected"], planned=True)
        for line in one.row["lines"]
    ]
    pool, klass, end = (
        Pool.objects.select_related("processor").get(slug=one.row["pool"]),
        market.klass,
        until or market.until,
    )
    if is_chosen:
        planned = plan_lines_get(organisation=base.organisation, plan_id=one.plan.pk, items=None)
        lines, pool, klass, end = planned.lines, planned.pool, planned.klass, planned.until
    try:
        with short_quotes(is_short=not is_chosen), transaction.atomic():
            quote = quote_create(
                organisation=base.organisation,
                lines=lines,
                klass=klass,
                pool=pool,
                window=(None, end),
                actor=base.engineer,
                plan_id=one.plan.pk,
                now=market.now,
            )
            contract = quote_accept(quote_id=quote.pk, organisation=base.organisation, actor=base.owner, now=market.now)
    except Problem as refused:
        if not isinstance(refused, CapacityTaken) and refused.kind != "window":
            raise
        return None
    Window.objects.filter(reservation=contract.reservation_id).update(state="released")
    return contract


@contextmanager
def short_quotes(*, is_short: bool) -> Iterator[None]:
    """Quotes without the tables of other classes and hours, which no acceptance reads."""
    from apps.sales.services import quoting

    kept = quoting.alternatives_of, quoting.start_times_of
    if is_short:
        nothing: Callable[..., Any] = lambda *_given, **_named: []  # noqa: E731 - one line
        quoting.alternatives_of, quoting.start_times_of = nothing, nothing
    try:
        yield
    finally:
        quoting.alternatives_of, quoting.start_times_of = kept


def _true(one: Row, reason: str, contract: Contract | None) -> tuple[str, bool]:
    """Which reason a sentence is, and whether it is true."""
    from benchmarks.feasible_reasons import REASONS

    for name, pattern, check in REASONS:
        found = re.search(pattern, reason)
        if found:
            return name, check(one, found, contract)
    return "not recognised", False


def _report(fleets: int, seed: int, told: Told, seconds: float) -> bool:
    print(f"{fleets} random fleets, seed {seed}: {seconds:.0f} s")
    for name, count in told.counted.items():
        print(f"  {count:7,}  {name}")
    print("  reasons, each shown true: " + ", ".join(f"{count:,} {name}" for name, count in told.reasons.most_common()))
    share = _share(told, "exhaustive placement accepts", "of these called feasible")
    print(
        f"  of what exhaustive placement accepts {float(share):.2%} are called feasible (at least {float(SHARE):.0%})"
    )
    freer = _share(told, "a freer rule might accept", "of these called feasible ")
    print(f"  with any number of windows, and cascades cut, at least {float(freer):.2%}")
    for one in told.wrong[:SHOWN]:
        print(f"  WRONG: {one}")
    print(f"differences = {len(told.wrong)}")
    return bool(told.wrong) or share < SHARE


def _share(told: Told, all_of: str, some: str) -> Fraction:
    return Fraction(told.counted[some], told.counted[all_of]) if told.counted[all_of] else Fraction(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
