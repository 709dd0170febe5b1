"""Places the stages of a job in the timetable, and advances jobs from stage to stage."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

import numpy as np
import structlog
from django.db import transaction

from apps.accounts.failpoints import failpoint
from apps.accounts.files import file_save, file_transaction
from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.dispatch import cascade, contracts
from apps.dispatch.devicetime import (
    Cut,
    Pace,
    Room,
    cursor_after,
    cursor_at,
    cursor_loaded,
    cut_leases,
    cycles_between,
    instant_at,
)
from apps.dispatch.models import HOLDING, LIVE, Job, JobStage, JobState, Lease, LeaseState, StageState
from apps.dispatch.services.leases import lease_offer
from apps.dispatch.services.outputs import outputs_assemble, stage_items, stage_outputs
from apps.fleet.models import Pool
from apps.registry.feeds import arrays_pack
from apps.sales.models import Contract
from apps.sales.services import contract_executions_take
from apps.timetable import services as timetable
from apps.timetable.models import Window
from apps.timetable.selectors import windows_of

# A lease is a block of items: large enough to be worth a message, small enough to repeat after a crash.
LEASE_ITEMS_MAX = 256
LEASE_OPERATIONS = 400_000_000
SAMPLE_SECONDS = 3600
WINDOWS_MAX = 16
STALLED_AFTER = timedelta(seconds=5)

log = structlog.get_logger("dispatch")


def stage_create(*, job: Job, position: int, program: Program, count: int, selection_key: str = "") -> JobStage:
    """Create a stage with the program's pace on the contract's pool."""
    pace = contracts.pace_of(job.contract, program)
    return JobStage.objects.create(
        job=job,
        position=position,
        program=program,
        count=count,
        selection_key=selection_key,
        latency_cycles=pace.latency,
        interval_cycles=pace.interval,
        clock_hz=pace.clock_hz,
        load_cycles=pace.load,
        state=StageState.WAITING,
    )


def stage_place(*, stage: JobStage, now: datetime) -> None:
    """Place the stage's items in the contract's windows. If windows have passed, reserve new windows.

    Locks the contract's row until the transaction ends. Raises CapacityTaken if there is no capacity.
    """
    contract = Contract.objects.select_for_update(no_key=True).get(pk=stage.job.contract_id)
    pool = contract.pool
    block = _block_of(stage)
    cuts, left = cut_leases(stage.count, stage.pace, _rooms(contract, stage, now), block=block)
    windows = {str(window.pk): window for window in windows_of(contract.pk)}
    if left:
        added = _windows_more(contract, stage.pace, left, now=now)
        windows |= {str(window.pk): window for window in added}
        rooms = [_room(window, stage, [], is_known=True, now=now) for window in added]
        more, still = cut_leases(left, stage.pace, rooms, block=block, first_item=stage.count - left)
        assert not still, "a window of the stated duration holds its work"
        cuts += more
    if stage.program.keeps_state and len(cuts) > 1:
        raise _in_pieces(stage)
    leases = Lease.objects.bulk_create(_lease_of(stage, cut, windows[cut.window]) for cut in cuts)
    stage.state, stage.waiting_reason = StageState.RUNNING, ""
    stage.save(update_fields=["state", "waiting_reason"])
    if not stage.job.is_sample:  # which no worker runs
        _offer_due(leases, pool, now=now)


def _block_of(stage: JobStage) -> int:
    if stage.job.is_sample:
        return sample_block(stage.pace)
    return stage.count if stage.program.keeps_state else lease_block(stage.program)


def _in_pieces(stage: JobStage) -> Problem:
    model = stage.program.model_version.model.name
    detail = (
        f"{model} keeps its state from item to item, so a job runs in one piece, and no window of this contract has room for "
        f"{stage.count:,} items. Send fewer items; each job begins with new states."
    )
    return Problem(409, "No room in one piece", detail, kind="sequence-in-pieces")


def lease_block(program: Program) -> int:
    """Return the number of items in a lease of the program."""
    return max(1, min(LEASE_ITEMS_MAX, LEASE_OPERATIONS // max(1, program.operations)))


def sample_block(pace: Pace) -> int:
    """Return the number of items in a lease of a sample job, which takes an hour of device time."""
    return max(1, int(SAMPLE_SECONDS / pace.each))


def _rooms(contract: Contract, stage: JobStage, now: datetime) -> list[Room]:
    # Parts before `now` are not free.
    windows = [window for window in windows_of(contract.pk) if window.end > now]
    placed = Lease.objects.filter(window__in=windows, state__in=HOLDING).select_related("stage")
    is_only = len(contract.terms["lines"]) == 1
    return [
        _room(window, stage, [lease for lease in placed if lease.window_id == window.pk], is_known=is_only, now=now)
        for window in windows
    ]


def _room(window: Window, stage: JobStage, placed: list[Lease], *, is_known: bool, now: datetime) -> Room:
    # `is_known` means that the window can hold no other program than the stage's.
    pace, program = stage.pace, stage.program_id
    earlier = [(one.first_cycle, one.count, one.stage.pace, one.stage.program_id == program) for one in placed]
    last = max(placed, key=lambda one: one.first_cycle, default=None)
    cursor = cursor_loaded(
        cursor_after(earlier),
        cursor_at(window.start, now, pace.clock_hz),
        pace.load,
        is_loaded=last is not None and last.stage.program_id == program,
        is_known=is_known and last is None,
    )
    return Room(
        window=str(window.pk),
        device=str(window.device_id),
        start=window.start,
        cycles=cycles_between(window.start, window.end, pace.clock_hz),
        cursor=cursor,
    )


def _windows_more(contract: Contract, pace: Pace, count: int, *, now: datetime) -> list[Window]:
    duration = pace.duration(count)
    limits = contracts.limits_of(contract, duration, now=now)
    replace = partial(
        timetable.reservation_replace,
        reservation_id=contract.reservation_id,
        duration=duration,
        not_before=limits.not_before,
        not_after=limits.not_after,
        allowed=limits.allowed,
        setup=pace.setup,
        quantum=pace.each,
        now=now,
    )
    try:
        return replace(windows_max=1)
    except timetable.CapacityTaken:
        # It does not fit in one piece; several windows may hold it.
        return replace(windows_max=WINDOWS_MAX)


def _lease_of(stage: JobStage, cut: Cut, window: Window) -> Lease:
    pace = stage.pace
    return Lease(
        stage=stage,
        window=window,
        device_id=UUID(cut.device),
        from_item=cut.first_item,
        count=cut.count,
        first_cycle=cut.first_cycle,
        next_cycle=cut.first_cycle + cut.count * pace.interval,
        device_from=instant_at(window.start, cut.first_cycle, pace.clock_hz),
        device_to=instant_at(window.start, cut.first_cycle + pace.span(cut.count), pace.clock_hz),
    )


def _offer_due(leases: list[Lease], pool: Pool, *, now: datetime) -> None:
    for lease in leases:
        if lease.device_from <= now and lease.state == LeaseState.PLANNED:
            lease.device.pool = pool
            lease_offer(lease=lease, now=now)


def jobs_advance_due(*, now: datetime) -> int:
    """Advance open jobs without live leases. Return the number of these jobs."""
    open_jobs = Job.objects.filter(state__in=[JobState.QUEUED, JobState.RUNNING])
    idle = open_jobs.exclude(stages__leases__state__in=LIVE).filter(submitted_at__lt=now - STALLED_AFTER)
    jobs = list(idle.values_list("pk", flat=True)[:50])
    for job_id in jobs:
        try:
            job_advance(job_id=job_id, now=now)
        except Exception:  # one job must not hold up the others
            log.exception("job does not advance", job=str(job_id))
    return len(jobs)


@file_transaction()
def job_advance(*, job_id: UUID, now: datetime) -> None:
    """Place a waiting stage, start the next stage, or finish the job with its outputs. Can be repeated safely."""
    job = Job.objects.select_for_update().get(pk=job_id)
    if job.is_final or Lease.objects.filter(stage__job=job, state__in=LIVE).exists():
        return
    waiting = job.stages.filter(state=StageState.WAITING).order_by("position").first()
    if waiting is not None:
        stage_place_or_wait(stage=waiting, now=now)
        return
    job.stages.filter(state=StageState.RUNNING).update(state=StageState.DONE)
    following = _stage_next(job, job.stages.order_by("-position")[0], now=now)
    if following is not None:
        stage_place_or_wait(stage=following, now=now)
        return
    job.outputs_key = outputs_assemble(job)
    failpoint("job.outputs")
    job.state, job.finished_at = JobState.DONE, now
    job.save(update_fields=["outputs_key", "state", "finished_at"])


def stage_place_or_wait(*, stage: JobStage, now: datetime) -> None:
    """Place the stage. If there is no room, store the reason; the next sweep tries again."""
    try:
        with transaction.atomic():
            stage_place(stage=stage, now=now)
    except Problem as refused:
        stage.waiting_reason = refused.detail[:400]
        stage.save(update_fields=["waiting_reason"])


def _stage_next(job: Job, stage: JobStage, *, now: datetime) -> JobStage | None:
    # If the contract has too few executions left, only the items with the lowest confidence are passed on.
    plan = contracts.combination_of(job.contract)
    if plan is None or stage.position >= len(plan.thresholds):
        return None
    outputs, items, program = stage_outputs(stage), stage_items(stage), plan.programs[stage.position + 1]
    unsure = cascade.unsure_items(outputs[plan.outputs[stage.position]], plan.thresholds[stage.position])
    chosen = np.sort(items[unsure[: contracts.line_of(job.contract, program).left]])
    stage.unsure_left = len(unsure) - len(chosen)
    stage.save(update_fields=["unsure_left"])
    if not len(chosen):
        return None
    contract_executions_take(contract_id=job.contract_id, program_digest=program.digest, count=len(chosen), now=now)
    position = stage.position + 1
    name = "unsure" if position == 1 else f"unsure-{position}"
    key = file_save(f"jobs/{job.pk}/{name}.npz", arrays_pack({"items": chosen}))
    return stage_create(job=job, position=position, program=program, count=len(chosen), selection_key=key)
