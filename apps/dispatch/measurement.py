"""Measures programs on host pools, so that plans and quotes can state a latency."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.core.cache import cache

from apps.accounts.broker import task_send
from apps.compilation.models import Precision, Program
from apps.dispatch.runners import host
from apps.dispatch.runners.runtime import hardware
from apps.fleet.models import HostMeasurement, PoolKind
from apps.fleet.selectors import host_measurement_latest, pool_get, pools
from apps.fleet.services import hostmeasurement_record

MEASURE_AGAIN_AFTER = timedelta(days=1)
REQUESTED_SECONDS = 120
AT_ONCE = 20


def measurements_request_due(*, now: datetime) -> int:
    """Ask workers of host pools to measure programs that were not measured in the last day. Returns the number of
    requests.
    """
    requested = 0
    for pool in pools().filter(kind=PoolKind.HOST):
        fresh = HostMeasurement.objects.filter(pool=pool, measured_at__gt=now - MEASURE_AGAIN_AFTER)
        # A host runs the model itself, which must still be there.
        there = Program.objects.filter(precision=Precision.FLOAT32, model_version__deleted_at=None)
        runs_here = there.exclude(options__has_any_keys=["states", "context"])
        due = runs_here.exclude(digest__in=fresh.values("program_digest")).order_by("-created_at")
        for program_id in due.values_list("pk", flat=True)[:AT_ONCE]:
            if cache.add(f"measure:{pool.slug}:{program_id}", 1, REQUESTED_SECONDS):
                name = "apps.dispatch.tasks.measure_host"
                requested += task_send(name, queue=pool.queue, program_id=str(program_id), pool_slug=pool.slug)
    return requested


def host_measure(*, program_id: UUID, pool_slug: str, now: datetime) -> HostMeasurement:
    """Measure the program's model on this machine with generated inputs, and store the percentiles. A measurement of the last day
    is returned: a large model takes so long that it is asked for again before it is measured.
    """
    program, pool = Program.objects.select_related("model_version").get(pk=program_id), pool_get(pool_slug)
    latest = host_measurement_latest(pool=pool, program_digest=program.digest)
    if latest is not None and latest.measured_at > now - MEASURE_AGAIN_AFTER:
        return latest
    return hostmeasurement_record(
        pool=pool,
        program_digest=program.digest,
        durations_ns=host.measure(program),
        hardware=hardware(),
        now=now,
    )
