"""Who may open the fleet's pages."""

from __future__ import annotations

from tests.tenancy import operation, page

ROUTES = [
    page("/targets"),
    page("/targets/<slug:name>", signed_in=True, make=lambda _: {"name": "lpu"}),
    page("/targets/<slug:name>/file", signed_in=True, make=lambda _: {"name": "lpu"}),
    page("/fleet", admin=True),
    operation("GET /pools"),
]
