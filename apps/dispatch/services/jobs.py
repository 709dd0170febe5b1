"""Taking a job, cancelling it, ending it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple
from uuid import UUID

from apps.accounts.files import file_save, file_transaction
from apps.accounts.idempotency import keep
from apps.accounts.models import User
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
Inputs = dict[str, Array]


class Seeded(NamedTuple):
    """So many made-up items; they are generated where they run, block by block."""

    items: int


class Stored(NamedTuple):
    """So many items that were checked for the program and stored under `key` for the job that will have the id `job`."""

    items: int
    job: UUID
    key: str


def inputs_problem(error: InputError) -> Problem:
    """The refusal that lists every fault of the inputs."""
    errors = [{"message": sentence} for sentence in error.problems]
    return Problem(422, "The inputs do not fit", " ".join(error.problems), kind="inputs-do-not-fit", errors=errors)


def program_choose(
    contract: Contract, arrays: Inputs | Seeded | Stored, wanted: UUID | None = None
) -> tuple[Program, list[TensorType]]:
    """The contract's program whose input shapes these arrays have: the bucket that fits, or the first of a cascade or an
    ensemble; of a quota the `wanted` one. Made-up and stored items are the first program's.

    Raises Problem with what each program takes.
    """
    plan = contracts.combination_of(contract)
    programs = [plan.programs[0]] if plan else [line.program for line in contracts.lines_of(contract)]
    programs = [program for program in programs if wanted in (None, program.pk)]
    if not programs:
        raise Problem(422, "No such program", "The contract holds no such program.", kind="not-in-contract")
    candidates = [(program, contracts.inputs_of(program)) for program in programs]
    if isinstance(arrays, Seeded | Stored):
        return candidates[0]
    for program, types in candidates:
        if items_match(arrays, types):
            return program, types
    if len(candidates) == 1:
        return candidates[0]
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    taken = "; or ".join(", ".join(str(one) for one in types) for _, types in candidates)
    detail = f"No program of this contract takes inputs of these shapes: {shapes}. It takes, for each item: {taken}."
    raise Problem(422, "No program fits the inputs", detail, kind="inputs-do-not-fit")


def job_create(
    *,
    contract: Contract,
    arrays: Inputs | Seeded | Stored,
    actor: User | None,
    now: datetime,
    wanted: UUID | None = None,
    token_id: UUID | None = None,
) -> Job:
    """Takes a job: its items against the contract's volume, its leases into the timetable.

    `arrays` are the inputs by name, items along the leading axis, or how many items to make up, or those that are stored
    for this job already (so that a caller who holds locks stores nothing under them); `wanted` is the program
    that they are for, where the contract holds several that take the same; `token_id` is the API token that asks, which
    the job's usage names. Raises Problem: inputs that do not fit or are too many (422), volume used up, contract ended,
    processor described anew or capacity taken (409).
    """
    program, types = program_choose(contract, arrays, wanted)
    plan = contracts.combination_of(contract)
    for one in plan.programs if plan else (program,):
        contracts.description_check(contract, one)
    checked, items = _checked(arrays, types)
    running = plan.from_the_start if plan else (program,)
    for one in running:
        _blocks_check(one, items)
    job = Job(
        id=arrays.job if isinstance(arrays, Stored) else uuid.uuid4(),
        organisation_id=contract.organisation_id,
        contract=contract,
        submitted_by=actor,
        token_id=token_id,
        items=items,
        threshold=next(iter(plan.thresholds), None) if plan else None,
        confidence_output=plan.outputs[0] if plan else "",
        submitted_at=now,
        seed=0 if isinstance(arrays, Seeded) else None,
        inputs_key=arrays.key if isinstance(arrays, Stored) else "",
    )
    try:
        with file_transaction():
            if checked:
                job.inputs_key = file_save(f"jobs/{job.pk}/inputs.npz", arrays_pack(checked))
            _job_store(job, running)
    except CapacityTaken as refused:
        _refusal_record(contract, program, job.items, refused, now)
        raise
    return job


def _checked(arrays: Inputs | Seeded | Stored, types: list[TensorType]) -> tuple[Inputs, int]:
    """The inputs in the program's own types, none where they are made up or stored, and how many items there are."""
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
    """How many items a job of the program takes at most."""
    return BLOCKS_MAX * lease_block(program)


def _blocks_check(program: Program, items: int) -> None:
    """Every block is a row that the request writes; a program of many operations has blocks of few items."""
    most = items_most(program)
    if items > most:
        detail = f"A job of this program takes at most {most:,} items; split yours of {items:,} into several jobs."
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
    """The job with a stage for each program that runs on every item: the first finds room now, others of an ensemble may wait
    for it."""
    contract, now = job.contract, job.submitted_at
    for program in programs:
        contract_executions_take(contract_id=contract.pk, program_digest=program.digest, count=job.items, now=now)
    job.save(force_insert=True)
    first, *others = [
        stage_create(job=job, position=position, program=program, count=job.items)
        for position, program in enumerate(programs)
    ]
    stage_place(stage=first, now=now)
    for stage in others:
        stage_place_or_wait(stage=stage, now=now)
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
    """Stops a job: what has not been done is taken back and given back to the contract, what has is kept and billed."""
    job = Job.objects.select_for_update().get(pk=job_id)
    if job.is_final:
        raise Problem(
            409,
            "Nothing to cancel",
            f"This job is {job.get_state_display().lower()} already.",
            kind="nothing-to-cancel",
        )
    job_end(job=job, state=JobState.CANCELLED, problem="", now=now)
    audit_record(action="job.cancel", subject=f"job {job.pk}", actor=actor, organisation=job.organisation, now=now)
    return job


@file_transaction()
def job_fail(*, job_id: UUID, problem: str, now: datetime) -> Job:
    """Ends an open job with a sentence that says why."""
    job = Job.objects.select_for_update().get(pk=job_id)
    if not job.is_final:
        job_end(job=job, state=JobState.FAILED, problem=problem, now=now)
    return job
