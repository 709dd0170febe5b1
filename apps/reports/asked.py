"""Work that somebody asked for and that nobody is at, because its message or its worker was lost."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.reports.capacity_plans.services import capacity_plan_run
from apps.reports.forecasts import forecast_run
from apps.reports.models import CapacityPlan, ForecastRun, ReconciliationRun, Rerating, WhatIf
from apps.reports.reconciling import reconciliation_run
from apps.reports.rerating import rerating_run
from apps.reports.whatif import what_if_run

LOST_AFTER = timedelta(seconds=10)
GIVEN_UP_AFTER = timedelta(days=7)


def asked_sweep(*, now: datetime) -> int:
    """Carry out what was asked for a while ago and is not finished; what another process is at is left to it."""
    since, until = now - GIVEN_UP_AFTER, now - LOST_AFTER
    runs = ReconciliationRun.objects.filter(finished_at=None, started_at__gt=since, started_at__lte=until)
    asked = Rerating.objects.filter(finished_at=None, asked_at__gt=since, asked_at__lte=until)
    finished = [reconciliation_run(run_id=pk, now=now).finished_at for pk in runs.values_list("pk", flat=True)]
    finished += [rerating_run(pk=pk, now=now).finished_at for pk in asked.values_list("pk", flat=True)]
    plans = CapacityPlan.objects.filter(finished_at=None, asked_at__gt=since, asked_at__lte=until)
    finished += [capacity_plan_run(pk=pk, now=now).finished_at for pk in plans.values_list("pk", flat=True)]
    open_rows = {"finished_at": None, "asked_at__gt": since, "asked_at__lte": until}
    fits = ForecastRun.objects.filter(**open_rows).values_list("pk", flat=True)
    finished += [forecast_run(pk=pk, now=now).finished_at for pk in fits]
    questions = WhatIf.objects.filter(cancelled_at=None, **open_rows).values_list("pk", flat=True)
    finished += [what_if_run(pk=pk, now=now).finished_at for pk in questions]
    return sum(one is not None for one in finished)
