"""Capacity plans: what contracts ask for, how few devices hold it, and what changing that would take."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.reports.capacity_plans import services
from apps.reports.capacity_plans.arithmetic import parts, pool_plan
from apps.reports.capacity_plans.facts import Load, PoolFacts, facts_at
from apps.reports.models import CapacityPlan
from compiler import targets
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import CLOCK, open_market


def load(name: str, duty: int, *, resident: int = 10, binary: int = 1_000) -> Load:
    """A program that takes `duty` cycles a second, ten executions of it."""
    return Load(name, name, 1, Fraction(10), duty // 10, duty // 10, 5, 5, resident, binary, 10**11)


def pool(*loads: Load, owned: int = 5) -> PoolFacts:
    return PoolFacts("p", owned, 1_000, 2_000, 2_000, 100, 5 * 10**13, Fraction(3), loads)


def test_a_pool_is_planned_by_hand_arithmetic() -> None:
    """Duties of 600, 400 and 1,500 of 1,000 cycles: the last is split in two of 750, and three devices hold the four."""
    seen: list[float] = []
    made = pool_plan(pool(load("a", 600), load("b", 400), load("c", 1_500)), progress=seen.append)
    assert (made["owned"], made["needed"], made["bound"], made["method"]) == (5, 3, 3, "configuration")
    assert sorted(row["programs"] for row in made["devices"]) == [[["a", "a", 1], ["b", "b", 1]], [["c", "c", 1]]]
    assert [(row["dimension"], row["asked"], row["share"]) for row in made["load"]] == [
        ("duty", 2_500, "1/2"),
        ("link in", 150, "3/200"),
        ("link out", 150, "3/200"),
        ("resident", 40, "2/25"),
    ]
    full, _, half, _ = made["power"]
    assert (half["share"], half["latency_factor"], half["needed"] >= 5) == ("1/2", "2", True)
    dynamic = 30 * Fraction(10**11, 10**15)
    assert Fraction(full["static_watts"]) == 50
    assert Fraction(full["watts"]) == 3 * 50 + dynamic
    spare = made["proposals"][0]
    assert (spare["kind"], spare["devices"], spare["saved_per_hour"]) == ("spare", 2, "6")
    assert (spare["moved_bytes"], spare["moved_seconds"], spare["payback_seconds"]) == (4_000, "2", "1")
    assert Fraction(spare["moved_cost"]) == Fraction(2 * 3, 3600)
    assert Fraction(spare["watts_saved"]) == 2 * 50
    assert seen == sorted(seen)


def test_too_few_devices_are_said_and_what_is_too_large_is_named() -> None:
    short = pool_plan(pool(load("a", 900), load("b", 900), owned=1), progress=lambda _: None)
    assert short["proposals"] == [{"kind": "short", "devices": 1}]
    large = pool_plan(pool(load("a", 900), load("huge", 10, resident=101)), progress=lambda _: None)
    assert (large["needed"], large["bound"], large["too_large"], large["proposals"]) == (1, 1, ["huge"], [])


def test_many_programs_are_packed_at_once_beside_the_sum_of_demands() -> None:
    loads = [load(f"p{number}", 300 + number, resident=1) for number in range(41)]
    made = pool_plan(pool(*loads), progress=lambda _: None)
    assert made["method"] == "dot-product"
    assert 13 == made["bound"] <= made["needed"]
    assert parts(load("x", 2_010), (1_000, 2_000, 2_000, 100)) == 3


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """Two devices of each pool; the processor is the one that is offered."""
    market = open_market(devices=2)
    processor = market.processors["lpu"]
    processor.digest = targets.load("lpu").digest
    processor.save()
    return Scene(market, cast, timezone.now())


def test_contracts_in_force_become_loads(scene: Scene) -> None:
    program = scene.program(interval=CLOCK // 1000, latency=CLOCK // 500)
    for executions in (36_000, 18_000):
        scene.contract((program, executions), window=timedelta(hours=2))
    facts = facts_at(now=scene.now + timedelta(minutes=1), currency="EUR")
    found = next(one for one in facts.pools if one.slug == "lpu-a")
    assert (found.owned, found.clock, found.link_in) == (2, CLOCK, 32 * CLOCK)
    (one,) = found.loads
    assert (one.contracts, one.rate, one.bytes_in, one.resident) == (2, Fraction(54_000, 7_200), 16, 35)
    assert any("host-cpu is a host" in said for said in facts.left_out)
    later = facts_at(now=scene.now + timedelta(hours=3), currency="EUR")
    assert next(one for one in later.pools if one.slug == "lpu-a").loads == ()
    assert later.digest != facts.digest == facts_at(now=scene.now + timedelta(minutes=1), currency="EUR").digest


def test_a_plan_is_asked_for_watched_read_and_cancelled(
    scene: Scene, as_user: Callable[[User], Client], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> None:
    scene.contract((scene.program(interval=CLOCK // 1000, latency=CLOCK // 500), 36_000))
    client = as_user(scene.cast.admin)
    with django_capture_on_commit_callbacks():  # the worker comes later
        place = client.post("/capacity/plan")["Location"]
    assert "0 % done" in client.get(place).content.decode()
    pk = CapacityPlan.objects.get().pk
    for _ in range(2):
        done = services.capacity_plan_run(pk=pk, now=timezone.now())
    assert done.result is not None
    assert (done.percent, len(done.inputs_digest)) == (100, 64)
    page = client.get(place).content.decode()
    assert "1 could be spare" in page
    assert "Currently, a device runs one program at a time" in page
    assert client.get("/capacity/plan").status_code == 200
    answer = client.get(f"/api/v1/capacity/plans/{pk}").json()
    assert json.loads(client.get(f"{place}?format=json").content)["pools"] == answer["result"]["pools"]
    rows = list(csv.DictReader(io.StringIO(client.get(f"{place}?format=csv").content.decode())))
    assert {(row["pool"], row["owned"], row["needed"]) for row in rows if row["share"] == "1.000000"} == {
        ("lpu-a", "2", "1")
    }
    with pytest.raises(Problem, match="it cannot be cancelled"):
        services.capacity_plan_cancel(pk=pk, actor=scene.cast.admin, now=timezone.now())
    with django_capture_on_commit_callbacks():
        asked = client.post("/api/v1/capacity/plans", content_type="application/json").json()
    assert client.post(f"/capacity/plan/{asked['id']}/cancel").status_code == 302
    stopped = services.capacity_plan_run(pk=asked["id"], now=timezone.now())
    assert (stopped.is_cancelled, stopped.result) == (True, None)
    assert "was cancelled" in client.get(f"/capacity/plan/{asked['id']}").content.decode()


def test_a_plan_that_is_cancelled_while_it_is_made_stops(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.contract((scene.program(interval=CLOCK // 1000, latency=CLOCK // 500), 36_000))
    asked = services.capacity_plan_request(asked_by=None, now=scene.now)
    planned, whole = services.pool_plan, []

    def meanwhile(*given: object, **named: object) -> object:
        services.capacity_plan_cancel(pk=asked.pk, actor=scene.cast.admin, now=scene.now)
        whole.append(planned(*given, **named))  # type: ignore[arg-type]
        return whole[-1]

    monkeypatch.setattr(services, "pool_plan", meanwhile)
    assert services.capacity_plan_run(pk=asked.pk, now=scene.now).result is None
    assert whole == []


def test_one_plan_a_night(scene: Scene) -> None:
    first = services.capacity_plan_nightly(now=scene.now)
    assert first is not None
    assert first.result is not None
    assert services.capacity_plan_nightly(now=scene.now + timedelta(hours=1)) is None
    assert services.capacity_plan_nightly(now=scene.now + timedelta(hours=24)) is not None
