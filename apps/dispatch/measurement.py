"""Measuring programs on host pools, so that plans and quotes can state a dated latency for them."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.core.cache import cache

from apps.accounts.broker import task_send
from apps.compilation.models import Precision, Program
from apps.dispatch.runners import host
from apps.dispatch.runners.runtime import hardware
from apps.fleet.models import HostMeasurement, PoolKind
from apps.fleet.selectors import pool_get, pools
from apps.fleet.services import hostmeasurement_record

MEASURE_AGAIN_AFTER = timedelta(days=1)
ASKED_FOR_SECONDS = 120
AT_ONCE = 20


def measurements_request_due(*, now: datetime) -> int:
    """Asks each host pool's worker to measure programs that have no measurement of the last day. Returns how many.

    A program that was asked for is not asked for again within two minutes.
    """
    asked = 0
    for pool in pools().filter(kind=PoolKind.HOST):
        fresh = HostMeasurement.objects.filter(pool=pool, measured_at__gt=now - MEASURE_AGAIN_AFTER)
        runs_here = Program.objects.filter(precision=Precision.FLOAT32)  # the model itself, whatever was made of it
        due = runs_here.exclude(digest__in=fresh.values("program_digest")).order_by("-created_at")
        for program_id in due.values_list("pk", flat=True)[:AT_ONCE]:
            if cache.add(f"measure:{pool.slug}:{program_id}", 1, ASKED_FOR_SECONDS):
                name = "apps.dispatch.tasks.measure_host"
                asked += task_send(name, queue=pool.queue, program_id=str(program_id), pool_slug=pool.slug)
    return asked


def host_measure(*, program_id: UUID, pool_slug: str, now: datetime) -> HostMeasurement:
    """Runs the program's model on this machine on seeded inputs and stores the percentiles with their date."""
    program = Program.objects.select_related("model_version").get(pk=program_id)
    return hostmeasurement_record(
        pool=pool_get(pool_slug),
        program_digest=program.digest,
        durations_ns=host.measure(program),
        hardware=hardware(),
        now=now,
    )
