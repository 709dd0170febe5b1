"""Who may open the job pages and operations."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
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


ROUTES = [
    page("/jobs"),
    page("/jobs/new", "GET", "POST", roles=ENGINEERING),
    page("/jobs/<uuid:pk>", make=a_job),
    page("/jobs/<uuid:pk>/outputs", make=a_finished_job),
    page("/jobs/<uuid:pk>/cancel", "POST", roles=ENGINEERING, make=a_job),
    operation("GET /jobs"),
    operation("POST /jobs", roles=ENGINEERING, scope=Scope.RUN, body={"contract": "", "inputs": {}}),
    operation("POST /jobs/npz", roles=ENGINEERING, scope=Scope.RUN, body={}),
    operation("GET /jobs/{uuid:pk}", make=a_job),
    operation("GET /jobs/{uuid:pk}/blocks", make=a_job),
    operation("GET /jobs/{uuid:pk}/outputs", make=a_finished_job),
    operation("POST /jobs/{uuid:pk}/cancel", roles=ENGINEERING, scope=Scope.RUN, make=a_job),
]
