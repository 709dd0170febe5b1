"""Past use becomes a forecast on a page, and a question about the fleet a difference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal

import numpy as np
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.dispatch.models import DeviceHour
from apps.reports import forecasts, whatif
from apps.reports.changes import Change, change_check
from apps.reports.costs import costrate_set
from apps.reports.demand import DEVICE_TIME, demands, hour_of
from apps.reports.demand_traces import hours_of, seconds_of, trace_upload
from apps.reports.forecasting import HOUR, Series
from apps.reports.projection import ProjectionInput, project
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import CLOCK, Market, open_market

pytestmark = pytest.mark.django_db
SignIn = Callable[[User], Client]
MONDAY = datetime.fromisoformat("2026-03-02T00:00:00+00:00")


@pytest.fixture
def market() -> Market:
    return open_market(devices=2)


def used(market: Market, cast: Cast, *, hours: int, until: datetime, share: float = 1.0) -> None:
    """The pool was busy by day: `share` of one device from 8 to 18, a tenth of that at night; a lease takes 60 s."""
    DeviceHour.objects.bulk_create(
        DeviceHour(
            hour=hour,
            pool=market.lpu,
            organisation=cast.organisation,
            klass="standard",
            clock_hz=CLOCK,
            cycles=Decimal(int(3600 * CLOCK * share * (1 if 8 <= hour.hour < 18 else 0.1))),
            leases=max(1, int(60 * share)),
            until=hour + HOUR,
        )
        for hour in (until - n * HOUR for n in range(1, hours + 1))
    )


def test_use_is_that_of_the_leases_hour_by_hour(cast: Cast) -> None:
    scene = Scene(open_market(devices=2), cast)
    contract = scene.contract((scene.program(interval=CLOCK, latency=CLOCK), 100))
    scene.run(scene.job(contract, 40))
    until = hour_of(scene.now) + HOUR
    known = {(one.pool.slug, one.dimension): one for one in demands(until=until)}
    series = known["lpu-a", DEVICE_TIME].used
    assert series is not None
    assert series.values.sum() == pytest.approx(40)
    assert known["lpu-a", DEVICE_TIME].capacity == 2 * 3600
    assert known["lpu2-b", DEVICE_TIME].used is None
    executed = known["lpu-a", "operations"].used
    assert executed is not None
    assert executed.values.sum() == pytest.approx(40 * 704_000_000)


def test_a_forecast_names_the_day_on_which_headroom_ends_and_how_good_it_was(
    market: Market, cast: Cast, as_user: SignIn
) -> None:
    now = timezone.now()
    used(market, cast, hours=200, until=hour_of(now), share=2.5)
    run = forecasts.forecast_request(asked_by=cast.admin, now=now)
    assert forecasts.forecast_request(asked_by=cast.admin, now=now) == run  # one at a time
    forecasts.forecast_run(pk=run.pk, now=now)
    browser = as_user(cast.admin)
    entries = {
        (one["pool"], one["dimension"]): one for one in browser.get("/api/v1/capacity/forecast").json()["entries"]
    }
    entry = entries["lpu-a", DEVICE_TIME]
    assert len(entry["low"]) == len(entry["high"]) == 28 * 24
    first = next(n for n, value in enumerate(entry["middle"]) if value > 7200)
    assert datetime.fromisoformat(entry["headroom"]["middle"]) == hour_of(now) + first * HOUR
    assert {score["method"] for score in entry["backtest"]["scores"]} >= {"last value", "seasonal naive"}
    assert entries["lpu2-b", DEVICE_TIME]["needed"] == 120
    page = browser.get("/capacity/forecast").content.decode()
    assert f"{hour_of(now) + first * HOUR:%Y-%m-%d}" in page
    assert "seasonal naive" in page
    assert (
        "0 hours of usage are known. A forecast needs 120"
        in browser.get("/capacity/forecast?pool=lpu2-b").content.decode()
    )
    assert browser.get("/capacity/forecast.csv").content.decode().count("\nlpu-a,device time,s,") == 28 * 24
    assert AuditEntry.objects.filter(action="forecast.ask").count() == 1


def test_the_difference_of_a_lost_device_and_twice_the_demand(market: Market, cast: Cast, as_user: SignIn) -> None:
    now = timezone.now()
    used(market, cast, hours=200, until=hour_of(now), share=0.5)
    costrate_set(
        processor_class="lpu",
        per_hour=Decimal("1.50"),
        currency="EUR",
        effective_from=now - timedelta(days=9),
        note="",
        actor=cast.admin,
        now=now,
    )
    change = Change(devices={"lpu-a": -1}, demand_factor=2, power_percent=50)
    asked = whatif.what_if_request(change=change, trace=None, asked_by=cast.admin, now=now)
    done = whatif.what_if_run(pk=asked.pk, now=now)
    assert done.result is not None
    row = next(one for one in done.result if one["pool"] == "lpu-a")
    before, after = row["now"], row["then"]
    assert (before["devices"], after["devices"]) == (2, 1)
    assert (before["peak"], after["peak"]) == (
        pytest.approx(0.25),
        pytest.approx(2.0),
    )  # twice the work at half the speed
    assert (Decimal(before["cost_per_hour"]), Decimal(after["cost_per_hour"])) == (3, Decimal("1.5"))
    assert before["headroom"]["high"] is None
    assert after["headroom"]["middle"] is not None
    assert after["waits"]["p95"] > before["waits"]["p95"]
    text = as_user(cast.admin).get(f"/capacity/what-if/{asked.pk}").content.decode()
    assert "lpu-a: -1 device. Power 50 %. Demand × 2." in text


def test_a_failed_site_leaves_no_device_and_serves_nobody(market: Market, cast: Cast) -> None:
    now = timezone.now()
    used(market, cast, hours=24, until=hour_of(now))
    change = Change(failed_sites=[market.lpu.site.slug])
    done = whatif.what_if_run(
        pk=whatif.what_if_request(change=change, trace=None, asked_by=cast.admin, now=now).pk, now=now
    )
    assert done.result is not None
    after = next(one["then"] for one in done.result if one["pool"] == "lpu-a")
    assert (after["devices"], after["mean"], after["waits"]) == (0, None, None)
    assert after["unserved"] > 0


def test_a_cancelled_comparison_stops_after_its_pool(
    market: Market, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = timezone.now()
    asked = whatif.what_if_request(change=Change(), trace=None, asked_by=cast.admin, now=now)
    real = whatif.projection_inputs

    def cancelling(*given: object) -> object:
        whatif.what_if_cancel(pk=asked.pk, actor=cast.admin, now=now)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(whatif, "projection_inputs", cancelling)
    done = whatif.what_if_run(pk=asked.pk, now=now)
    assert (done.result, done.finished_at, done.cancelled_at) == (None, None, now)
    assert AuditEntry.objects.filter(action="what-if.cancel").count() == 1


def test_a_trace_is_the_demand_of_its_pool(market: Market, cast: Cast, as_user: SignIn) -> None:
    lines = "timestamp,count\n" + "".join(f"{MONDAY + n * HOUR:%Y-%m-%dT%H:%M:%SZ},{n % 5 + 1}\n" for n in range(30))
    browser = as_user(cast.admin)
    answer = browser.post("/api/v1/capacity/traces", {"file": SimpleUploadedFile("asked.csv", lines.encode())})
    assert answer.status_code == 201, answer.content
    assert answer.json()["requests"] == 90
    body = {"trace": answer.json()["id"], "trace_pool": "lpu-a", "request_seconds": 360.0}
    asked = browser.post("/api/v1/capacity/what-if", body, content_type="application/json")
    assert asked.status_code == 202, asked.content
    done = whatif.what_if_run(pk=asked.json()["id"], now=timezone.now())
    assert done.result is not None
    row = next(one for one in done.result if one["pool"] == "lpu-a")
    assert row["then"]["peak"] == pytest.approx(5 * 360 / 7200)
    assert row["then"]["waits"]["p50"] == 0
    wrong = browser.post("/capacity/traces", {"file": SimpleUploadedFile("a.csv", b"timestamp\nnever\n")})
    assert (wrong.status_code, b"Line 2 has the time &#x27;never&#x27;" in wrong.content) == (422, True)


def test_a_trace_is_kept_by_hours_and_by_its_last_seconds(cast: Cast) -> None:
    lines = [b"timestamp,count", *(f"{MONDAY + n * HOUR:%Y-%m-%dT%H:%M:%SZ},{n}".encode() for n in range(30))]
    kept = trace_upload(name="a", size=1, lines=lines, actor=cast.admin, now=MONDAY)
    assert hours_of(kept).values.tolist() == list(range(1, 29))
    assert seconds_of(kept).sum() == sum(range(6, 30))
    with pytest.raises(Problem, match="the maximum is 67,108,864"):
        trace_upload(name="a", size=1 << 30, lines=lines, actor=cast.admin, now=MONDAY)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (Change(devices={"nowhere": 1}), "There is no pool 'nowhere'. Choose one of these pools: a."),
        (Change(failed_sites=["mars"]), "There is no site 'mars'"),
        (Change(devices={"a": 10**6}), "At most 100,000 devices can be added"),
        (Change(devices={"a": -4}), "Pool a has 3 active devices, so 4 cannot be removed."),
        (Change(power_percent=0), "Enter the power in per cent, as a whole number from 1 to 200."),
        (Change(demand_factor=float("nan")), "Enter a demand factor"),
        (Change(trace_pool="b", request_seconds=1.0), "Choose one of these pools to serve the trace"),
        (Change(trace_pool="a", request_seconds=-1.0), "Enter the device time of one request"),
    ],
)
def test_an_impossible_change_is_refused_with_its_remedy(change: Change, sentence: str) -> None:
    with pytest.raises(Problem) as refused:
        change_check(change, pools={"a": 3}, sites={"s"}, has_trace=bool(change.trace_pool))
    assert refused.value.detail.startswith(sentence)


def test_twice_the_devices_halve_the_use_and_never_lengthen_the_waits() -> None:
    series = Series(MONDAY, HOUR, np.full(48, 1800.0))
    one, two = (
        project(ProjectionInput(devices=count, power=1.0, used=series, request_seconds=300.0)) for count in (1, 2)
    )
    assert (one.mean, two.mean) == (0.5, 0.25)
    assert one.waits is not None
    assert two.waits is not None
    assert all(two.waits[rank] <= one.waits[rank] for rank in ("p50", "p95", "p99"))
    assert (
        project(ProjectionInput(devices=1, power=1.0, used=series, request_seconds=300.0)) == one
    )  # the same each time
