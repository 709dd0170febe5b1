"""Device time has the cost of owning it: by class, by pool, from and until when it is owned."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from html import unescape

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_edit
from apps.dispatch.models import Lease
from apps.fleet.models import Device
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.reports.costs import Segment, rounded, seconds_of
from apps.reports.margin import Time, device_time
from apps.reports.models import CostRate
from apps.reports.revenue import revenue
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.reports.test_revenue import LATER, SECOND, cost, pool, reported
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """The scene at the start of a month, so that all device time falls in that month."""
    start, _ = month_of(timezone.now())
    return Scene(open_market(devices=2), cast, start)


def test_work_shorter_than_a_microsecond_has_its_cost(scene: Scene, as_user: Callable[[User], Client]) -> None:
    """Three executions of 7 cycles at 900 MHz: 23 ns, whose instants are the same microsecond."""
    program = scene.program(interval=7, latency=7)
    scene.run(scene.job(scene.contract((program, 3), window=timedelta(hours=2)), 3))
    assert all(row.occurred_from == row.occurred_to for row in UsageRow.objects.all())
    client = as_user(scene.cast.admin)
    answer = client.get("/api/v1/revenue").json()
    for name in ("by_class", "by_customer"):
        (part,) = answer[name]
        assert (part["ran_us"], part["ran_seconds"], part["cost_ran"], part["margin"]) == (
            0,
            "0.000000023333",
            None,
            None,
        )
        assert part["unknown"] == "No cost has been entered for class lpu."
    page = unescape(client.get("/revenue").content.decode()).split("By class", 1)[1]
    assert "23.3" in page
    assert page.count("not known") >= 4
    cost(scene, "lpu", "3600", scene.now - timedelta(days=400))
    for group in ("class", "customer"):
        (part,) = reported(scene).parts[group]
        assert part.ran == Time(Fraction(21, SECOND), Fraction(21, SECOND))
        assert part.margin == Fraction(part.amount) - Fraction(21, SECOND)


def test_a_month_that_ends_while_a_lease_runs_cuts_it_exactly(scene: Scene) -> None:
    program = scene.program(interval=SECOND + 7, latency=SECOND + 7)
    scene.run(scene.job(scene.contract((program, 40), window=timedelta(hours=2)), 40))
    leases = Lease.objects.select_related("window")
    begins = min(lease.device_from for lease in leases)
    for cut in (0, 1, 7, 3_000_001, 39_999_999):
        at, end = begins + timedelta(microseconds=cut), begins + LATER
        parts = [device_time(start=one, end=other, currency="EUR") for one, other in ((begins - LATER, at), (at, end))]
        ran = [sum(one.ran.seconds for one in time.pools) for time in parts]
        assert sum(ran) == Fraction(40 * (SECOND + 7), SECOND)
        if Lease.objects.count() == 1:
            assert ran[0] == Fraction(cut, 10**6)


def test_hours_are_owned_from_and_until(scene: Scene) -> None:
    cost(scene, "lpu2", "5", scene.now - timedelta(days=400))
    first, second = Device.objects.filter(pool__slug="lpu2-b").order_by("name")
    start, end = month_of(scene.now)
    Device.objects.filter(pk=first.pk).update(owned_from=start + timedelta(days=2), state="draining")
    Device.objects.filter(pk=second.pk).update(owned_until=start + timedelta(days=3), state="draining")
    one = pool(reported(scene), "lpu2-b")
    assert one.owned is not None
    assert one.owned.seconds == seconds_of((end - start - timedelta(days=2)) + timedelta(days=3))
    assert one.owned.cost == 5 * one.owned.seconds / 3600
    early = revenue(month=scene.now, currency="EUR", now=start + timedelta(days=1))
    assert pool(early, "lpu2-b").owned == Time(Fraction(86_400), Fraction(5 * 24))
    assert revenue(month=scene.now + LATER, currency="EUR", now=scene.now).whole.owned == Time(Fraction(0), Fraction(0))


def test_a_pools_facts_cost_where_no_rate_of_its_class_is_stated(scene: Scene) -> None:
    start, _ = month_of(scene.now)
    facts = {"currency": "EUR", "capital": "1460", "months": 2, "watts": "500", "energy_price": "0.2", "pue": "1.1"}
    for days, pue in ((0, "1.1"), (2, "2.1")):
        begins = (start + timedelta(days=days)).isoformat()
        edit = edits.cost_set("lpu2-b", {**facts, "from": begins, "pue": pue})
        fleet_edit(edit=edit, actor=scene.cast.admin, now=scene.now)
    cost(scene, "lpu2", "5", start + timedelta(days=3))
    held = device_time(start=start, end=start + timedelta(days=4), currency="EUR").pools[2].owned
    hours = [
        Fraction(111, 100),
        Fraction(111, 100),
        Fraction(121, 100),
        Fraction(5),
    ]  # of each day; 1 an hour is capital
    assert held.cost == 2 * 24 * sum(hours)
    other = device_time(start=start, end=start + timedelta(days=4), currency="EUR").pools[1].owned
    assert other == Time(held.seconds, None, "No cost has been entered for class lpu.")


def test_a_rate_is_added_and_never_changed(scene: Scene) -> None:
    rate = cost(scene, "lpu", "3", scene.now)
    for change in (lambda: CostRate.objects.update(per_hour=1), rate.delete):
        with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
            change()
    cost(scene, "lpu", "4", scene.now)
    hour = timedelta(hours=1)
    held = device_time(start=scene.now, end=scene.now + hour, currency="EUR").pools[1].owned
    assert held == Time(Fraction(7200), Fraction(8))  # the one entered last holds
    for klass, per_hour, year in (
        ("gpu", "3", 2026),
        ("lpu", "0", 2026),
        ("lpu", "1000000000", 2026),
        ("lpu", "1", 1999),
    ):
        with pytest.raises(Problem):
            cost(scene, klass, per_hour, datetime(year, 1, 1, tzinfo=UTC))
    assert AuditEntry.objects.filter(action="cost-rate.set").count() == 2


@given(
    st.decimals(min_value="0.000000000001", max_value=10**8, places=12),
    st.lists(st.integers(0, 40 * 86_400_000_000), max_size=20),
)
def test_the_cost_of_a_whole_is_the_cost_of_its_parts(per_hour: Decimal, cycles: list[int]) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    part = Segment(now, now, {"lpu": per_hour})
    costs = [part.cost("lpu", Fraction(one, 9 * 10**8)) or Fraction(0) for one in cycles]
    whole = part.cost("lpu", Fraction(sum(cycles), 9 * 10**8))
    assert sum(costs) == whole
    assert abs(Fraction(rounded(whole) or 0) - (whole or 0)) <= Fraction(1, 2 * 10**12)
    assert part.cost("other", Fraction(0)) == 0
    assert part.cost("other", Fraction(1, 9 * 10**8)) is None


def test_costs_are_stated_on_their_page_and_over_json(scene: Scene, as_user: Callable[[User], Client]) -> None:
    client = as_user(scene.cast.admin)
    sent = {"processor_class": "lpu", "per_hour": "1,250.5", "effective_from": "2026-01-01T00:00", "note": "lease"}
    assert "No cost has been entered for class lpu" in client.get("/revenue").content.decode()
    assert client.post("/costs", sent).status_code == 302
    assert "1,250.50" in client.get("/costs").content.decode()
    for wrong in (
        {"per_hour": "NaN"},
        {"per_hour": "0"},
        {"per_hour": "-1"},
        {"per_hour": "1e400"},
        {"per_hour": "٣"},
        {"processor_class": "gpu"},
        {"effective_from": "9999-12-31T23:59"},
        {"effective_from": ""},
    ):
        assert client.post("/costs", {**sent, **wrong}).status_code == 422, wrong
        assert client.post("/api/v1/cost-rates", {**sent, **wrong}, content_type="application/json").status_code == 422
    body = {**sent, "per_hour": "2.5", "processor_class": "host", "effective_from": "2026-01-01T00:00:00Z"}
    answer = client.post("/api/v1/cost-rates", body, content_type="application/json")
    assert (answer.status_code, answer.json()["per_hour"]) == (201, "2.5")
    listed = client.get("/api/v1/cost-rates").json()["results"]
    assert [one["processor_class"] for one in listed] == ["host", "lpu"]
