"""What the administrator reads of capacity agrees with what was sold and what ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.dispatch.models import Lease
from apps.reports import selectors
from apps.reports.selectors import HOUR_MICROS, Capacity, Cell, PoolLoad
from apps.reports.views import chart_of
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import NOW, open_market

DAY, MIDNIGHT = timedelta(days=1), "T00:00:00+00:00"

SignIn = Callable[[User], Client]
SECOND = 900_000_000  # cycles of the market's processors


@pytest.fixture
def scene(cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast)


def load_of(report: Capacity, slug: str) -> PoolLoad:
    return next(load for load in report.pools if load.pool.slug == slug)


def test_sold_and_executed_time_fall_into_their_hours(scene: Scene) -> None:
    slow = scene.program(interval=60 * SECOND, latency=60 * SECOND)
    contract = scene.contract((slow, 50), window=timedelta(hours=2))  # 10:30 to 11:20
    scene.run(scene.job(contract, 40))
    load = load_of(selectors.capacity(day=NOW, now=NOW), "lpu-a")
    by_hour = {cell.start.hour: cell for cell in load.cells}
    minute = 60_000_000
    assert (by_hour[10].sold, by_hour[11].sold, by_hour[12].sold) == (30 * minute, 20 * minute, 0)
    assert (by_hour[10].executed, by_hour[11].executed) == (30 * minute, 10 * minute)
    assert by_hour[10].available == 2 * HOUR_MICROS
    assert by_hour[10].share_sold == Fraction(1, 4)
    assert by_hour[11].share_idle == Fraction(1, 2)
    assert (by_hour[9].heat, by_hour[10].heat) == (0, 2)
    assert load.day.sold == 50 * minute
    other = load_of(selectors.capacity(day=NOW, now=NOW), "lpu2-b")
    assert other.day.sold == 0


def test_the_queue_and_the_waits_are_those_of_the_pool(scene: Scene) -> None:
    contract = scene.contract((scene.program(operations=400_000_000), 50))
    job = scene.job(contract, 5)
    first, *_ = Lease.objects.filter(stage__job=job)
    scene.now = first.device_from + timedelta(seconds=4)
    scene.take(first)
    load = load_of(selectors.capacity(day=NOW, now=scene.now), "lpu-a")
    assert load.queue == {"running": 1, "offered": 4}
    assert (load.waits.count, load.waits.p50, load.waits.p95) == (1, timedelta(seconds=4), timedelta(seconds=4))
    assert load_of(selectors.capacity(day=NOW, now=scene.now), "lpu2-b").waits.p50 is None


def test_free_windows_and_sold_ones_fill_the_next_day_together(scene: Scene) -> None:
    slow = scene.program(interval=60 * SECOND, latency=60 * SECOND)
    scene.contract((slow, 50), window=timedelta(hours=2))
    load = load_of(selectors.capacity(day=NOW, now=NOW), "lpu-a")
    assert load.free_total + timedelta(minutes=50) == 2 * timedelta(hours=24)


def test_a_refusal_stands_on_the_page_with_its_reason(scene: Scene, as_user: SignIn) -> None:
    slow = scene.program(interval=60 * SECOND, latency=60 * SECOND)
    for _ in range(2):
        scene.contract((slow, 60), window=timedelta(hours=1))
    with pytest.raises(Problem):
        scene.contract((slow, 60), window=timedelta(hours=1))
    text = as_user(scene.cast.admin).get("/capacity").content.decode()
    assert "no free window" in text
    assert scene.cast.organisation.name in text


def test_income_by_pool_and_class_is_what_the_ledger_says(scene: Scene) -> None:
    program = scene.program()
    contracts = [scene.contract((program, 20), klass=klass) for klass in ("standard", "priority", "standard")]
    for contract in contracts:
        scene.run(scene.job(contract, 20))
    rows = selectors.capacity(day=NOW, now=NOW).income
    assert [(row.pool, row.klass, row.executions) for row in rows] == [
        ("lpu-a", "priority", 20),
        ("lpu-a", "standard", 40),
    ]
    assert rows[0].amount == contracts[1].net
    assert rows[1].amount == contracts[0].net + contracts[2].net
    assert selectors.capacity(day=NOW + timedelta(days=1), now=NOW).income == []


def test_the_page_and_the_api_show_the_day_that_is_asked_for(scene: Scene, as_user: SignIn) -> None:
    browser = as_user(scene.cast.admin)
    text = browser.get("/capacity?day=2026-11-24").content.decode()
    assert "24 November 2026" in text
    for wrong in ("nonsense", "0001-01-01", "9999-12-31"):
        assert "No such day" in browser.get(f"/capacity?day={wrong}").content.decode()
    answer = browser.get("/api/v1/capacity?day=2026-11-24").json()
    assert answer["day"] == "2026-11-24"
    assert [pool["pool"] for pool in answer["pools"]] == ["host-cpu", "lpu-a", "lpu2-b"]
    assert all(len(pool["hours"]) == 24 for pool in answer["pools"])
    assert timezone.now().date().isoformat() == browser.get("/api/v1/capacity").json()["day"]


def test_the_chart_of_a_day_draws_its_last_hour(scene: Scene) -> None:
    report = selectors.capacity(day=NOW, now=NOW)
    drawn = chart_of(report)
    assert drawn["times"] == [*(hour.isoformat() for hour in report.hours), (NOW + DAY).date().isoformat() + MIDNIGHT]
    for load, series in zip(report.pools, drawn["series"], strict=True):
        sold = [cell.sold / 1e6 for cell in load.cells]
        assert series["values"] == [*sold, sold[-1]], "a step begins at its time and needs an end"


def test_the_page_has_the_day_in_plain_labels_and_figures_that_add_up(scene: Scene, as_user: SignIn) -> None:
    slow = scene.program(interval=60 * SECOND, latency=60 * SECOND)
    contract = scene.contract((slow, 50), window=timedelta(hours=2))
    scene.run(scene.job(contract, 40))
    whole = selectors.capacity(day=NOW, now=NOW).whole
    assert whole.unused == timedelta(minutes=10)
    assert whole.unallocated + timedelta(minutes=50) == timedelta(microseconds=whole.available)
    assert whole.share_unallocated + whole.share_sold == 1
    text = as_user(scene.cast.admin).get(f"/capacity?day={NOW:%Y-%m-%d}").content.decode()
    for label in ("Reserved but unused", "Unallocated", "Idle cost", "Free, next 24 hours"):
        assert label in text


def test_what_a_host_took_beyond_its_reservation_leaves_other_pools_as_they_are(scene: Scene) -> None:
    report = selectors.capacity(day=NOW, now=NOW)
    idle, beyond = (Cell(NOW, available=1000, sold=100, executed=used) for used in (40, 400))
    pools = [replace(load, cells=[cell]) for load, cell in zip(report.pools[:2], (idle, beyond), strict=True)]
    report = replace(report, pools=pools)
    assert report.unused == timedelta(microseconds=60)
    assert report.share_unused == Fraction(60, 200)


def test_time_beyond_what_was_sold_leaves_nothing_unused() -> None:
    """A host is measured by the wall clock and may take longer than its windows."""
    cell = Cell(NOW, available=1000, sold=100, executed=400)
    assert cell.share_idle == 0
    assert cell.unused == timedelta(0)
