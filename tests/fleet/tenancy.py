"""Who may open the fleet's pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apps.fleet.models import Device
from tests.cast import Cast
from tests.fleet.pools import pool_make
from tests.tenancy import operation, page


def a_device(cast: Cast) -> dict[str, Any]:
    pool_make("lpu-a", devices=1, now=datetime(2026, 3, 1, tzinfo=UTC))
    return {"pk": Device.objects.get().pk}


ROUTES = [
    page("/targets"),
    page("/targets/<slug:name>", signed_in=True, make=lambda _: {"name": "lpu"}),
    page("/targets/<slug:name>/file", signed_in=True, make=lambda _: {"name": "lpu"}),
    page("/fleet", admin=True),
    page("/fleet/devices/<uuid:pk>/switch", "POST", admin=True, make=a_device),
    page("/fleet/devices/<uuid:pk>/retire", "POST", admin=True, make=a_device),
    operation("GET /pools"),
]
