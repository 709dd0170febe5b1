"""The template context about demo visits and sample data."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.accounts.models import Organisation, User
from apps.demo.month import visit_awaited
from apps.demo.visitors import visit_open

READ_BY_ADMINISTRATORS = (
    "/capacity",
    "/reports",
    "/revenue",
    "/costs",
    "/customers",
    "/payments",
    "/reconciliations",
    "/outbox",
    "/stripe",
)


def demo(request: HttpRequest) -> dict[str, Any]:
    """Return the demo's template context.

    `is_visit`: whether the reader is a visitor. `can_visit`: whether a visit can begin; set only on the landing page.
    `visit_awaited`: whether the sample data for visits is still being made; set only where no visit can begin yet.
    `sampled`: the organisations that have sample data; set only for administrators.
    """
    if not isinstance(getattr(request, "user", None), User):
        return _landing() if request.path == "/" else {"can_visit": False}
    found: dict[str, Any] = {"is_visit": getattr(request, "visit", False)}
    if request.path.startswith(READ_BY_ADMINISTRATORS) and principal_get(request).is_platform_admin:
        found["sampled"] = list(Organisation.objects.filter(sample_until__isnull=False).order_by("name"))
    return found


def _landing() -> dict[str, Any]:
    return {"can_visit": True} if visit_open() else {"can_visit": False, "visit_awaited": visit_awaited()}
