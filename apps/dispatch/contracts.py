"""What dispatch reads of a contract and of the programs that it names."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.dispatch.devicetime import Pace
from apps.fleet.selectors import host_measurement_latest
from apps.planner.models import Plan
from apps.pricing.limits import Limits
from apps.pricing.rating import Counts
from apps.registry.feeds import TensorType
from apps.sales.models import Contract, FormName
from apps.sales.selectors import contract_allowed, quota_programs, terms_line
from apps.sales.snapshots import snapshot_of_line

NANOSECONDS = 1_000_000_000
COMBINED = {"cascade", "ensemble"}


class Line(NamedTuple):
    """A program of a contract, how many executions were bought and how many are not promised to jobs yet."""

    program: Program
    executions: int
    left: int


class Combination(NamedTuple):
    """Programs that work on a job together, in the order in which they run.

    A cascade: items whose `outputs[i]` has no value of at least `thresholds[i]` under one program go to the next. An ensemble
    has no thresholds: every program looks at every item, and `outputs` are those that give their answers.
    """

    programs: tuple[Program, ...]
    outputs: tuple[str, ...]
    thresholds: tuple[Decimal, ...]

    @property
    def is_ensemble(self) -> bool:
        return not self.thresholds

    @property
    def from_the_start(self) -> tuple[Program, ...]:
        """The programs that run on every item."""
        return self.programs if self.is_ensemble else self.programs[:1]


def counts_of(program: Program) -> Counts:
    """What one execution is billed by."""
    return Counts(operations=program.operations, cycles=program.interval_cycles)


def inputs_of(program: Program) -> list[TensorType]:
    """The inputs of one execution."""
    return [TensorType(one["name"], one["dtype"], tuple(one["shape"])) for one in program.inputs]


def pace_of(contract: Contract, program: Program) -> Pace:
    """How fast the contract's pool runs the program: proven cycles at the pool's clock, and the load that its windows were sold
    with; on a host the newest measured 95th percentile."""
    pool = contract.pool
    if not pool.is_host:
        clock = pool.clock_at(program.clock_hz)
        return Pace(program.latency_cycles, program.interval_cycles, clock, _load_cycles(contract, program))
    measured = host_measurement_latest(pool=pool, program_digest=program.digest)
    if measured is None:
        detail = f"{program} has not been measured on {pool.slug} yet; that takes a few seconds. Try again in a minute."
        raise Problem(409, "Not measured yet", detail, kind="not-measured")
    return Pace(measured.p95_ns, measured.p95_ns, NANOSECONDS)


def _load_cycles(contract: Contract, program: Program) -> int:
    """As the frozen line says; 0 for a quota, which names no program and so reserved no loading."""
    if contract.form == FormName.QUOTA:
        return 0
    return snapshot_of_line(terms_line(contract, program.digest)).load_cycles


def description_check(contract: Contract, program: Program) -> None:
    """Whether the pool's processor is still described as it was when the program was compiled.

    Raises Problem(409): what was proven of the program does not hold for the other description.
    """
    processor = contract.pool.processor
    if processor is None or processor.digest == program.target_digest:
        return
    model = program.model_version.model.name
    detail = (
        f"{model} was compiled for {program.target} as it was described before ({program.target_digest[:12]}); pool "
        f"{contract.pool.slug} is described anew ({processor.digest[:12]}). Compile {model} for {processor.name} again and "
        "accept a new quote; nothing was taken from this contract."
    )
    raise Problem(409, "An earlier description of the processor", detail, kind="processor-described-anew")


def lines_of(contract: Contract) -> list[Line]:
    """The contract's programs in the order of its lines; of a quota, every program that may draw from it."""
    if contract.form == FormName.QUOTA:
        drawing = quota_programs(contract)
        return [Line(program, left, left) for program, left in drawing]
    known = "lines" in getattr(contract, "_prefetched_objects_cache", {})
    rows = contract.lines.all() if known else contract.lines.select_related("program__model_version__model")
    return [Line(row.program, row.executions or row.taken, row.left) for row in rows]


def line_of(contract: Contract, program: Program) -> Line:
    """The line of one program, as it stands now. Raises KeyError."""
    for line in lines_of(contract):
        if line.program.digest == program.digest:
            return line
    raise KeyError(program.digest)


def combination_of(contract: Contract) -> Combination | None:
    """The cascade or the ensemble that the contract's plan chose; None for plain contracts.

    Plans that were made when a cascade had two programs at most hold one threshold and one output.
    """
    if contract.plan_id is None:
        return None
    plan = Plan.objects.filter(pk=contract.plan_id).first()
    chosen = _candidate(contract, plan) if plan else {}
    if chosen.get("kind") not in COMBINED:
        return None
    found = {str(line.program.pk): line.program for line in lines_of(contract)}
    programs = tuple(found[str(pk)] for pk in chosen["programs"])
    thresholds, outputs = chosen.get("thresholds"), chosen.get("outputs")
    if thresholds is None or outputs is None:
        thresholds, outputs = [chosen["threshold"]], [chosen["output"]]
    return Combination(programs, tuple(outputs), tuple(Decimal(one) for one in thresholds))


def _candidate(contract: Contract, plan: Plan) -> dict[str, Any]:
    """The candidate that was bought: the one that the terms number, else the first with the contract's programs, beginning with
    the chosen one. Terms without promises, of before they were kept or of work on another pool, number none."""
    number = contract.terms.get("promises", {}).get("number")
    if number is not None:
        found: dict[str, Any] = plan.candidates[number]
        return found
    bought = [snapshot_of_line(line).program_id for line in contract.terms["lines"]]
    known = [one for one in (plan.chosen, *plan.candidates) if one and one.get("lines")]
    return next((one for one in known if [str(row["program"]) for row in one["lines"]] == bought), {})


def limits_of(contract: Contract, duration: Fraction, *, now: datetime) -> Limits:
    """Where `duration` seconds of the contract's work may lie from now on: the same rule as when the quote was made."""
    return contract_allowed(contract, now, duration)
