"""Periodic work of the reports."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.reports import asked, forecasts, reconciling, rerating, whatif
from apps.reports.capacity_plans import services as capacity_plans
from apps.reports.controller.services import controller_turn


@shared_task(name="apps.reports.tasks.reconcile_daily", queue="books", ignore_result=True)
def reconcile_daily() -> None:
    """The day's reconciliation, once."""
    reconciling.reconciliation_daily(now=timezone.now())


@shared_task(name="apps.reports.tasks.reconcile", queue="books", ignore_result=True)
def reconcile(*, run_id: str) -> None:
    """A reconciliation that somebody asked for."""
    reconciling.reconciliation_run(run_id=UUID(run_id), now=timezone.now())


@shared_task(name="apps.reports.tasks.rerate", queue="books", ignore_result=True)
def rerate(*, pk: str) -> None:
    """A month by another price book, that somebody asked for."""
    rerating.rerating_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.forecast_daily", queue="books", ignore_result=True)
def forecast_daily() -> None:
    """The day's forecast, once."""
    forecasts.forecast_daily(now=timezone.now())


@shared_task(name="apps.reports.tasks.forecast", queue="books", ignore_result=True)
def forecast(*, pk: str) -> None:
    """The demand of every pool, continued."""
    forecasts.forecast_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.what_if", queue="books", ignore_result=True)
def what_if(*, pk: str) -> None:
    """A question about the fleet, answered."""
    whatif.what_if_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.asked_sweep", queue="books", ignore_result=True)
def asked_sweep() -> None:
    """What was asked for and lost."""
    asked.asked_sweep(now=timezone.now())


@shared_task(name="apps.reports.tasks.capacity_plan", queue="books", ignore_result=True)
def capacity_plan(*, pk: str) -> None:
    """A capacity plan that somebody asked for."""
    capacity_plans.capacity_plan_run(pk=UUID(pk), now=timezone.now())


@shared_task(name="apps.reports.tasks.capacity_plan_nightly", queue="books", ignore_result=True)
def capacity_plan_nightly() -> None:
    """The night's proposals, once."""
    capacity_plans.capacity_plan_nightly(now=timezone.now())


@shared_task(name="apps.reports.tasks.controller", queue="books", ignore_result=True)
def controller() -> None:
    """The hour's plan, its proposals, and what the controller may apply of them."""
    controller_turn(clock=timezone.now)
