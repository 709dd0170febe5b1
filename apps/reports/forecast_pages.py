"""The page, the CSV file and the API of demand forecasts."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods
from ninja import Router, Schema

from apps.accounts.access import platform_admin_check, platform_admin_required, principal_get
from apps.accounts.auth import requires
from apps.accounts.idempotency import idempotent
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.reports.demand import DEVICE_TIME, SECONDS
from apps.reports.forecasts import HORIZON_DAYS, forecast_latest, forecast_request, forecast_waiting, rounded
from apps.reports.models import ForecastRun

router = Router(tags=["capacity"])
HOUR = timedelta(hours=1)
LINES = ("low", "middle", "high")


class ScoreOut(Schema):
    """A method's results in the backtest: weighted absolute percentage error (WAPE), mean absolute scaled error (MASE)
    and coverage. Coverage is the share of hours inside the 80 % band; null if too few errors are known.
    """

    method: str
    wape: float
    mase: float
    coverage: float | None
    steps: int


class BacktestOut(Schema):
    """A backtest of `origins` forecasts from different times in the past. Each forecast covers `leads` hours."""

    origins: int
    leads: int
    scores: list[ScoreOut]


class HeadroomOut(Schema):
    """The first hour in which each line exceeds the capacity; null if the line stays within the capacity."""

    low: datetime | None
    middle: datetime | None
    high: datetime | None


class EntryOut(Schema):
    """The forecast of one pool and dimension. The lines hold the 10 %, 50 % and 90 % quantiles in `unit`, one value per
    hour from `start`. `capacity` is per hour. If the history is too short, there are no lines: `needed` hours are
    required, and `known` hours are available.
    """

    pool: str
    dimension: str
    unit: str
    capacity: float
    known: int
    needed: int | None = None
    method: str | None = None
    start: datetime | None = None
    low: list[float] = []
    middle: list[float] = []
    high: list[float] = []
    past_start: datetime | None = None
    past: list[float] = []
    backtest: BacktestOut | None = None
    headroom: HeadroomOut | None = None


class ForecastOut(Schema):
    """`entries` is null until `finished_at` is set. The progress is `fits_done` out of `fits_total`."""

    id: UUID
    asked_at: datetime
    until: datetime
    fits_total: int
    fits_done: int
    finished_at: datetime | None
    entries: list[EntryOut] | None

    @staticmethod
    def resolve_entries(run: ForecastRun) -> list[dict[str, Any]] | None:
        entries: list[dict[str, Any]] | None = run.result
        return entries


@router.get(
    "/capacity/forecast",
    auth=requires(Scope.ADMIN),
    response=ForecastOut,
    operation_id="forecast_get",
    summary="Get the newest forecast",
)
def forecast_get(request: HttpRequest) -> ForecastRun:
    """Returns the newest finished forecast or, if there is none, the forecast in progress."""
    found = forecast_latest() or forecast_waiting(now=timezone.now())
    if found is None:
        raise Problem(404, "No forecast yet", "Start one with POST.", kind="not-found")
    return found


@router.post(
    "/capacity/forecast",
    auth=requires(Scope.ADMIN),
    response={202: ForecastOut},
    operation_id="forecast_create",
    summary="Start a forecast of every pool",
)
@idempotent
def forecast_create(request: HttpRequest) -> tuple[int, ForecastRun]:
    """Returns at once; a worker computes the forecast. If a forecast is already in progress, returns that forecast."""
    return 202, forecast_request(asked_by=principal_get(request).user, now=timezone.now())


@require_http_methods(["GET", "POST"])
def forecast_page(request: HttpRequest) -> HttpResponse:
    """Show the forecast of one pool and dimension; a POST starts a forecast."""
    principal, now = platform_admin_check(request), timezone.now()
    if request.method == "POST":
        forecast_request(asked_by=principal.user, now=now)
        return redirect("reports:forecast")
    run = forecast_latest()
    entries = (run.result or []) if run else []
    entry = _chosen(entries, request)
    return render(
        request,
        "reports/forecast.html",
        {
            "run": run,
            "waiting": forecast_waiting(now=now),
            "entries": [_row(one) for one in entries],
            "entry": entry,
            "days": _days(entry) if entry and "low" in entry else [],
            "horizon": HORIZON_DAYS,
            "chart": _chart(entry) if entry and "low" in entry else None,
        },
    )


@require_GET
@platform_admin_required
def forecast_csv(request: HttpRequest) -> HttpResponse:
    """Return the newest forecast as a CSV file."""
    run = forecast_latest()
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="forecast.csv"'
    writer = csv.writer(response)
    writer.writerow(["pool", "dimension", "unit", "hour", "low", "middle", "high", "capacity"])
    for one in (run.result or []) if run else []:
        for number, values in enumerate(zip(*(one.get(line, []) for line in LINES), strict=True)):
            hour = datetime.fromisoformat(one["start"]) + number * HOUR
            writer.writerow([one["pool"], one["dimension"], one["unit"], hour.isoformat(), *values, one["capacity"]])
    return response


def _chosen(entries: list[dict[str, Any]], request: HttpRequest) -> dict[str, Any] | None:
    pool, dimension = request.GET.get("pool"), request.GET.get("dimension")
    named = [one for one in entries if pool in (None, one["pool"]) and dimension in (None, one["dimension"])]
    known = [one for one in named or entries if "low" in one]
    return next(iter(known or named or entries), None)


def _row(one: dict[str, Any]) -> dict[str, Any]:
    ends = {name: end and datetime.fromisoformat(end) for name, end in one.get("headroom", {}).items()}
    peak = max(one["middle"]) / one["capacity"] if one.get("middle") and one["capacity"] else None
    return {**one, "ends": ends, "peak": peak}


def _days(entry: dict[str, Any]) -> list[dict[str, Any]]:
    start = datetime.fromisoformat(entry["start"])
    days: dict[Any, dict[str, Any]] = {}
    for number, values in enumerate(zip(*(entry[line] for line in LINES), strict=True)):
        day = (start + number * HOUR).date()
        found = days.setdefault(day, {"day": day, **dict.fromkeys(LINES, 0.0)})
        for line, value in zip(LINES, values, strict=True):
            found[line] = max(found[line], value)
    return [_shares(day, entry["capacity"]) for day in days.values()]


def _shares(day: dict[str, Any], capacity: float) -> dict[str, Any]:
    shares = {f"{line}_share": day[line] / capacity if capacity else None for line in LINES}
    return {**day, **shares, "is_over": day["middle"] > capacity, "may_be_over": day["high"] > capacity}


def _chart(entry: dict[str, Any]) -> dict[str, Any]:
    past, ahead = len(entry["past"]), len(entry["low"])
    part, unit = (SECONDS, "devices") if entry["dimension"] == DEVICE_TIME else (1, entry["unit"])
    first = datetime.fromisoformat(entry["past_start"])
    empty: list[float | None] = [None]
    shown: dict[str, list[float | None]] = {
        name: [rounded(value / part) for value in entry[name]] for name in ("past", *LINES)
    }
    lines = [{"name": "used", "values": shown["past"] + empty * ahead}]
    lines += [{"name": line, "values": empty * past + shown[line]} for line in LINES]
    lines.append({"name": "capacity", "values": [entry["capacity"] / part] * (past + ahead)})
    times = [(first + number * HOUR).isoformat() for number in range(past + ahead)]
    return {"unit": unit, "days": True, "times": times, "series": lines}
