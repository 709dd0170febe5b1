"""What every page shows about the person: the organisation worked in and the others to switch to."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.accounts.models import Organisation, User


def place(request: HttpRequest) -> dict[str, Any]:
    """`organisation`, `organisations`, `role` and `is_platform_admin` for the templates."""
    if not isinstance(getattr(request, "user", None), User):
        return {"organisation": None, "organisations": [], "role": None, "is_platform_admin": False}
    principal = principal_get(request)
    organisations = list(Organisation.objects.filter(pk__in=principal.memberships).order_by("name"))
    return {
        "organisation": next((one for one in organisations if one.pk == principal.current), None),
        "organisations": organisations,
        "role": principal.memberships.get(principal.current) if principal.current else None,
        "is_platform_admin": principal.is_platform_admin,
    }
