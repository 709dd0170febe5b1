"""Celery tasks of reports."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.reports import forecasts, reconciling, recovery, rerating, whatif
from apps.reports.capacity_plans import services as capacity_plans
from apps.reports.controller.services import controller_turn


@shared_task(name="apps.reports.tasks.reconcile_daily", queue="books", ignore_result=True)
def reconcile_daily() -> None:
    """Run the daily reconciliation unless it is finished."""
    reconciling.reconciliation_daily(now=timezone.now())


@shared_task(name="apps.reports.tasks.reconcile", queue="books", ignore_result=True)
def reconcile(*, run_id: str) -> None:
    """Run a requested reconciliation."""
    reconciling.reconciliation_run(run_id=UUID(run_id), now=timezone.now())


@shared_task(name="apps.reports.tasks.rerate", queue="books", ignore_result=True)
def rerate(*, pk: str) -> None:
    """Run a requested re-rating."""
    rerating.rerating_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.forecast_daily", queue="books", ignore_result=True)
def forecast_daily() -> None:
    """Start the daily forecast, unless a forecast was requested in the last 24 hours."""
    forecasts.forecast_daily(now=timezone.now())


@shared_task(name="apps.reports.tasks.forecast", queue="books", ignore_result=True)
def forecast(*, pk: str) -> None:
    """Fit a requested forecast."""
    forecasts.forecast_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.what_if", queue="books", ignore_result=True)
def what_if(*, pk: str) -> None:
    """Compute the result of a requested what-if."""
    whatif.what_if_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.unfinished_sweep", queue="books", ignore_result=True)
def unfinished_sweep() -> None:
    """Run requested work whose message or worker was lost."""
    recovery.unfinished_sweep(now=timezone.now())


@shared_task(name="apps.reports.tasks.capacity_plan", queue="books", ignore_result=True)
def capacity_plan(*, pk: str) -> None:
    """Make a requested capacity plan."""
    capacity_plans.capacity_plan_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.capacity_plan_nightly", queue="books", ignore_result=True)
def capacity_plan_nightly() -> None:
    """Make the nightly capacity plan, unless a plan was requested recently."""
    capacity_plans.capacity_plan_nightly(now=timezone.now())


@shared_task(name="apps.reports.tasks.controller", queue="books", ignore_result=True)
def controller() -> None:
    """Run the hourly controller."""
    controller_turn(clock=timezone.now)
