"""What dispatch needs to know about a contract and its programs."""

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
    """A program of a contract, with the number of executions bought and the number still available for jobs."""

    program: Program
    executions: int
    left: int


class Combination(NamedTuple):
    """A cascade or ensemble: programs that process a job's items together, in the order in which the programs run.

    In a cascade, program i passes on an item if all values of its output `outputs[i]` are below `thresholds[i]`. An
    ensemble has no thresholds; `outputs[i]` names the output that holds program i's answer.
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
    """Return the operations and cycles for which one execution is billed."""
    return Counts(operations=program.operations, cycles=program.interval_cycles)


def inputs_of(program: Program) -> list[TensorType]:
    """Return the names, types and shapes of the inputs of one execution."""
    return [TensorType(one["name"], one["dtype"], tuple(one["shape"])) for one in program.inputs]


def pace_of(contract: Contract, program: Program) -> Pace:
    """Return the pace of the program on the contract's pool. On a host pool, the pace is the latest measured 95th
    percentile.

    Raises Problem(409) if the host pool has not measured the program yet.
    """
    pool = contract.pool
    if not pool.is_host:
        clock = pool.clock_at(program.clock_hz)
        return Pace(program.latency_cycles, program.interval_cycles, clock, _load_cycles(contract, program))
    measured = host_measurement_latest(pool=pool, program_digest=program.digest)
    if measured is None:
        detail = f"{program} has not been measured on {pool.slug} yet. Try again in a minute."
        raise Problem(409, "Not measured yet", detail, kind="not-measured")
    return Pace(measured.p95_ns, measured.p95_ns, NANOSECONDS)


def _load_cycles(contract: Contract, program: Program) -> int:
    # A quota reserves no loading time.
    if contract.form == FormName.QUOTA:
        return 0
    return snapshot_of_line(terms_line(contract, program.digest)).load_cycles


def description_check(contract: Contract, program: Program) -> None:
    """Raises Problem(409) if the description of the pool's processor has changed since the program was compiled."""
    processor = contract.pool.processor
    if processor is None or processor.digest == program.target_digest:
        return
    model = program.model_version.model.name
    detail = (
        f"{model} was compiled for an earlier description of {program.target} ({program.target_digest[:12]}). Pool "
        f"{contract.pool.slug} now uses a newer description ({processor.digest[:12]}). Compile {model} for {processor.name} "
        "again and accept a new quote. This contract was not charged."
    )
    raise Problem(409, "Processor changed", detail, kind="processor-described-anew")


def lines_of(contract: Contract) -> list[Line]:
    """Return the contract's programs in the order of its lines. For a quota, return every program that may use the
    quota.
    """
    if contract.form == FormName.QUOTA:
        drawing = quota_programs(contract)
        return [Line(program, left, left) for program, left in drawing]
    known = "lines" in getattr(contract, "_prefetched_objects_cache", {})
    rows = contract.lines.all() if known else contract.lines.select_related("program__model_version__model")
    return [Line(row.program, row.executions or row.taken, row.left) for row in rows]


def line_of(contract: Contract, program: Program) -> Line:
    """Return the contract's current line for a program. Raises KeyError if the contract has no line for the program."""
    for line in lines_of(contract):
        if line.program.digest == program.digest:
            return line
    raise KeyError(program.digest)


def combination_of(contract: Contract) -> Combination | None:
    """Return the cascade or ensemble that was bought with the contract's plan; None for other contracts."""
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
    # Terms state no number if they are older than promises or are for work on another pool.
    number = contract.terms.get("promises", {}).get("number")
    if number is not None:
        found: dict[str, Any] = plan.candidates[number]
        return found
    bought = [snapshot_of_line(line).program_id for line in contract.terms["lines"]]
    known = [one for one in (plan.chosen, *plan.candidates) if one and one.get("lines")]
    return next((one for one in known if [str(row["program"]) for row in one["lines"]] == bought), {})


def limits_of(contract: Contract, duration: Fraction, *, now: datetime) -> Limits:
    """Return the times at which `duration` seconds of the contract's work may run, starting from `now`."""
    return contract_allowed(contract, now, duration)
