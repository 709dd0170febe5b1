"""The five verbs of a lease: offer, lease (take), renew, complete, revoke; and what happens when a worker falls silent.

Whoever changes a lease locks its job first and the lease second. A lease is offered through the Celery queue of its
pool; the message holds nothing but id and epoch, and a stale or doubled message finds an epoch or a state that is no
longer its own and does nothing.
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
    """The lease is no longer this worker's: another epoch holds it, or its job has ended."""


def leases_offer_due(*, now: datetime) -> int:
    """Offers every planned lease whose device time has come, and again those whose message was lost. Returns how many.

    A message counts as lost when a host of its pool with nothing to do has taken nothing for a while, or when the pool
    has taken one that was sent later: a busy pool works through its queue, and one without hosts keeps it.
    """
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
    """Pools of which a live host has a process without work, and of which no lease has been taken since then."""
    running = Lease.objects.filter(state=LeaseState.RUNNING, heartbeat_at__gt=now - SILENT_AFTER)
    held = Counter(running.values_list("host", flat=True))
    alive = WorkerHost.objects.filter(last_seen__gt=now - HOST_SILENT_AFTER)
    free = {host.pool_id for host in alive if held[host.name] < host.concurrency}
    busy = Lease.objects.filter(taken_at__gt=since, device__pool__in=free).values_list("device__pool_id", flat=True)
    return list(free - set(busy))


def _overtaken(*, since: datetime) -> list[tuple[UUID, datetime]]:
    """Pools that have taken leases since then, each with when the newest of those was offered; queues keep their order."""
    taken = Lease.objects.filter(taken_at__gt=since, offered_at__isnull=False).order_by()
    return list(taken.values_list("device__pool").annotate(newest=Max("offered_at")))


def lease_offer(*, lease: Lease, now: datetime) -> None:
    """Puts the lease's present epoch on its pool's queue once the transaction has committed."""
    lease.state, lease.offered_at = LeaseState.OFFERED, now
    lease.save(update_fields=["state", "offered_at"])
    queue = lease.device.pool.queue
    task_send_on_commit("apps.dispatch.tasks.run_lease", queue=queue, lease_id=str(lease.pk), epoch=lease.epoch)


@transaction.atomic
def lease_take(*, lease_id: UUID, epoch: int, host: str, now: datetime) -> Lease:
    """Takes an offered lease for a worker on `host`. Raises LeaseLost when it is not there to be taken."""
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
    """The holder's sign of life, with how many items it has done. Raises LeaseLost."""
    held = Lease.objects.filter(pk=lease_id, epoch=epoch, state=LeaseState.RUNNING)
    if not held.update(heartbeat_at=now, progress=progress):
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
    """THE transaction: fence by epoch, check the counters, rate by the frozen terms, post the usage, finish the lease.

    On a deterministic device `counters` must equal the program's resources in every field (raises `CountersDiffer`, and
    nothing is posted). `measured` are the wall-clock instants of a host pool's execution, whose device time is that
    clock. Raises LeaseLost for an old epoch; the same completion again is refused the same way, so that a lease is
    finished and billed once.
    """
    job = _job_lock(lease_id, "contract__pool")
    related = "device__pool", "stage__program__model_version__model"  # what rates it, read with it
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
    """The execution did not cost what the compiler proved; the job fails, nothing is billed for the lease."""


def counters_check(*, expected: dict[str, Any], counted: dict[str, Any]) -> None:
    """Raises CountersDiffer unless every counted quantity equals the program's; a bound may only be undercut."""
    proven, seen = Resources.from_json(expected).to_json(), Resources.from_json(counted).to_json()
    is_exact = proven["exact"]
    if "load" not in seen:  # a worker of the release before counts no loading
        proven.pop("load", None)
    differences = [
        f"{name}: compiled {want}, counted {got}"
        for name, want, got in _leaves(proven, seen)
        if (got != want if is_exact else got > want)
    ]
    if differences:
        raise CountersDiffer("The processor did not do what the program says. " + "; ".join(differences) + ".")


