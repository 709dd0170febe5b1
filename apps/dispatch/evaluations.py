"""Runs requested evaluations as ordinary jobs and evaluates the outputs.

Requests with the same batch and pool share one quote and one contract; every request has its own job. Requests stay
queued while the platform is full or partly unavailable.
"""

from __future__ import annotations

import random
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import numpy as np
import structlog
from django.core.files.storage import default_storage
from django.db import transaction

from apps.accounts.files import file_save, file_transaction
from apps.accounts.models import Membership, Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.compilation.models import Program
from apps.dispatch.contracts import inputs_of
from apps.dispatch.models import FINAL, Job, JobState
from apps.dispatch.services import Stored, items_most, job_create
from apps.planner.candidates import evaluations_of, metric_of, metric_title, output_of
from apps.planner.metrics import NO_ANSWER, NUMERIC, MetricError, Verdict, judge
from apps.planner.models import EvaluationRun, EvaluationState
from apps.planner.scores import bound_of
from apps.planner.solver.answers import ERROR
from apps.planner.task_services import data_set_check
from apps.registry.feeds import InputError, arrays_pack, arrays_unpack, items_check
from apps.registry.feeds.check import Array
from apps.registry.labelled import Labelled, split
from apps.registry.selectors import data_set_read
from apps.registry.services import Answered, evaluation_store
from apps.sales.services import QuoteLine, quote_accept, quote_create

log = structlog.get_logger("dispatch")

GROUPS_AT_ONCE = 20
RUNS_AT_ONCE = 50
TEMPORARY = {"capacity-taken", "not-measured", "pool-changed"}  # refusals to retry later
UNAVAILABLE = 503  # so are those with this status: a part of the platform is down


def evaluations_start(*, now: datetime) -> int:
    """Create jobs for queued requests. Returns the number of requests that were started."""
    queued = EvaluationRun.objects.filter(state=EvaluationState.QUEUED).order_by("created_at")
    fresh = list(dict.fromkeys(queued.filter(note="").values_list("batch", "pool_id")))
    waiting = list(dict.fromkeys(queued.exclude(note="").values_list("batch", "pool_id")))
    random.shuffle(waiting)  # so that no waiting request blocks another for ever
    groups = [*fresh[:GROUPS_AT_ONCE], *waiting[:GROUPS_AT_ONCE]]
    started = 0
    for batch, pool_id in groups:
        try:
            started += _start(batch, pool_id, now=now)
        except Problem as refused:
            if refused.status == UNAVAILABLE or refused.kind in TEMPORARY:
                _wait(batch, pool_id, refused.detail)
            else:
                _refuse(batch, pool_id, refused.detail, now=now)
        except Exception:  # one batch must not hold up the others
            log.exception("evaluations not started", batch=str(batch))
    return started


def _start(batch: UUID, pool_id: UUID, *, now: datetime) -> int:
    # If one step fails, nothing is bought or created.
    with file_transaction():
        rows = EvaluationRun.objects.select_for_update(skip_locked=True, of=("self",)).filter(
            batch=batch, pool_id=pool_id, state=EvaluationState.QUEUED
        )
        related = "program__model_version__model", "pool__processor", "task__data_set", "organisation", "created_by"
        runs = list(rows.select_related(*related).order_by("created_at", "id"))
        if not runs:
            return 0
        first = runs[0]
        _requester_check(first)
        data_set_check(first.task)
        data = data_set_read(first.task.data_set)
        # Storing takes long, so it comes before the sale, which locks the pool's devices.
        stored = {run.pk: items for run in runs if (items := _store(run, data, now=now)) is not None}
        runs = [run for run in runs if run.pk in stored]
        if not runs:
            return 0
        # Numbers come after the lock of the organisation, which acceptance takes.
        Organisation.objects.select_for_update(no_key=True).get(pk=first.organisation_id)
        quote = quote_create(
            organisation=first.organisation,
            lines=[QuoteLine(run.program, data.items) for run in runs],
            klass=first.klass,
            pool=first.pool,
            actor=first.created_by,
            now=now,
        )
        if quote.worst > first.most:
            detail = "The evaluation now costs more than when you requested it. Nothing was run. Request it again."
            raise Problem(409, "The price has changed", detail, kind="price-changed")
        contract = quote_accept(
            quote_id=quote.pk, organisation=first.organisation, actor=first.created_by, now=now, token_id=first.token_id
        )
        for run in runs:
            job = job_create(
                contract=contract,
                arrays=stored[run.pk],
                actor=run.created_by,
                now=now,
                wanted=run.program_id,
                token_id=run.token_id,
            )
            run.state, run.note, run.contract_id, run.job_id = EvaluationState.RUNNING, "", contract.pk, job.pk
            run.save(update_fields=["state", "note", "contract_id", "job_id"])
    return len(runs)


