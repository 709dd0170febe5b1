"""The template context of every page: the current organisation and the person's other organisations."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse

from apps.accounts.access import principal_get
from apps.accounts.models import Organisation, User


def place(request: HttpRequest) -> dict[str, Any]:
    """Return the template context about the organisation: `organisation`, `organisations`, `role` and
    `is_platform_admin`.
    """
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


def sign_in(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of the sign-in pages."""
    return {
        "mail_page": reverse("accounts:mailbox") if settings.MAIL_FOLDER else "",
        "provider_name": settings.OIDC_NAME if settings.OIDC_SERVER != "none" else "",
    }
