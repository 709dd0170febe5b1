"""Creates, cancels and fails jobs."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from apps.accounts.counters import name_clean, number_next
from apps.accounts.files import file_save, file_transaction
from apps.accounts.idempotency import keep
from apps.accounts.models import NumberKind, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import Program
from apps.dispatch import contracts
from apps.dispatch.models import Job, JobState
from apps.dispatch.services.ending import job_end
from apps.dispatch.services.stages import lease_block, stage_create, stage_place, stage_place_or_wait
from apps.registry.feeds import InputError, arrays_pack, items_check, items_count_check, items_match
from apps.registry.feeds.check import Array, TensorType
from apps.sales.models import Contract
from apps.sales.services import contract_executions_take
from apps.timetable.services import CapacityTaken, refusal_record

BLOCKS_MAX = 10_000
STATES_ITEMS_MAX = 4_096  # of a job whose program keeps states: one lease, which a crash repeats
Inputs = dict[str, Array]


class Seeded(NamedTuple):
    """The number of items to generate. Workers generate the items block by block."""

    items: int


class Stored(NamedTuple):
    """Items that are already checked and stored under `key`. `job` is the id that the job will get."""

    items: int
    job: UUID
    key: str


def inputs_problem(error: InputError) -> Problem:
    """Return a problem that lists every fault of the inputs."""
    errors = [{"message": sentence} for sentence in error.problems]
    return Problem(422, "The inputs do not fit", " ".join(error.problems), kind="inputs-do-not-fit", errors=errors)


def program_choose(
    contract: Contract, arrays: Inputs | Seeded | Stored, wanted: UUID | None = None
) -> tuple[Program, list[TensorType]]:
    """Return the contract's program whose inputs fit the arrays, with the types of these inputs.

    Generated or stored items take the first candidate. A single candidate is returned unchecked. Raises Problem(422) if
    none of several candidates fits.
    """
    candidates = [(program, contracts.inputs_of(program)) for program in _programs(contract, wanted)]
    if isinstance(arrays, Seeded | Stored):
        return candidates[0]
    fitting = next((one for one in candidates if items_match(arrays, one[1])), None)
    if fitting is None and len(candidates) > 1:
        raise _nothing_fits(arrays, [types for _, types in candidates])
    return fitting or candidates[0]


def _programs(contract: Contract, wanted: UUID | None) -> list[Program]:
    # For a combination, a job's inputs are intended for the first program.
    plan = contracts.combination_of(contract)
    programs = [plan.programs[0]] if plan else [line.program for line in contracts.lines_of(contract)]
    programs = [program for program in programs if wanted in (None, program.pk)]
    if not programs:
        raise Problem(422, "No such program", "The contract does not include this program.", kind="not-in-contract")
    return programs


def _nothing_fits(arrays: Inputs, candidates: Sequence[list[TensorType]]) -> Problem:
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    accepted = "; or ".join(", ".join(str(one) for one in types) for types in candidates)
    detail = f"No program of this contract has inputs of these shapes: {shapes}. Each item needs: {accepted}."
    return Problem(422, "No program accepts these inputs", detail, kind="inputs-do-not-fit")


def job_create(
    *,
    contract: Contract,
    arrays: Inputs | Seeded | Stored,
    actor: User | None,
    now: datetime,
    wanted: UUID | None = None,
    token_id: UUID | None = None,
    name: str = "",
) -> Job:
    """Create a job: deduct its items from the contract's volume, and place its leases in the timetable.

    `arrays` is one of three: the inputs by name, with the items along the first axis; the number of items to generate;
    or stored items. `wanted` is the program to run if the contract has several. `token_id` is the API token that is
    recorded with the usage. `name` is the customer's own name for the job.

    Raises Problem(422) if the inputs do not fit, there are too many, or the name is invalid. Raises Problem(409) if the
    contract has ended, its volume is used up, its processor has changed, or there is no capacity.
    """
    program, types = program_choose(contract, arrays, wanted)
    plan = contracts.combination_of(contract)
    for one in plan.programs if plan else (program,):
        contracts.description_check(contract, one)
    checked, items = _checked(arrays, types)
    initial = plan.from_the_start if plan else (program,)
    for one in initial:
        _blocks_check(one, items)
    job = Job(
        id=arrays.job if isinstance(arrays, Stored) else uuid.uuid4(),
        organisation_id=contract.organisation_id,
        contract=contract,
        name=name_clean(name),
        submitted_by=actor,
        token_id=token_id,
        items=items,
        submitted_at=now,
        seed=0 if isinstance(arrays, Seeded) else None,
        inputs_key=arrays.key if isinstance(arrays, Stored) else "",
        **_confidence(plan),
    )
    try:
        with file_transaction():
            if checked:
                job.inputs_key = file_save(f"jobs/{job.pk}/inputs.npz", arrays_pack(checked))
            _job_store(job, initial)
    except CapacityTaken as refused:
        _refusal_record(contract, program, job.items, refused, now)
        raise
    return job


def _confidence(plan: contracts.Combination | None) -> dict[str, Any]:
    if plan is None:
        return {"threshold": None, "confidence_output": ""}
    return {"threshold": next(iter(plan.thresholds), None), "confidence_output": plan.outputs[0]}


def _checked(arrays: Inputs | Seeded | Stored, types: list[TensorType]) -> tuple[Inputs, int]:
    if isinstance(arrays, Stored):
        return {}, arrays.items
    try:
        if isinstance(arrays, Seeded):
            items_count_check(arrays.items)
            return {}, arrays.items
        checked = items_check(arrays, types)
    except InputError as error:
        raise inputs_problem(error) from error
    return checked, len(next(iter(checked.values())))


def items_most(program: Program) -> int:
    """Return the largest number of items that a job of the program can have."""
    if not program.keeps_state:
        return BLOCKS_MAX * lease_block(program)
    sequence = program.sequence
    return min(STATES_ITEMS_MAX, sequence["context"] // sequence["tokens"]) if sequence else STATES_ITEMS_MAX


def _blocks_check(program: Program, items: int) -> None:
    # The request writes one row for each block.
    most = items_most(program)
    if items > most:
        detail = f"A job of this program can have at most {most:,} items. Split your {items:,} items into several jobs."
        if program.keeps_state:
            detail = (
                f"This program keeps its state from item to item: a job is one sequence, of at most {most:,} items, and each job "
                f"begins with new states. Send fewer than your {items:,} items."
            )
        raise Problem(422, "Too many items", detail, kind="inputs-do-not-fit")


def _refusal_record(contract: Contract, program: Program, items: int, refused: CapacityTaken, now: datetime) -> None:
    note = partial(
        refusal_record,
        organisation_id=contract.organisation_id,
        pool=contract.pool,
        klass=contract.klass,
        duration=contracts.pace_of(contract, program).duration(items),
        reason=refused.detail,
        now=now,
    )
    keep(note)


def _job_store(job: Job, programs: Sequence[Program]) -> None:
    # The first stage must find room now. The other stages of an ensemble may wait for room.
    contract, now = job.contract, job.submitted_at
    for program in programs:
        contract_executions_take(contract_id=contract.pk, program_digest=program.digest, count=job.items, now=now)
    first, *others = [
        stage_create(job=job, position=position, program=program, count=job.items)
        for position, program in enumerate(programs)
    ]
    stage_place(stage=first, now=now)
    for stage in others:
        stage_place_or_wait(stage=stage, now=now)
    # Last, since other jobs of the organisation wait for their numbers until this transaction ends. The foreign keys of
    # the stages are checked when it commits.
    job.number = number_next(organisation_id=job.organisation_id, kind=NumberKind.JOB)
    job.save(force_insert=True)
    audit_record(
        action="job.submit",
        subject=f"job {job.pk}",
        actor=job.submitted_by,
        organisation=contract.organisation,
        now=now,
        detail={"contract": str(contract.pk), "items": job.items, "program": programs[0].digest},
    )


@file_transaction()
def job_cancel(*, job_id: UUID, actor: User | None, now: datetime) -> Job:
    """Cancel a job. Finished blocks are kept and billed. All other executions are returned to the contract.

    Raises Problem(409) if the job has ended.
    """
    job = Job.objects.select_for_update().get(pk=job_id)
    if job.is_final:
        raise Problem(
            409,
            "Nothing to cancel",
            f"This job is already {job.get_state_display().lower()}.",
            kind="nothing-to-cancel",
        )
    job_end(job=job, state=JobState.CANCELLED, problem="", now=now)
    audit_record(action="job.cancel", subject=f"job {job.pk}", actor=actor, organisation=job.organisation, now=now)
    return job


@file_transaction()
def job_fail(*, job_id: UUID, problem: str, now: datetime) -> Job:
    """End an open job and record the reason. Do nothing if the job has already ended."""
    job = Job.objects.select_for_update().get(pk=job_id)
    if not job.is_final:
        job_end(job=job, state=JobState.FAILED, problem=problem, now=now)
    return job