def _leaves(proven: dict[str, Any], seen: dict[str, Any], path: str = "") -> list[tuple[str, int, int]]:
    """Every number by its path; the two words `exact` and `reason` are no quantities."""
    found: list[tuple[str, int, int]] = []
    for name, want in proven.items():
        if isinstance(want, dict):
            found += _leaves(want, seen[name], f"{path}{name}.")
        elif name not in {"exact", "reason"}:
            found.append((f"{path}{name}", want, seen[name]))
    return found


@file_transaction()
def lease_fail(*, lease_id: UUID, epoch: int, reason: str, now: datetime, is_ours: bool = True) -> None:
    """The holder gives up for good: the lease and its job fail with `reason`, nothing is billed for it.

    `is_ours` says that nothing of the customer's was the cause: what was reserved was then missed, and is credited.
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
def lease_give_back(*, lease_id: UUID, epoch: int, reason: str, now: datetime) -> None:
    """The holder cannot work because a part of the platform is away: the lease is planned anew, and counts as no attempt.

    Nothing happens when it is no longer the holder's.
    """
    _job_lock(lease_id)
    lease = Lease.objects.select_for_update().get(pk=lease_id)
    if lease.state != LeaseState.RUNNING or lease.epoch != epoch:
        return
    lease.state, lease.host, lease.taken_at, lease.heartbeat_at = LeaseState.PLANNED, "", None, None
    lease.save(update_fields=["state", "host", "taken_at", "heartbeat_at"])
    log.warning("lease given back", lease=str(lease_id), reason=reason)


def leases_reoffer_silent(*, now: datetime) -> int:
    """Offers anew, at the next epoch, every running lease whose worker has fallen silent. Returns how many.

    A lease that somebody is changing at this moment is left for the next sweep: a worker that froze within a transaction
    must not stop the sweep too.
    """
    silent = Lease.objects.filter(state=LeaseState.RUNNING, heartbeat_at__lt=now - SILENT_AFTER)
    found = list(silent.values_list("pk", "stage__job_id"))
    offered = 0
    for lease_id, job_id in found:
        try:
            offered += _reoffer(lease_id, job_id, now=now)
        except Unavailable as outage:  # a job that ends here stores what it has; the other leases need no storage
            log.warning("lease not offered anew", lease=str(lease_id), reason=outage.detail)
    return offered


@file_transaction()
def _reoffer(lease_id: UUID, job_id: UUID, *, now: datetime) -> bool:
    """Takes the lease from its silent holder; False when it is locked or the holder was heard of after all."""
    if not Job.objects.select_for_update(skip_locked=True).filter(pk=job_id).exists():
        return False
    rows = Lease.objects.select_for_update(of=("self",), skip_locked=True).select_related("device__pool")
    lease = rows.filter(pk=lease_id).first()
    if lease is None or not lease.is_silent(now=now, after_seconds=SILENT_AFTER.total_seconds()):
        return False
    log.warning("lease expired", lease=str(lease_id), epoch=lease.epoch, host=lease.host)
    if lease.epoch >= EPOCHS_MAX:
        reason = f"A block of this job was given to {EPOCHS_MAX} workers in turn and every one fell silent."
        lease_fail(lease_id=lease_id, epoch=lease.epoch, reason=reason, now=now)
        return True
    lease.epoch += 1
    lease.save(update_fields=["epoch"])
    lease_offer(lease=lease, now=now)
    return True


def _usage_post(*, lease: Lease, job: Job, counters: dict[str, Any], now: datetime) -> None:
    """Rates the lease and posts it, once."""
    _, is_new = usage_post(usage_of(lease=lease, job=job, counters=counters, now=now), now=now)
    if not is_new:
        raise Problem(
            409, "Already billed", f"Lease {lease.pk} was billed before it was completed.", kind="already-billed"
        )


def _job_lock(lease_id: UUID, *related: str) -> Job:
    """The lease's job, locked (always before the lease itself), with what it refers to by these names."""
    jobs = Job.objects.select_for_update(of=("self",)).select_related(*(related or (None,)))
    return jobs.get(stages__leases=lease_id)
