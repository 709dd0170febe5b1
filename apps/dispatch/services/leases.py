"""Operations on leases: offer, take, renew, complete, fail and return leases, and recover leases from silent workers.

Every change to a lease locks the job first, then the lease. Leases are offered through the Celery queue of their pool.
A message contains only the lease's id and epoch, so a stale or duplicate message has no effect.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Max, Q

from apps.accounts.broker import task_send_on_commit
from apps.accounts.failpoints import failpoint
from apps.accounts.files import file_transaction
from apps.accounts.outages import Unavailable
from apps.accounts.problems import Problem
from apps.compilation.selectors import program_resources
from apps.dispatch.models import LIVE, Job, JobState, Lease, LeaseState
from apps.dispatch.services.ending import job_end
from apps.dispatch.services.metering import usage_of
from apps.fleet.models import HOST_SILENT_AFTER, WorkerHost
from apps.ledger.services import usage_post
from compiler.isa.resources import Resources

SILENT_AFTER = timedelta(seconds=15)
OFFER_AGAIN_AFTER = timedelta(seconds=10)
EPOCHS_MAX = 5
OFFERS_AT_ONCE = 200

log = structlog.get_logger("dispatch")


class LeaseLost(Exception):
    """Raised if the worker no longer has the lease: its epoch differs, or its job has ended."""


def leases_offer_due(*, now: datetime) -> int:
    """Offer leases whose device time has come, and offered leases whose message was lost. Return the number of offers."""
    due = Q(state=LeaseState.PLANNED, device_from__lte=now)
    before = now - OFFER_AGAIN_AFTER
    lost = Q(device__pool__in=_pools_idle(since=before, now=now))
    for pool, overtaken in _overtaken(since=before):
        lost |= Q(device__pool=pool, offered_at__lt=overtaken - OFFER_AGAIN_AFTER)
    lost &= Q(state=LeaseState.OFFERED, offered_at__lt=before)
    with transaction.atomic():
        rows = list(
            Lease.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(due | lost)
            .select_related("device__pool")
            .order_by("device_from", "id")[:OFFERS_AT_ONCE]
        )
        for lease in rows:
            lease_offer(lease=lease, now=now)
    return len(rows)


def _pools_idle(*, since: datetime, now: datetime) -> list[UUID]:
    running = Lease.objects.filter(state=LeaseState.RUNNING, heartbeat_at__gt=now - SILENT_AFTER)
    busy_processes = Counter(running.values_list("host", flat=True))
    alive = WorkerHost.objects.filter(last_seen__gt=now - HOST_SILENT_AFTER)
    free = {host.pool_id for host in alive if busy_processes[host.name] < host.concurrency}
    busy = Lease.objects.filter(taken_at__gt=since, device__pool__in=free).values_list("device__pool_id", flat=True)
    return list(free - set(busy))


def _overtaken(*, since: datetime) -> list[tuple[UUID, datetime]]:
    # Queues keep their order, so earlier offers that are still open are lost.
    recent = Lease.objects.filter(taken_at__gt=since, offered_at__isnull=False).order_by()
    return list(recent.values_list("device__pool").annotate(newest=Max("offered_at")))


def lease_offer(*, lease: Lease, now: datetime) -> None:
    """Offer the lease: send its id and epoch to the queue of its pool when the transaction commits."""
    lease.state, lease.offered_at = LeaseState.OFFERED, now
    lease.save(update_fields=["state", "offered_at"])
    queue = lease.device.pool.queue
    task_send_on_commit("apps.dispatch.tasks.run_lease", queue=queue, lease_id=str(lease.pk), epoch=lease.epoch)


@transaction.atomic
def lease_take(*, lease_id: UUID, epoch: int, host: str, now: datetime) -> Lease:
    """Give an offered lease to a worker on `host`. Raises LeaseLost if the lease is not offered or has a different
    epoch.
    """
    job = _job_lock(lease_id)
    lease = Lease.objects.select_for_update().get(pk=lease_id)
    if lease.state != LeaseState.OFFERED or lease.epoch != epoch or job.is_final:
        raise LeaseLost(f"lease {lease_id}: {lease.state} at epoch {lease.epoch}, not offered at {epoch}")
    lease.state, lease.host, lease.taken_at, lease.heartbeat_at, lease.progress = LeaseState.RUNNING, host, now, now, 0
    lease.save(update_fields=["state", "host", "taken_at", "heartbeat_at", "progress"])
    if job.state == JobState.QUEUED:
        job.state, job.started_at = JobState.RUNNING, now
        job.save(update_fields=["state", "started_at"])
    return lease


def lease_renew(*, lease_id: UUID, epoch: int, progress: int, now: datetime) -> None:
    """Record the worker's heartbeat and the number of finished items. Raises LeaseLost if the worker no longer has the
    lease.
    """
    own = Lease.objects.filter(pk=lease_id, epoch=epoch, state=LeaseState.RUNNING)
    if not own.update(heartbeat_at=now, progress=progress):
        raise LeaseLost(f"lease {lease_id} is no longer held at epoch {epoch}")


@transaction.atomic
def lease_complete(
    *,
    lease_id: UUID,
    epoch: int,
    outputs_key: str,
    counters: dict[str, Any],
    wall_ns: int,
    measured: tuple[datetime, datetime] | None = None,
    now: datetime,
) -> Lease:
    """Complete a lease and post its usage, in one transaction.

    `measured` is the start and end by the wall clock, given only on a host pool. On a deterministic device, raises
    CountersDiffer if `counters` contradict the program's resources. Raises LeaseLost if the epoch is old or the lease
    is already complete.
    """
    job = _job_lock(lease_id, "contract__pool")
    related = "device__pool", "stage__program__model_version__model"  # the rating reads these
    lease = Lease.objects.select_for_update(of=("self",)).select_related(*related).get(pk=lease_id)
    if lease.state != LeaseState.RUNNING or lease.epoch != epoch or job.is_final:
        raise LeaseLost(f"lease {lease_id}: {lease.state} at epoch {lease.epoch}, completion came for {epoch}")
    if not lease.device.pool.is_host:
        counters_check(expected=program_resources(lease.stage.program), counted=counters)
    if measured is not None:
        lease.device_from, lease.device_to = measured
    failpoint("lease.fenced")
    _usage_post(lease=lease, job=job, counters=counters, now=now)
    failpoint("lease.posted")
    lease.state, lease.outputs_key, lease.counters = LeaseState.DONE, outputs_key, counters
    lease.wall_ns, lease.finished_at, lease.progress, lease.heartbeat_at = wall_ns, now, lease.count, now
    lease.save()
    is_last = not Lease.objects.filter(stage__job=job, state__in=LIVE).exists()
    transaction.on_commit(lambda: failpoint("lease.committed"))
    if is_last:
        task_send_on_commit("apps.dispatch.tasks.advance_job", queue="dispatch", job_id=str(job.pk))
    return lease


class CountersDiffer(Exception):
    """Raised if the execution's counters differ from the compiler's."""


def counters_check(*, expected: dict[str, Any], counted: dict[str, Any]) -> None:
    """Raises CountersDiffer if a count differs from the program's resources. If the resources are upper bounds, lower
    counts are allowed.
    """
    proven, seen = Resources.from_json(expected).to_json(), Resources.from_json(counted).to_json()
    is_exact = proven["exact"]
    if "load" not in seen:  # a worker of the previous release does not count loading
        proven.pop("load", None)
    differences = [
        f"{name}: compiled {want}, counted {got}"
        for name, want, got in _leaves(proven, seen)
        if (got != want if is_exact else got > want)
    ]
    if differences:
        raise CountersDiffer("The processor's counters differ from the program's. " + "; ".join(differences) + ".")


def _leaves(proven: dict[str, Any], seen: dict[str, Any], path: str = "") -> list[tuple[str, int, int]]:
    # `exact` and `reason` are not numbers.
    found: list[tuple[str, int, int]] = []
    for name, want in proven.items():
        if isinstance(want, dict):
            found += _leaves(want, seen[name], f"{path}{name}.")
        elif name not in {"exact", "reason"}:
            found.append((f"{path}{name}", want, seen[name]))
    return found


@file_transaction()
def lease_fail(*, lease_id: UUID, epoch: int, reason: str, now: datetime, is_ours: bool = True) -> None:
    """Fail a lease and its job permanently. The lease is not billed.

    `reason` is shown with the job. `is_ours`: the platform was at fault, so the reserved time counts as missed and is
    credited.
    """
    job = _job_lock(lease_id)
    lease = Lease.objects.select_for_update().get(pk=lease_id)
    if lease.state not in LIVE or lease.epoch != epoch or job.is_final:
        return
    lease.state, lease.finished_at, lease.is_missed = LeaseState.FAILED, now, is_ours
    lease.save(update_fields=["state", "finished_at", "is_missed"])
    log.error("lease failed", lease=str(lease_id), job=str(job.pk), reason=reason)
    job_end(job=job, state=JobState.FAILED, problem=reason, now=now)


@transaction.atomic
def lease_return(*, lease_id: UUID, epoch: int, reason: str, now: datetime) -> None:
    """Return a lease to the state "planned", because part of the platform is unavailable. The epoch does not change.

    Does nothing if the worker no longer has the lease.
    """
    _job_lock(lease_id)
    lease = Lease.objects.select_for_update().get(pk=lease_id)
    if lease.state != LeaseState.RUNNING or lease.epoch != epoch:
        return
    lease.state, lease.host, lease.taken_at, lease.heartbeat_at = LeaseState.PLANNED, "", None, None
    lease.save(update_fields=["state", "host", "taken_at", "heartbeat_at"])
    log.warning("lease returned", lease=str(lease_id), reason=reason)


def leases_reoffer_silent(*, now: datetime) -> int:
    """Offer running leases again, at the next epoch, if their workers no longer send heartbeats. Return the number of
    these leases.
    """
    silent = Lease.objects.filter(state=LeaseState.RUNNING, heartbeat_at__lt=now - SILENT_AFTER)
    found = list(silent.values_list("pk", "stage__job_id"))
    offered = 0
    for lease_id, job_id in found:
        try:
            offered += _reoffer(lease_id, job_id, now=now)
        except Unavailable as outage:  # only a job that ends here needs the storage; go on with the others
            log.warning("lease not offered again", lease=str(lease_id), reason=outage.detail)
    return offered


@file_transaction()
def _reoffer(lease_id: UUID, job_id: UUID, *, now: datetime) -> bool:
    """Take a lease away from its silent worker. Returns False if the lease is locked or its worker has sent a
    heartbeat.
    """
    if not Job.objects.select_for_update(skip_locked=True).filter(pk=job_id).exists():
        return False
    rows = Lease.objects.select_for_update(of=("self",), skip_locked=True).select_related("device__pool")
    lease = rows.filter(pk=lease_id).first()
    if lease is None or not lease.is_silent(now=now, after_seconds=SILENT_AFTER.total_seconds()):
        return False
    log.warning("lease expired", lease=str(lease_id), epoch=lease.epoch, host=lease.host)
    if lease.epoch >= EPOCHS_MAX:
        reason = f"A block of this job failed {EPOCHS_MAX} times: every worker that ran it stopped responding."
        lease_fail(lease_id=lease_id, epoch=lease.epoch, reason=reason, now=now)
        return True
    lease.epoch += 1
    lease.save(update_fields=["epoch"])
    lease_offer(lease=lease, now=now)
    return True


def _usage_post(*, lease: Lease, job: Job, counters: dict[str, Any], now: datetime) -> None:
    _, is_new = usage_post(usage_of(lease=lease, job=job, counters=counters, now=now), now=now)
    if not is_new:
        raise Problem(409, "Already billed", f"Lease {lease.pk} has already been billed.", kind="already-billed")


def _job_lock(lease_id: UUID, *related: str) -> Job:
    """Lock and return the job of a lease, with its `related` objects. Call this before locking the lease."""
    jobs = Job.objects.select_for_update(of=("self",)).select_related(*(related or (None,)))
    return jobs.get(stages__leases=lease_id)
