"""Who may open the job pages and operations."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.dispatch.fleet import edits, fleet_edit
from compiler import targets
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market
from tests.tenancy import operation, page


def a_job(cast: Cast) -> dict[str, Any]:
    scene = Scene(open_market(), cast, timezone.now())
    return {"pk": scene.job(scene.contract((scene.program(), 20)), 4).pk}


def a_finished_job(cast: Cast) -> dict[str, Any]:
    scene = Scene(open_market(), cast, timezone.now())
    return {"pk": scene.run(scene.job(scene.contract((scene.program(), 20)), 4)).pk}


def a_contract(cast: Cast) -> dict[str, Any]:
    scene = Scene(open_market(), cast, timezone.now())
    return {"pk": scene.contract((scene.program(), 20)).pk}


def a_device(cast: Cast) -> dict[str, Any]:
    return {"pk": open_market().lpu.devices.get().pk, **a_pool(cast)}


def a_pool(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"slug": "lpu-a", "name": "lpu-a-0"}


def a_processor(cast: Cast) -> dict[str, Any]:
    fleet_edit(edit=edits.processor_set("chip", _chip("chip")), actor=None, now=timezone.now())
    return {"slug": "chip"}


def _chip(name: str) -> str:
    return targets.text("edge").replace('name = "edge"', f'name = "{name}"', 1)


def a_site(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"slug": "here"}


def a_change(cast: Cast) -> dict[str, Any]:
    change = fleet_edit(edit=edits.processor_set("changed", _chip("changed")), actor=None, now=timezone.now())
    assert change is not None
    return {"pk": change.pk}


FLEET_FILE = {"toml": 'format = "takt-fleet/1"'}
FLEET_EMPTY = {**FLEET_FILE, "expected": "0" * 64}

ROUTES = [
    page("/jobs"),
    page("/jobs/new", "GET", "POST", roles=ENGINEERING),
    page("/jobs/<uuid:pk>", make=a_job),
    page("/jobs/<uuid:pk>/name", "POST", roles=ENGINEERING, make=a_job),
    operation("PATCH /jobs/{uuid:pk}", roles=ENGINEERING, scope=Scope.RUN, make=a_job, body={"name": "Nightly batch"}),
    page("/jobs/<uuid:pk>/outputs", make=a_finished_job),
    page("/jobs/<uuid:pk>/labels", "POST", roles=ENGINEERING, make=a_finished_job),
    page("/jobs/<uuid:pk>/cancel", "POST", roles=ENGINEERING, make=a_job),
    page("/fleet/devices/<uuid:pk>/state", "POST", admin=True, make=a_device),
    page("/fleet/processors", "POST", admin=True),
    page("/fleet/pools/new", "GET", "POST", admin=True),
    page("/fleet/pools/<slug:slug>", "GET", "POST", admin=True, make=a_pool),
    page("/fleet/pools/<slug:slug>/devices", "POST", admin=True, make=a_pool),
    page("/fleet/sites/new", "GET", "POST", admin=True),
    page("/fleet/sites/<slug:slug>", "GET", "POST", admin=True, make=a_site),
    page("/fleet/file", "GET", "POST", admin=True),
    page("/fleet/apply", "POST", admin=True),
    page("/fleet/changes", admin=True),
    page("/fleet/changes/undo", "POST", admin=True),
    page("/fleet/changes/<int:pk>", admin=True, make=a_change),
    operation("GET /fleet", scope=Scope.ADMIN),
    operation("POST /fleet/check", scope=Scope.ADMIN, body=FLEET_FILE),
    operation("POST /fleet/diff", scope=Scope.ADMIN, body=FLEET_FILE),
    operation("POST /fleet/apply", scope=Scope.ADMIN, body=FLEET_EMPTY),
    operation("POST /fleet/undo", scope=Scope.ADMIN, body={"expected": "0" * 64}),
    operation("GET /fleet/changes", scope=Scope.ADMIN),
    operation("PUT /fleet/sites/{slug}", scope=Scope.ADMIN, make=a_site, body={"name": "Here"}),
    operation("DELETE /fleet/sites/{slug}", scope=Scope.ADMIN, make=a_site),
    operation("PUT /fleet/processors/{slug}", scope=Scope.ADMIN, make=a_pool, body={"file": "x"}),
    operation("DELETE /fleet/processors/{slug}", scope=Scope.ADMIN, make=a_processor),
    operation("PUT /fleet/pools/{slug}", scope=Scope.ADMIN, make=a_pool, body={}),
    operation("DELETE /fleet/pools/{slug}", scope=Scope.ADMIN, make=a_pool),
    operation("POST /fleet/pools/{slug}/costs", scope=Scope.ADMIN, make=a_pool, body={}),
    operation("POST /fleet/pools/{slug}/devices", scope=Scope.ADMIN, make=a_pool, body={"count": 1}),
    operation("PUT /fleet/pools/{slug}/devices/{name}", scope=Scope.ADMIN, make=a_pool, body={"state": "spare"}),
    operation("DELETE /fleet/pools/{slug}/devices/{name}", scope=Scope.ADMIN, make=a_pool),
    operation("GET /jobs"),
    operation("POST /jobs", roles=ENGINEERING, scope=Scope.RUN, body={"contract": "", "inputs": {}}),
    operation("POST /jobs/npz", roles=ENGINEERING, scope=Scope.RUN, body={}),
    operation("GET /jobs/{uuid:pk}", make=a_job),
    operation("GET /jobs/{uuid:pk}/blocks", make=a_job),
    operation("GET /jobs/{uuid:pk}/outputs", make=a_finished_job),
    operation("POST /jobs/{uuid:pk}/labels", roles=ENGINEERING, scope=Scope.RUN, make=a_finished_job),
    operation("GET /contracts/{uuid:pk}/promises", make=a_contract),
    operation("POST /jobs/{uuid:pk}/cancel", roles=ENGINEERING, scope=Scope.RUN, make=a_job),
]
