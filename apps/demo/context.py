"""The template context about demo visits and sample data."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.accounts.models import Organisation, User
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
    `sampled`: the organisations that have sample data; set only for administrators.
    """
    if not isinstance(getattr(request, "user", None), User):
        return {"can_visit": request.path == "/" and visit_open()}
    found: dict[str, Any] = {"is_visit": getattr(request, "visit", False)}
    if request.path.startswith(READ_BY_ADMINISTRATORS) and principal_get(request).is_platform_admin:
        found["sampled"] = list(Organisation.objects.filter(sample_until__isnull=False).order_by("name"))
    return found
