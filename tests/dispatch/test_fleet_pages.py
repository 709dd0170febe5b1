"""The administrator's pages of the fleet, and the same over the API."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.models import AuditEntry, User
from apps.fleet.current import document_now
from apps.fleet.models import Device, FleetChange, Pool
from tests.dispatch.scene import Scene

pytestmark = pytest.mark.django_db
SignIn = Callable[[User], Client]


@pytest.fixture
def browser(scene: Scene, as_user: SignIn) -> Client:
    return as_user(scene.cast.admin)


def said(browser: Client) -> str:
    return unescape(browser.get("/fleet").content.decode())


def test_pools_devices_sites_and_costs_are_made_and_changed_on_pages(scene: Scene, browser: Client) -> None:
    browser.post("/fleet/sites/new", {"slug": "alps", "name": "Alps", "time_zone": "Europe/Zurich"})
    sent = {"slug": "lpu-c", "name": "Pool C", "site": "alps", "processor": "lpu", "devices": 2}
    assert browser.post("/fleet/pools/new", sent).status_code == 302
    assert browser.post("/fleet/pools/new", sent).status_code == 422
    browser.post("/fleet/pools/lpu-c/devices", {"count": 1, "state": "spare"})
    device = Device.objects.get(name="lpu-c-0")
    browser.post(f"/fleet/devices/{device.pk}/state", {"state": "retired"})
    cost = {
        "action": "cost",
        "begins": "2026-01-01T00:00",
        "currency": "EUR",
        "capital": "1460",
        "months": "2",
        "watts": "0",
        "energy_price": "0",
        "pue": "1",
    }
    assert browser.post("/fleet/pools/lpu-c", cost).status_code == 302
    assert "€ 1.00" in unescape(browser.get("/fleet/pools/lpu-c").content.decode()).replace("\xa0", " ").replace(
        "\u202f", " "
    )
    assert browser.post("/fleet/pools/lpu-c", {**cost, "capital": "-1"}).status_code == 422
    pool = document_now().pools["lpu-c"]
    assert pool.devices == {"lpu-c-1": "active", "lpu-c-2": "spare"}
    assert (pool.site, pool.klass, pool.costs[0].per_hour) == ("alps", "lpu", 1)
    refused = browser.post("/fleet/sites/alps", {"action": "remove"})
    assert "there is no site 'alps'" in unescape(refused.content.decode())
    browser.post("/fleet/pools/lpu-c", {"action": "remove"})
    assert not Pool.objects.get(slug="lpu-c").is_active
    assert (
        AuditEntry.objects.filter(action="fleet.change", actor=scene.cast.admin).count() == FleetChange.objects.count()
    )


def test_a_file_is_shown_as_a_difference_applied_and_undone(scene: Scene, browser: Client) -> None:
    before = document_now()
    text = browser.get("/fleet/file").content.decode()
    browser.post("/fleet/devices/{}/state".format(Device.objects.get(name="lpu2-b-0").pk), {"state": "spare"})
    upload = SimpleUploadedFile("fleet.toml", text.encode())
    page = browser.post("/fleet/file", {"file": upload})
    assert "1 device put in service: no reservation moves or is lost." in page.content.decode()
    sent = {"text": page.context["text"], "digest": page.context["digest"]}
    browser.post("/fleet/apply", {**sent, "digest": "0" * 64})
    assert "Somebody changed the fleet" in said(browser)
    browser.post("/fleet/apply", sent)
    assert document_now() == before
    browser.post("/fleet/changes/undo", {"digest": before.digest})
    history = browser.get("/fleet/changes").content.decode()
    assert "undone" in history
    assert document_now().pools["lpu2-b"].devices["lpu2-b-0"] == "spare"
    wrong = SimpleUploadedFile("fleet.toml", b'format = "takt-fleet/1"\n[pools.x]\nsite = "no"\nprocessor = "lpu"')
    page = browser.post("/fleet/file", {"file": wrong})
    assert page.status_code == 422
    assert "pools.x.site" in page.content.decode()


def test_the_api_changes_the_fleet_by_digest(scene: Scene, browser: Client) -> None:
    fleet = browser.get("/api/v1/fleet").json()
    smaller = fleet["toml"].replace("devices = 2", "devices = 1", 1)
    json = {"content_type": "application/json"}
    told = browser.post("/api/v1/fleet/diff", {"toml": smaller}, **json).json()
    assert [one["verb"] for one in told["changes"]] == ["removed"]
    stale = browser.post("/api/v1/fleet/apply", {"toml": smaller, "expected": "0" * 64}, **json)
    assert (stale.status_code, stale.json()["code"]) == (409, "fleet-changed")
    done = browser.post("/api/v1/fleet/apply", {"toml": smaller, "expected": fleet["digest"]}, **json).json()
    assert done["digest"] == told["after"] == done["change"]["after"]
    faults = browser.post("/api/v1/fleet/check", {"toml": "x = 1"}, **json)
    assert (faults.status_code, faults.json()["errors"][0]["place"]) == (422, "x")
    undone = browser.post("/api/v1/fleet/undo", {"expected": done["digest"]}, **json).json()
    assert undone["digest"] == fleet["digest"]
    edit = browser.put("/api/v1/fleet/pools/lpu-a/devices/lpu-a-0", {"state": "off"}, **json)
    assert "write one of active, draining, failed, spare" in edit.json()["detail"]
    assert browser.put("/api/v1/fleet/pools/lpu-a/devices/lpu-a-0", {"state": "spare"}, **json).status_code == 200
    assert browser.delete("/api/v1/fleet/pools/lpu-a/devices/none").status_code == 404
    assert browser.get("/api/v1/fleet/changes").json()["results"][0]["by"] == scene.cast.admin.email
