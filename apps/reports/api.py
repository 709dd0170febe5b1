"""The capacity API for administrators."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.auth import requires
from apps.accounts.numbers import Day
from apps.accounts.roles import Scope
from apps.pricing.rating import decimal_text
from apps.reports import selectors
from apps.reports.capacity_plan_pages import router as capacity_plan_router
from apps.reports.controller_pages import router as controller_router
from apps.reports.cost_pages import router as cost_router
from apps.reports.failure_pages import router as failure_router
from apps.reports.forecast_pages import router as forecast_router
from apps.reports.proposal_pages import router as proposal_router
from apps.reports.reconciliation_pages import router as reconciliation_router
from apps.reports.report_pages import router as report_router
from apps.reports.rerating_pages import router as rerating_router
from apps.reports.revenue_pages import router as revenue_router
from apps.reports.views import day_of
from apps.reports.whatif_pages import router as what_if_router

router = Router(tags=["capacity"])
router.add_router("", revenue_router)
router.add_router("", cost_router)
router.add_router("", capacity_plan_router)
router.add_router("", controller_router)
router.add_router("", rerating_router)
router.add_router("", reconciliation_router)
router.add_router("", forecast_router)
router.add_router("", what_if_router)
router.add_router("", report_router)
router.add_router("", failure_router)
router.add_router("", proposal_router)


class HourOut(Schema):
    start: datetime
    available_us: int
    sold_us: int
    executed_us: int


class FreeOut(Schema):
    device: str
    start: datetime
    end: datetime


class PoolLoadOut(Schema):
    pool: str
    kind: str
    devices: int
    hosts_alive: int
    hours: list[HourOut]
    queue: dict[str, int]
    waits: int
    wait_p50_us: int | None
    wait_p95_us: int | None
    free_24h_us: int
    free_longest: list[FreeOut]


class RefusalOut(Schema):
    at: datetime
    pool: str
    organisation: str
    klass: str
    duration_us: int
    reason: str


class IncomeOut(Schema):
    pool: str
    klass: str
    executions: int
    amount: str
    currency: str


class CapacityOut(Schema):
    day: date
    as_of: datetime
    pools: list[PoolLoadOut]
    income: list[IncomeOut]
    refusals: list[RefusalOut]


@router.get("/capacity", auth=requires(Scope.ADMIN), response=CapacityOut, summary="Capacity of every pool over a day")
def capacity(request: HttpRequest, day: Day | None = None) -> dict[str, Any]:
    """`day` is a UTC day and defaults to today. Device time is in whole microseconds. Past free windows are left out."""
    now = timezone.now()
    report = selectors.capacity(day=day_of(day.isoformat() if day else "", now=now), now=now)
    return {
        "day": report.day.date(),
        "as_of": now,
        "pools": [_pool(load) for load in report.pools],
        "income": [{**one._asdict(), "amount": decimal_text(one.amount)} for one in report.income],
        "refusals": [
            {
                "at": one.at,
                "pool": one.pool.slug,
                "organisation": one.organisation.name,
                "klass": one.klass,
                "duration_us": one.duration_us,
                "reason": one.reason,
            }
            for one in report.refusals
        ],
    }


def _pool(load: selectors.PoolLoad) -> dict[str, Any]:
    return {
        "pool": load.pool.slug,
        "kind": load.pool.kind,
        "devices": sum(device.is_active for device in load.fleet.devices),
        "hosts_alive": len(load.fleet.alive),
        "hours": [
            {
                "start": cell.start,
                "available_us": cell.available,
                "sold_us": cell.sold,
                "executed_us": cell.executed,
            }
            for cell in load.cells
        ],
        "queue": load.queue,
        "waits": load.waits.count,
        "wait_p50_us": _micros(load.waits.p50),
        "wait_p95_us": _micros(load.waits.p95),
        "free_24h_us": _micros(load.free_total),
        "free_longest": [{"device": one.device, "start": one.start, "end": one.end} for one in load.free],
    }


def _micros(length: timedelta | None) -> int | None:
    return None if length is None else length // timedelta(microseconds=1)
