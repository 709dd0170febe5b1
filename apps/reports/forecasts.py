"""Request, fit and read forecasts of every pool."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from django.db import transaction

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import User
from apps.accounts.services import audit_record
from apps.accounts.turns import turn
from apps.reports.demand import UNITS, Demand, demands, hour_of
from apps.reports.forecasting import (
    Forecast,
    NotEnough,
    Series,
    forecast,
    headroom_end,
    least_steps,
    plan_of,
)
from apps.reports.models import ForecastRun

HORIZON_DAYS = 28
HORIZON = HORIZON_DAYS * 24
PAST_SHOWN = 28 * 24
DAILY = timedelta(days=1)
TASK = "apps.reports.tasks.forecast"
PLACES = 6  # significant digits of a stored amount; a forecast is not more precise


def forecast_request(*, asked_by: User | None, now: datetime) -> ForecastRun:
    """Return the forecast in progress, or create a forecast for a worker to fit."""
    with transaction.atomic():
        waiting = ForecastRun.objects.filter(finished_at=None, asked_at__gt=now - DAILY).first()
        if waiting is not None:
            return waiting
        run = ForecastRun.objects.create(asked_by=asked_by, asked_at=now, until=hour_of(now))
        if asked_by is not None:
            audit_record(action="forecast.ask", subject=f"forecast {run.pk}", actor=asked_by, now=now)
        task_send_on_commit(TASK, queue="books", pk=str(run.pk))
    return run


def forecast_daily(*, now: datetime) -> None:
    """Create a forecast, unless a forecast was created in the last 24 hours."""
    if not ForecastRun.objects.filter(asked_at__gt=now - DAILY).exists():
        forecast_request(asked_by=None, now=now)


def forecast_run(*, pk: UUID, now: datetime) -> ForecastRun:
    """Fit every pool and dimension, and store the result. Safe to repeat."""
    run = ForecastRun.objects.get(pk=pk)
    with turn(f"forecast {pk}") as is_ours:
        if run.finished_at is None and is_ours:
            _fit(run, now)
    run.refresh_from_db()
    return run


def _fit(run: ForecastRun, now: datetime) -> None:
    wanted = demands(until=run.until)
    unfinished = ForecastRun.objects.filter(pk=run.pk, finished_at=None)
    unfinished.update(fits_total=len(wanted), fits_done=0)
    result = []
    for done, one in enumerate(wanted, 1):
        result.append(entry_of(one))
        unfinished.update(fits_done=done)
    unfinished.update(result=result, finished_at=now)


def entry_of(demand: Demand) -> dict[str, Any]:
    """Return the stored result for one pool and dimension. The result has no forecast if the history is too short."""
    known = 0 if demand.used is None or not demand.used.values.any() else len(demand.used.values)
    found: dict[str, Any] = {
        "pool": demand.pool.slug,
        "dimension": demand.dimension,
        "unit": UNITS[demand.dimension],
        "capacity": rounded(demand.capacity),
        "known": known,
    }
    series = demand.used
    try:
        if series is None or not series.values.any():
            raise NotEnough(needed_hours(), 0)
        plan_of(series)
    except NotEnough as short:
        return {**found, "needed": short.needed}
    made = forecast(series, horizon=HORIZON)
    return {**found, **forecast_json(made, demand.capacity)}


def needed_hours() -> int:
    """Return the number of hours of history that a forecast requires."""
    return least_steps(Series(datetime(1970, 1, 1, tzinfo=UTC), timedelta(hours=1), np.ones(1)))


def forecast_json(made: Forecast, capacity: float) -> dict[str, Any]:
    """Return the stored form of a forecast."""
    ends = headroom_end(made, capacity)
    past = made.series.values[-PAST_SHOWN:]
    return {
        "start": made.start.isoformat(),
        "past_start": (made.start - len(past) * made.series.step).isoformat(),
        "past": [rounded(value) for value in past],
        "low": [rounded(value) for value in made.low],
        "middle": [rounded(value) for value in made.middle],
        "high": [rounded(value) for value in made.high],
        "method": made.method,
        "backtest": {
            "origins": len(made.plan.origins),
            "leads": made.plan.leads,
            "scores": [
                {
                    "method": score.method,
                    "wape": rounded(score.wape),
                    "mase": rounded(score.mase),
                    "coverage": None if score.coverage is None else rounded(score.coverage),
                    "steps": score.steps,
                }
                for score in made.scores
            ],
        },
        "headroom": {
            name: None if end is None else end.isoformat() for name, end in zip(ends._fields, ends, strict=True)
        },
    }


def rounded(value: float | np.floating[Any]) -> float:
    """Round to six significant digits."""
    return float(f"{float(value):.{PLACES}g}")


def forecast_latest() -> ForecastRun | None:
    """Return the newest finished forecast; None if there is none."""
    return ForecastRun.objects.exclude(finished_at=None).order_by("-asked_at").first()


def forecast_waiting(*, now: datetime) -> ForecastRun | None:
    """Return the forecast in progress; None if there is none."""
    return ForecastRun.objects.filter(finished_at=None, asked_at__gt=now - DAILY).order_by("-asked_at").first()
