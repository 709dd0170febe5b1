"""The controller keeps what plans propose, and applies what its limits and the fleet allow, once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_edit, fleet_undo
from apps.fleet.current import document_now
from apps.fleet.models import FleetChange
from apps.reports.capacity_plans.services import capacity_plan_request
from apps.reports.controller import services
from apps.reports.controller.limits import Limits
from apps.reports.controller.rules import rule_set
from apps.reports.controller.services import proposal_apply, proposal_dismiss, proposals_keep
from apps.reports.models import CapacityPlan, ControllerProposal, ControllerRule
from apps.timetable.models import Window
from compiler import targets
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import NOW, open_market
from tests.tiers import some

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles
AT = datetime(2030, 1, 7, 12, 30, tzinfo=UTC)


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """Four devices of each pool and nothing sold."""
    market = open_market(devices=4)
    processor = market.processors["lpu"]
    processor.digest = targets.load("lpu").digest
    processor.save()
    return Scene(market, cast, NOW)


def planned(now: datetime, **pools: list[dict[str, Any]]) -> CapacityPlan:
    found = capacity_plan_request(asked_by=None, now=now)
    found.result = {"pools": [{"pool": slug.replace("_", "-"), "proposals": facts} for slug, facts in pools.items()]}
    found.save(update_fields=["result"])
    return found


def spare(devices: int, payback: int = 60) -> dict[str, Any]:
    return {"kind": "spare", "devices": devices, "payback_seconds": str(payback)}


def kept(scene: Scene, *facts: dict[str, Any], now: datetime = NOW) -> list[ControllerProposal]:
    return proposals_keep(plan=planned(now, lpu_a=list(facts)), now=now)


def allow(scene: Scene, mode: str = "applies", **limits: int) -> None:
    rule_set(pool=scene.market.lpu, mode=mode, limits=Limits(**limits), actor=scene.cast.admin, now=scene.now)


def by_itself(row: ControllerProposal, now: datetime = NOW) -> ControllerProposal:
    return proposal_apply(pk=row.pk, actor=None, expected=document_now().digest, now=now)


@contextmanager
def undone_afterwards() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


FACTS = st.one_of(
    st.builds(spare, st.integers(1, 2), st.sampled_from([60, 60, 9_000])),
    st.builds(lambda share: {"kind": "power", "share": share}, st.sampled_from(["3/4", "1/2"])),
    st.builds(lambda devices: {"kind": "short", "devices": devices}, st.integers(1, 2)),
)
HOURS = st.one_of(
    st.just((0, 24)),
    st.tuples(st.integers(0, 11), st.integers(12, 24)),
    st.tuples(st.integers(12, 23), st.integers(1, 11)),
)
LIMITS = st.builds(
    lambda low, high, devices, hours, payback: Limits(min(low, high), max(low, high), devices, *hours, payback),
    st.sampled_from([1, 50, 76]),
    st.sampled_from([50, 75, 100]),
    st.integers(1, 3),
    HOURS,
    st.integers(1, 3),
)
ROUNDS = st.lists(st.tuples(FACTS, st.sampled_from([0, 1, 7, 23, 25])), min_size=3, max_size=5)


PHASES = (Phase.reuse, Phase.generate)  # making a failure smaller would take minutes of the database


@settings(
    max_examples=some(15), deadline=None, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rounds=ROUNDS, limits=LIMITS, mode=st.sampled_from(["applies"] * 5 + ["off", "proposes"]))
def test_nothing_outside_the_limits_is_applied(
    scene: Scene, rounds: list[tuple[dict[str, Any], int]], limits: Limits, mode: str
) -> None:
    """Judged by the documents of the changes that were made, whatever plans propose and however often each is tried."""
    with undone_afterwards():
        rule_set(pool=scene.market.lpu, mode=mode, limits=limits, actor=scene.cast.admin, now=AT)
        fleet_edit(edit=edits.device_set("lpu-a", "lpu-a-3", "spare"), actor=None, now=AT)
        first, now, stuck = FleetChange.objects.count(), AT, []
        for facts, hours in rounds:
            now += timedelta(hours=hours)
            for row in kept(scene, facts, now=now):
                stuck += [row.pk]
                by_itself(row, now)
                with (
                    pytest.raises(Problem)
                    if ControllerProposal.objects.get(pk=row.pk).state != "open"
                    else undone_afterwards()
                ):
                    by_itself(row, now)
        changes = list(FleetChange.objects.order_by("id"))[first:]
        assert len(changes) == ControllerProposal.objects.filter(change__isnull=False).count()
        for change in changes:
            row = ControllerProposal.objects.get(change=change)
            old, new = change.before["pools"]["lpu-a"], change.after["pools"]["lpu-a"]
            assert mode == "applies"
            assert {**change.before["pools"], "lpu-a": new} == change.after["pools"]
            assert [one["name"] for one in old["devices"]] == [one["name"] for one in new["devices"]]
            if old["power_percent"] != new["power_percent"]:
                assert limits.power_least <= new["power_percent"] <= limits.power_most
            assert Fraction(row.facts.get("payback_seconds", 0)) <= limits.payback_hours * 3600
            hours_open = {
                (limits.from_hour + ahead) % 24 for ahead in range((limits.until_hour - limits.from_hour - 1) % 24 + 1)
            }
            assert change.at.hour in hours_open
            day = [
                one for one in changes if change.at - timedelta(hours=24) < one.at <= change.at and one.pk <= change.pk
            ]
            assert sum(_moved(one) for one in day) <= limits.devices_a_day


def _moved(change: FleetChange) -> int:
    states = (
        {one["name"]: one["state"] for one in side["pools"]["lpu-a"]["devices"]}
        for side in (change.before, change.after)
    )
    return len(set(next(states).items()) ^ set(next(states).items())) // 2


def test_a_turn_plans_applies_once_and_undoing_is_heeded(scene: Scene) -> None:
    """One program on four devices: a real plan proposes three spare; two of them may go, then three."""
    scene.contract(
        (scene.program(interval=SECOND // 1000, latency=SECOND // 500), 3_600_000), window=timedelta(hours=8)
    )
    times = (NOW + timedelta(minutes=1 + number) for number in range(100))

    def turn() -> CapacityPlan:
        made = services.controller_turn(clock=lambda: next(times))
        assert made is not None
        return made

    turn()
    opened = ControllerProposal.objects.get(kind="spare")
    assert (opened.state, opened.facts["devices"], opened.reason) == (
        "open",
        3,
        "The controller only proposes changes for this pool.",
    )
    allow(scene, devices_a_day=2)
    turn()
    opened.refresh_from_db()
    assert "3 devices would change state. At most 2 may change state in 24 hours" in opened.reason
    allow(scene, devices_a_day=3)
    before = document_now()
    plan = turn()
    opened.refresh_from_db()
    assert (opened.state, opened.moved, opened.plan_id) == ("applied", 3, plan.pk)
    assert opened.change is not None
    assert (opened.change.actor, opened.change.note) == (None, f"controller, capacity plan {plan.pk}")
    (entry,) = AuditEntry.objects.filter(action="controller.apply")
    assert (entry.actor, entry.detail["by"], entry.detail["fleet_change"]) == (None, "controller", opened.change.pk)
    busy = Window.objects.get().device.name
    pool = document_now().pools["lpu-a"].devices
    assert [name for name, state in pool.items() if state == "active"] == [busy]
    fleet_undo(actor=scene.cast.admin, now=next(times))
    assert document_now().digest == before.digest
    turn()  # three spare again: an administrator took that back
    assert FleetChange.objects.count() == ControllerProposal.objects.filter(kind="spare").count() == 1
    allow(scene, "off")
    rule_set(pool=scene.market.lpu2, mode="off", limits=Limits(), actor=scene.cast.admin, now=NOW)
    assert services.controller_turn(clock=lambda: next(times)) is None
    assert not ControllerProposal.objects.filter(state="open").exists()


def test_what_would_break_a_promise_is_refused_and_says_so(scene: Scene) -> None:
    contract = scene.contract((scene.program(interval=SECOND, latency=SECOND), 600))
    allow(scene, devices_a_day=9)
    (row,) = kept(scene, {"kind": "power", "share": "1/2"})
    before = document_now()
    for _ in range(2):
        done = by_itself(row)
        assert done.state == "refused"
        assert str(contract.pk) in done.reason
        assert document_now() == before
        (again,) = kept(scene, {"kind": "power", "share": "1/2"})
        assert (again.pk, again.state) == (row.pk, "open")
    assert AuditEntry.objects.filter(action="controller.refuse").count() == 1


def test_one_failure_does_not_stop_the_others(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for pool in (scene.market.lpu, scene.market.lpu2):
        rule_set(pool=pool, mode="applies", limits=Limits(), actor=scene.cast.admin, now=NOW)
    plan = planned(NOW, lpu_a=[spare(1)], lpu2_b=[spare(1)])
    monkeypatch.setattr(services, "capacity_plan_run", lambda **_: plan)
    real = services.document_of_plan

    def document(asked: CapacityPlan, *, pool: str, kind: str, now: datetime) -> Any:
        if pool == "lpu-a":
            raise ValueError("broken")
        return real(asked, pool=pool, kind=kind, now=now)

    monkeypatch.setattr(services, "document_of_plan", document)
    services.controller_turn(clock=lambda: NOW)
    states = {one.pool.slug: (one.state, one.reason) for one in ControllerProposal.objects.all()}
    assert states == {
        "lpu-a": ("open", "Applying the proposal failed. The log states the cause."),
        "lpu2-b": ("applied", ""),
    }
    monkeypatch.setattr(services, "document_of_plan", real)
    services.controller_turn(clock=lambda: NOW)
    assert ControllerProposal.objects.get(pool=scene.market.lpu).state == "applied"
    assert FleetChange.objects.count() == 2  # the other pool has had its device of the day


def test_an_administrator_sets_limits_sees_applies_and_dismisses(
    scene: Scene, as_user: Callable[[User], Client]
) -> None:
    browser = as_user(scene.cast.admin)
    place = "/capacity/controller/pools/lpu-a"
    sent = {"mode": "applies", **{name: getattr(Limits(), name) for name in Limits.__dataclass_fields__}}
    assert "50 to 100 %" in browser.get("/capacity/controller").content.decode()  # the limits of no stored rule
    wrong = browser.post(place, {**sent, "power_least": 80, "power_most": 60})
    assert (wrong.status_code, ControllerRule.objects.count()) == (422, 0)
    assert browser.post(place, {**sent, "power_least": 60}).status_code == 302
    assert ControllerRule.objects.get().power_least == 60
    assert "60 to 100 %" in browser.get("/capacity/controller").content.decode()
    first, second = kept(scene, spare(2), {"kind": "power", "share": "1/2"})
    assert browser.post(f"/capacity/controller/{second.pk}/dismiss").status_code == 302
    assert [one.pk for one in kept(scene, spare(2), {"kind": "power", "share": "1/2"})] == [first.pk]
    shown = browser.get(f"/capacity/controller/{first.pk}")
    assert f'action="/capacity/controller/{first.pk}"' in shown.content.decode()
    fleet_edit(edit=edits.devices_add("lpu-a", 1), actor=None, now=NOW)
    browser.post(f"/capacity/controller/{first.pk}", {"digest": shown.context["digest"]})
    first.refresh_from_db()
    assert (first.state, first.reason[:22]) == ("open", "The fleet has changed ")
    browser.post(f"/capacity/controller/{first.pk}", {"digest": document_now().digest})
    first.refresh_from_db()
    assert (first.state, first.settled_by, first.moved) == ("applied", scene.cast.admin, 2)
    for settled in (first, second):
        with pytest.raises(Problem, match="nothing was changed"):
            proposal_dismiss(pk=settled.pk, actor=scene.cast.admin, now=NOW)
    page = browser.get("/capacity/controller").content.decode()
    assert "dismissed" in page
    assert f"Change {first.change_id}" in page
    rows = browser.get("/api/v1/capacity/controller/proposals").json()["results"]
    assert {(one["kind"], one["state"]) for one in rows} == {("spare", "applied"), ("power", "dismissed")}
