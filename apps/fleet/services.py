"""Changes to the fleet."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import transaction

from apps.accounts.problems import Problem
from apps.fleet.models import HostMeasurement, Pool, WorkerHost
from apps.fleet.storing import processor_row
from compiler import targets


@transaction.atomic
def shipped_follow(*, now: datetime) -> int:
    """Switch all pools of shipped processors to the compiler's current descriptions. Return the number of pools that
    changed.

    Work sold for an earlier description is refused from then on (`description_check`).
    """
    moved = 0
    for pool in (
        Pool.objects.select_for_update().filter(processor__name__in=targets.names()).select_related("processor")
    ):
        assert pool.processor is not None
        present = processor_row(name=pool.processor.name, text="", now=now)
        if pool.processor_id != present.pk:
            pool.processor = present
            pool.save(update_fields=["processor"])
            moved += 1
    return moved


def workerhost_seen(*, name: str, pool_slug: str, concurrency: int, is_start: bool, now: datetime) -> WorkerHost:
    """Record the heartbeat of a worker host. `is_start` marks the first heartbeat of a new process."""
    pool = Pool.objects.filter(slug=pool_slug, is_active=True).first()
    if pool is None:
        known = ", ".join(Pool.objects.filter(is_active=True).values_list("slug", flat=True)) or "none yet"
        raise Problem(
            404, "No such pool", f"There is no active pool '{pool_slug}'. Known pools: {known}.", kind="pool-unknown"
        )
    host, made = WorkerHost.objects.get_or_create(
        name=name, pool=pool, defaults={"concurrency": concurrency, "started_at": now, "last_seen": now}
    )
    if not made:
        changed = {"last_seen": now, "concurrency": concurrency} | ({"started_at": now} if is_start else {})
        WorkerHost.objects.filter(pk=host.pk).update(**changed)
        host.refresh_from_db()
    return host


def hostmeasurement_record(
    *, pool: Pool, program_digest: str, durations_ns: Sequence[int], hardware: str, now: datetime
) -> HostMeasurement:
    """Store nearest-rank percentiles of the measured durations of single executions, in nanoseconds."""
    if not pool.is_host:
        raise ValueError(f"{pool.slug} is deterministic: its latency is proven, not measured")
    ordered = sorted(durations_ns)
    if not ordered:
        raise ValueError("a measurement needs at least one execution")
    return HostMeasurement.objects.create(
        pool=pool,
        program_digest=program_digest,
        samples=len(ordered),
        p50_ns=_percentile(ordered, 50),
        p95_ns=_percentile(ordered, 95),
        p99_ns=_percentile(ordered, 99),
        hardware=hardware[:200],
        measured_at=now,
    )


def _percentile(ordered: Sequence[int], percent: int) -> int:
    # The smallest value such that at least `percent` per cent of the values are not larger.
    rank = -(-percent * len(ordered) // 100)
    return max(1, ordered[max(rank, 1) - 1])