def _requester_check(run: EvaluationRun) -> None:
    user = run.created_by
    members = Membership.objects.filter(organisation=run.organisation, user=user, role__in=ENGINEERING)
    if not user.is_active or not members.exists():
        detail = f"{user.email} requested this evaluation and may no longer buy for {run.organisation.name}. Request it again."
        raise Problem(403, "No longer allowed to buy", detail, kind="not-allowed")


def _store(run: EvaluationRun, data: Labelled, *, now: datetime) -> Stored | None:
    most = items_most(run.program)
    if data.items > most:
        reason = f"A job of this program can have at most {most:,} items. The data set has {data.items:,}; upload fewer items."
        _finish(run, EvaluationState.FAILED, reason, now=now)
        return None
    types = inputs_of(run.program)
    named = {types[0].name: next(iter(data.inputs.values()))} if len(types) == len(data.inputs) == 1 else data.inputs
    try:
        checked = items_check(named, types)
    except InputError as error:
        _finish(run, EvaluationState.FAILED, " ".join(error.problems), now=now)
        return None
    job = uuid4()
    return Stored(data.items, job, file_save(f"jobs/{job}/inputs.npz", arrays_pack(checked)))


def _wait(batch: UUID, pool_id: UUID, reason: str) -> None:
    queued = EvaluationRun.objects.filter(batch=batch, pool_id=pool_id, state=EvaluationState.QUEUED)
    queued.update(note=reason[:400])


def _refuse(batch: UUID, pool_id: UUID, reason: str, *, now: datetime) -> None:
    queued = EvaluationRun.objects.filter(batch=batch, pool_id=pool_id, state=EvaluationState.QUEUED)
    queued.update(state=EvaluationState.FAILED, problem=reason, finished_at=now)


def evaluations_judge(*, now: datetime) -> int:
    """Finish the evaluations whose jobs have ended. Returns the number of finished evaluations."""
    running = EvaluationRun.objects.filter(state=EvaluationState.RUNNING)
    over = Job.objects.filter(state__in=FINAL, pk__in=list(running.values_list("job_id", flat=True)))
    due = running.filter(job_id__in=list(over.values_list("pk", flat=True)))
    ended = 0
    for pk in list(due.order_by("?").values_list("pk", flat=True)[:RUNS_AT_ONCE]):
        try:
            ended += _judge(pk, now=now)
        except Exception:  # one evaluation must not hold up the others
            log.exception("evaluation not judged", run=str(pk))
    return ended


@transaction.atomic
def _judge(pk: UUID, *, now: datetime) -> bool:
    """Finish one evaluation. Returns False if the evaluation cannot be finished yet."""
    related = "program__model_version__model", "pool", "task__data_set"
    rows = EvaluationRun.objects.select_for_update(of=("self",)).select_related(*related)
    run = rows.get(pk=pk)
    job = None if run.job_id is None else Job.objects.filter(pk=run.job_id).first()
    if run.state != EvaluationState.RUNNING or (job is not None and not job.is_final):
        return False
    if job is None or job.state != JobState.DONE:
        _unfinished(run, job, now=now)
        return True
    if run.task.data_set.deleted_at is not None:
        _finish(run, EvaluationState.FAILED, "The data set was deleted before the outputs were scored.", now=now)
        return True
    try:
        verdict = _verdict(run, job)
    except MetricError as error:
        _finish(run, EvaluationState.FAILED, str(error), now=now)
        return True
    if verdict is not None:
        _verdict_store(run, verdict, now=now)
    return verdict is not None


def _unfinished(run: EvaluationRun, job: Job | None, *, now: datetime) -> None:
    if job is not None and job.state == JobState.CANCELLED:
        _finish(run, EvaluationState.CANCELLED, job.problem or "The job of this evaluation was cancelled.", now=now)
        return
    reason = job.problem if job is not None else ""
    _finish(run, EvaluationState.FAILED, reason or "The job of this evaluation did not finish.", now=now)


