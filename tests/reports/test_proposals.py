"""What a what-if or a capacity plan proposes is applied through the fleet: seen first, undone as one, never against a sale."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_apply, fleet_edit, fleet_undo
from apps.fleet.current import document_now
from apps.fleet.models import FleetChange
from apps.reports.capacity_plans.services import capacity_plan_request
from apps.reports.changes import Change
from apps.reports.models import CapacityPlan, WhatIf
from apps.reports.proposals import document_of_plan, document_of_what_if, windows_held
from apps.reports.whatif import what_if_request
from apps.timetable.models import Window
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """Two devices, of which the first holds windows to come."""
    made = Scene(open_market(devices=2), cast, timezone.now())
    made.contract((made.program(interval=SECOND, latency=SECOND), 600), window=timedelta(hours=2))
    return made


def asked(scene: Scene, change: Change) -> WhatIf:
    found = what_if_request(change=change, trace=None, asked_by=scene.cast.admin, now=scene.now)
    found.finished_at, found.result = scene.now, []
    found.save(update_fields=["finished_at", "result"])
    return found


def planned(scene: Scene, kind: str, **facts: object) -> CapacityPlan:
    found = capacity_plan_request(asked_by=scene.cast.admin, now=scene.now)
    found.result = {"pools": [{"pool": "lpu-a", "proposals": [{"kind": kind, **facts}]}]}
    found.save(update_fields=["result"])
    return found


def test_a_what_if_is_applied_in_two_clicks_and_undone_to_the_digest(
    scene: Scene, as_user: Callable[[User], Client]
) -> None:
    browser, before = as_user(scene.cast.admin), document_now()
    asking = asked(scene, Change({"lpu-a": -1, "lpu2-b": 2}))
    assert f"/capacity/what-if/{asking.pk}/fleet" in browser.get(f"/capacity/what-if/{asking.pk}").content.decode()
    page = browser.get(f"/capacity/what-if/{asking.pk}/fleet")
    assert "1 device removed, 2 added: no reservation moves" in unescape(page.content.decode())
    context = page.context
    sent = {"text": context["text"], "digest": context["digest"], "note": context["shown"].note}
    browser.post("/fleet/apply", sent)
    after = document_now()
    (window,) = Window.objects.all()
    assert set(after.pools["lpu-a"].devices) == {window.device.name}  # the idle one went
    assert len(after.pools["lpu2-b"].devices) == 4
    change = FleetChange.objects.get()
    assert (change.note, len(change.moves)) == (f"what-if {asking.pk}", 0)
    browser.post("/fleet/changes/undo", {"digest": after.digest})
    assert document_now().digest == before.digest
    api = browser.get(f"/api/v1/capacity/what-if/{asking.pk}/fleet").json()
    assert api == {"expected": before.digest, "toml": sent["text"]}


def test_a_failed_site_is_refused_with_the_contracts_named(scene: Scene, as_user: Callable[[User], Client]) -> None:
    asking = asked(scene, Change(failed_sites=["here"]))
    page = as_user(scene.cast.admin).get(f"/capacity/what-if/{asking.pk}/fleet").content.decode()
    assert "Promises would break" in page
    assert str(Window.objects.get().reservation.contract_id) in page
    assert 'action="/fleet/apply"' not in page


def test_power_is_of_the_present_setting_and_of_processors_alone(scene: Scene) -> None:
    found = document_of_what_if(asked(scene, Change(power_percent=50)), now=scene.now)
    assert {slug: pool.power_percent for slug, pool in found.pools.items()} == {
        "lpu-a": 50,
        "lpu2-b": 50,
        "host-cpu": 100,
    }
    for change, kind in (
        (Change(power_percent=150), "proposal-outdated"),
        (Change(demand_factor=2), "proposal-empty"),
        (Change({"lpu-a": -3}), "change-invalid"),
    ):
        with pytest.raises(Problem) as refused:
            document_of_what_if(asked(scene, change), now=scene.now)
        assert refused.value.kind == kind


def test_a_proposal_is_applied_once_and_outdated_when_its_pool_has_changed(scene: Scene) -> None:
    """Of three devices one is needed; a second click may not leave none."""
    fleet_edit(edit=edits.devices_add("lpu-a", 1), actor=None, now=scene.now)
    plan, what_if = planned(scene, "spare", devices=1), asked(scene, Change({"lpu-a": -1}))
    weaker, elsewhere = asked(scene, Change(power_percent=50)), asked(scene, Change({"lpu-a": 0, "lpu2-b": 1}))
    later = scene.now + timedelta(seconds=1)
    document = document_of_plan(plan, pool="lpu-a", kind="spare", now=later)
    change = fleet_apply(document=document, expected=document_now().digest, actor=None, now=later, note="")
    for ask in (
        lambda: document_of_plan(plan, pool="lpu-a", kind="spare", now=later),
        lambda: document_of_what_if(what_if, now=later),
        lambda: document_of_what_if(weaker, now=later),
    ):
        with pytest.raises(
            Problem, match="has changed since this result was calculated: it now has 2 active devices"
        ) as refused:
            ask()
        assert refused.value.kind == "proposal-outdated"
    assert len(document_of_what_if(elsewhere, now=later).pools["lpu2-b"].devices) == 3
    fleet_undo(expected=change.after_digest, actor=None, now=later)
    assert document_of_plan(plan, pool="lpu-a", kind="spare", now=later).digest == document.digest


def test_proposals_of_a_capacity_plan_become_documents(scene: Scene) -> None:
    def document(kind: str, **facts: object) -> dict[str, str]:
        plan = planned(scene, kind, **facts)
        pool = document_of_plan(plan, pool="lpu-a", kind=kind, now=scene.now).pools["lpu-a"]
        return {**pool.devices, "power": str(pool.power_percent)}

    assert sum(windows_held(now=scene.now).values()) == 1
    busy = Window.objects.get().device.name
    assert [name for name, state in document("spare", devices=1).items() if state == "spare"] == [
        name for name in ("lpu-a-0", "lpu-a-1") if name != busy
    ]
    assert len(document("short", devices=3)) == 6
    assert document("power", share="3/4")["power"] == "75"
    with pytest.raises(Problem, match="has no proposal of kind"):
        document_of_plan(planned(scene, "short", devices=1), pool="lpu-a", kind="power", now=scene.now)
