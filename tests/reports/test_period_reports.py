"""The reports over a period: their parts sum to what is owned, sold and run, and page, CSV and JSON say the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.dispatch.fleet import edits, fleet_edit
from apps.dispatch.models import Lease
from apps.reports.period_reports.core import Period, ReportData, ReportRequest, period_read
from apps.reports.period_reports.index import REPORTS
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import NOW, open_market

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles of the market's processors
DAY = timedelta(days=1)
ZERO = Fraction(0)


@pytest.fixture(scope="module")
def day(shared_cast: Cast) -> Scene:
    """40 of 50 minutes that were sold from 10:30 on have run, on one of two devices."""
    made = Scene(open_market(devices=2), shared_cast)
    program = made.program(interval=60 * SECOND, latency=60 * SECOND)
    made.run(made.job(made.contract((program, 50), window=timedelta(hours=2)), 40))
    made.now = NOW + timedelta(hours=4)
    return made


@pytest.fixture
def scene(day: Scene, db: None) -> Scene:
    return deepcopy(day)


def asked(scene: Scene, view: str = "") -> ReportRequest:
    return ReportRequest(Period(NOW.date(), NOW.date()), scene.now, "EUR", view)


def made(scene: Scene, slug: str, view: str = "") -> ReportData:
    return REPORTS[slug].make(asked(scene, view))


def rows(sheet: ReportData) -> list[dict[str, Any]]:
    return [{c.name: v for c, v in zip(sheet.columns, row, strict=True)} for row in sheet.rows]


def test_load_of_each_hour_is_what_was_sold_and_ran(scene: Scene) -> None:
    found = {(row["pool"], row["hour"]): row for row in rows(made(scene, "load"))}
    ten, eleven = found["lpu-a", "10"], found["lpu-a", "11"]
    assert (ten["available"], ten["sold"], ten["ran"]) == (7200, 1800, 1800)
    assert (eleven["sold"], eleven["ran"]) == (1200, 600)
    assert ten["sold_share"] == Fraction(1, 4)
    assert ten["link_in_share"] is None  # the market's processor states no link
    assert ten["memory_share"] == Fraction(35 * 1800, 2**27 * 7200)
    assert sum(row["sold"] for row in found.values()) == 3000


def test_load_reads_each_processor_once_and_not_for_each_hour(scene: Scene) -> None:
    with CaptureQueriesContext(connection) as caught:
        found = rows(made(scene, "load"))
    of_processors = [one for one in caught if 'FROM "fleet_processorversion"' in one["sql"]]
    pools = {row["pool"] for row in found}
    assert len(found) == 24 * len(pools)
    assert 0 < len(of_processors) <= len(pools)


def test_causes_sum_to_what_is_owned_and_a_device_out_of_service_counts_from_then_on(scene: Scene) -> None:
    at = NOW + timedelta(hours=2)  # 12:30
    fleet_edit(edit=edits.device_set("lpu-a", "lpu-a-1", "failed"), actor=scene.cast.admin, now=at)
    found = {row["cause"]: row["seconds"] for row in rows(made(scene, "stranded")) if row["pool"] == "lpu-a"}
    passed = Fraction(14.5 * 3600)  # of the day, to 14:30
    assert sum(found.values()) == 2 * passed
    assert (found["used"], found["reserved but unused"], found["out of service"]) == (2400, 600, 7200)
    assert found["reduced power"] == ZERO


def test_a_power_setting_is_a_cause_and_the_rest_counts_at_that_setting(scene: Scene) -> None:
    scene.now = NOW + timedelta(hours=6)  # the contract is over
    fleet_edit(
        edit=edits.pool_set("lpu2-b", {"power_percent": 50}), actor=scene.cast.admin, now=NOW + timedelta(hours=2)
    )
    found = {row["cause"]: row["seconds"] for row in rows(made(scene, "stranded")) if row["pool"] == "lpu2-b"}
    assert found["reduced power"] == 2 * 4 * 3600 / 2
    assert sum(found.values()) == 2 * Fraction(16.5 * 3600)


def test_gaps_shorter_than_nine_of_ten_windows_are_stranded(scene: Scene) -> None:
    short = scene.program(interval=60 * SECOND, latency=60 * SECOND)
    for _ in range(2):  # to midnight both devices are full but for nine minutes of one and ten of the other
        scene.contract((short, 561 if _ else 560), window=timedelta(hours=9, minutes=30))
    scene.now = NOW + DAY
    found = {row["cause"]: row["seconds"] for row in rows(made(scene, "stranded")) if row["pool"] == "lpu-a"}
    assert found["gaps too short"] == 19 * 60
    assert sum(found.values()) == 2 * 86_400


def test_idle_is_its_owners_and_the_rest_is_nobodys(scene: Scene) -> None:
    found = {(row["owner"], row["pool"]): row for row in rows(made(scene, "idle-cost"))}
    own = found[scene.cast.organisation.name, "lpu-a"]
    assert (own["sold"], own["ran"], own["idle"], own["cost"]) == (3000, 2400, 600, None)
    assert own["idle"] + own["ran"] + found["unallocated", "lpu-a"]["idle"] == 2 * Fraction(14.5 * 3600)


def test_idle_costs_what_owning_the_device_costs(scene: Scene) -> None:
    cost = {
        "from": "2026-01-01T00:00:00Z",
        "currency": "EUR",
        "capital": "7300",
        "months": 10,
        "watts": "0",
        "energy_price": "0",
        "pue": "1",
    }
    fleet_edit(edit=edits.cost_set("lpu-a", cost), actor=scene.cast.admin, now=scene.now)
    found = {(row["owner"], row["pool"]): row for row in rows(made(scene, "idle-cost"))}
    assert found[scene.cast.organisation.name, "lpu-a"]["cost"] == Fraction(600, 3600)  # 1 EUR an hour


def test_gaps_ahead_are_what_nobody_bought(scene: Scene) -> None:
    scene.now = NOW
    found = [row for row in rows(made(scene, "gaps")) if row["pool"] == "lpu-a"]
    assert [row["gaps"] for row in found] == [2]
    assert found[0]["free"] == 2 * Fraction(13.5 * 3600) - 3000
    assert found[0]["fetches"] == found[0]["per_hour"] * found[0]["free"] / 3600 > 0


def test_a_block_that_failed_here_is_a_promise_missed(scene: Scene) -> None:
    lease = Lease.objects.filter(state="done").first()
    assert lease
    blocks = Lease.objects.filter(state="done").count()
    Lease.objects.filter(pk=lease.pk).update(state="failed", is_missed=True)
    (row,) = rows(made(scene, "deadlines"))
    assert (row["due"], row["kept"], row["late"], row["missed"]) == (blocks, blocks - 1, 0, 1)
    assert row["repeated_seconds"] == 60 * lease.count


def test_what_ran_is_what_was_predicted(scene: Scene) -> None:
    (row,) = rows(made(scene, "executed"))
    assert (row["executions"], row["predicted_cycles"], row["counted_cycles"]) == (40, 2400 * SECOND, 2400 * SECOND)
    assert (row["predicted"], row["executed"], row["difference"]) == (2400, 2400, 0)


def test_page_file_and_api_say_the_same(scene: Scene, as_user: Callable[[User], Client]) -> None:
    browser = as_user(scene.cast.admin)
    for slug, report in REPORTS.items():
        days = "" if report.is_ahead else f"from={NOW.date()}&to={NOW.date()}"
        page = browser.get(f"/reports/{slug}?{days}")
        assert report.title in page.content.decode()
        sheet = browser.get(f"/reports/{slug}?{days}&format=json").json()
        api = browser.get(f"/api/v1/reports/{slug}?{days.replace('from=', 'first=').replace('to=', 'last=')}").json()
        file = list(csv.reader(io.StringIO(browser.get(f"/reports/{slug}?{days}&format=csv").content.decode())))
        if not report.is_ahead:  # what is free shrinks from one request to the next
            assert sheet["rows"] == api["rows"]
            assert [["" if v is None else str(v) for v in row.values()] for row in sheet["rows"]] == file[1:]
    assert "load" in browser.get("/reports").content.decode()
    assert browser.get("/api/v1/reports/nonsense").json()["code"] == "report-unknown"
    assert browser.get("/api/v1/reports/load?first=2026-11-02&last=2026-11-01").status_code == 422
    assert browser.get("/reports/stranded?from=0001-01-01&to=0001-01-20").status_code == 200


def test_days_that_cannot_be_reported_on_are_said() -> None:
    now = timezone.now()
    assert (
        period_read("", "", now=now, is_ahead=False).last - period_read("", "", now=now, is_ahead=False).first
    ).days == 27
    for first, last in (
        ("nonsense", ""),
        ("2026-11-02", "2026-11-01"),
        ("0001-01-01", "9999-12-31"),
        ("9999-12-31", ""),
    ):
        assert period_read(first, last, now=now, is_ahead=False).notice, (first, last)
