"""Resume requested work whose message or worker was lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db.models import QuerySet

from apps.reports.capacity_plans.services import capacity_plan_run
from apps.reports.forecasts import forecast_run
from apps.reports.models import CapacityPlan, ForecastRun, ReconciliationRun, Rerating, WhatIf
from apps.reports.reconciling import reconciliation_run
from apps.reports.rerating import rerating_run
from apps.reports.whatif import what_if_run

log = structlog.get_logger("reports")

LOST_AFTER = timedelta(seconds=10)
GIVEN_UP_AFTER = timedelta(days=7)


def unfinished_sweep(*, now: datetime) -> int:
    """Resume requested work that is unfinished and not in progress. Return how many pieces of work finished."""
    since, until = now - GIVEN_UP_AFTER, now - LOST_AFTER
    unfinished = {"finished_at": None, "asked_at__gt": since, "asked_at__lte": until}
    runs = ReconciliationRun.objects.filter(finished_at=None, started_at__gt=since, started_at__lte=until)
    work: list[tuple[QuerySet[Any], Callable[[UUID], Any]]] = [
        (runs, lambda pk: reconciliation_run(run_id=pk, now=now)),
        (Rerating.objects.filter(**unfinished), lambda pk: rerating_run(pk=pk, now=now)),
        (CapacityPlan.objects.filter(**unfinished), lambda pk: capacity_plan_run(pk=pk, now=now)),
        (ForecastRun.objects.filter(**unfinished), lambda pk: forecast_run(pk=pk, now=now)),
        (WhatIf.objects.filter(cancelled_at=None, **unfinished), lambda pk: what_if_run(pk=pk, now=now)),
    ]
    finished = 0
    for rows, run in work:
        for pk in list(rows.values_list("pk", flat=True)):
            try:
                finished += run(pk).finished_at is not None
            except Exception:  # one failure must not block the others
                log.exception("requested work failed", what=rows.model.__name__, pk=str(pk))
    return finished