def _verdict_store(run: EvaluationRun, verdict: Verdict, *, now: datetime) -> None:
    output = output_of(run.task, run.program)
    answered = Answered(verdict.labels, verdict.predicted, verdict.confidence, output if verdict.has_confidence else "")
    run.evaluation = evaluation_store(
        data_set=run.task.data_set,
        version=run.program.model_version,
        program_digest=run.program.digest,
        is_host=run.pool.is_host,
        metric=metric_title(run.task),
        answered=answered,
        now=now,
        bound=partial(_bound, run),
    )
    _finish(run, EvaluationState.DONE, "", now=now)


def _bound(run: EvaluationRun, items: dict[str, Any]) -> Fraction | None:
    found = bound_of(metric_title(run.task), items)
    return None if found is None else found(ERROR)


def _verdict(run: EvaluationRun, job: Job) -> Verdict | None:
    """Evaluate the outputs of a job. Returns None if the metric needs float32 results that are not available yet."""
    metric, name = metric_of(run.task), output_of(run.task, run.program)
    with default_storage.open(job.outputs_key) as file:
        outputs = arrays_unpack(file.read())
    if name not in outputs:
        raise MetricError(f"The program has no output '{name}'; it has {', '.join(sorted(outputs))}.")
    if metric.needs_labels:
        return judge(metric, outputs[name], name, data_set_read(run.task.data_set).labels)
    if run.program.precision == "float32":
        return judge(metric, outputs[name], name, None)
    wanted = _float32_numbers(run, name) if metric.name in NUMERIC else _float32_answers(run)
    return None if wanted is None else judge(metric, outputs[name], name, wanted)


def _float32_answers(run: EvaluationRun) -> Array | None:
    """Return the float32 program's answers for all items; None while that program's evaluation is running."""
    version, data = run.program.model_version_id, run.task.data_set
    known = [one for one in evaluations_of(run.task).values() if one.model_version_id == version]
    digests = {one.program_digest for one in known}
    float32 = set(
        Program.objects.filter(model_version=version, precision="float32", digest__in=digests).values_list(
            "digest", flat=True
        )
    )
    for one in sorted(known, key=lambda row: (row.is_host != run.pool.is_host, row.program_digest)):
        if one.program_digest in float32:
            parts = split(data.items, seed=data.seed, choose=data.choose)
            answers = np.full(data.items, NO_ANSWER)
            answers[parts.choose], answers[parts.promise] = (
                one.items["choose"]["predicted"],
                one.items["evaluate"]["predicted"],
            )
            return answers
    _requested_check(run)
    return None


def _float32_numbers(run: EvaluationRun, name: str) -> Array | None:
    """Return the float32 program's outputs for all items; None while that program's evaluation is running."""
    done = EvaluationRun.objects.filter(
        task__data_set=run.task.data_set,
        program__model_version=run.program.model_version,
        program__precision="float32",
        state=EvaluationState.DONE,
        job_id__isnull=False,
    ).select_related("pool")
    for one in sorted(done, key=lambda row: (row.pool.is_host != run.pool.is_host, str(row.pk))):
        job = Job.objects.filter(pk=str(one.job_id), state=JobState.DONE).exclude(outputs_key="").first()
        if job is None:
            continue
        with default_storage.open(job.outputs_key) as file:
            outputs = arrays_unpack(file.read())
        if name in outputs:
            return outputs[name]
    _requested_check(run)
    return None


def _requested_check(run: EvaluationRun) -> None:
    version, data = run.program.model_version_id, run.task.data_set
    asked = EvaluationRun.objects.filter(
        task__data_set=data, program__model_version=version, program__precision="float32", finished_at=None
    )
    if not asked.exists():
        raise MetricError(
            "This metric needs the outputs of the float32 program. Compile the model in float32, then request the evaluation "
            "again."
        )


def _finish(run: EvaluationRun, state: EvaluationState, problem: str, *, now: datetime) -> None:
    run.state, run.problem, run.finished_at, run.note = state, problem, now, ""
    run.save(update_fields=["state", "problem", "finished_at", "note", "evaluation"])
