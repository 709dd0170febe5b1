"""Renders the API reference. Ninja's own page loads its viewer from another site, which our content security policy
forbids.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from apps.accounts.auth import BearerToken
from apps.accounts.roles import ANY_ROLE, Scope
from apps.config.reference.operations import Operation, operations


class Reference(DocsBase):
    """The API's documentation page."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Render every operation with its fields, response and examples."""
        groups = _groups(api)
        parts = [
            ("For customers", "subject", _part(groups, for_administrators=False)),
            ("For administrators", "administration", _part(groups, for_administrators=True)),
        ]
        return render(request, "pages/reference.html", {"parts": parts, "site": settings.SITE_URL})


def _part(groups: dict[str, list[Operation]], *, for_administrators: bool) -> dict[str, list[Operation]]:
    """Return the operations that need the scope of administrators, or all others, by subject."""
    scope = f"scope {Scope.ADMIN.value}"
    chosen = {
        subject: [one for one in rows if one.needs.startswith(scope) == for_administrators]
        for subject, rows in groups.items()
    }
    return {subject: rows for subject, rows in chosen.items() if rows}


@cache
def _groups(api: NinjaAPI) -> dict[str, list[Operation]]:
    return operations(api.get_openapi_schema(), site=settings.SITE_URL, needs=_needs(api))


def _needs(api: NinjaAPI) -> dict[str, str]:
    found: dict[str, str] = {}
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                full = "/" + f"api/v1/{prefix}/{path}".replace("//", "/").replace("//", "/")
                for kind in ("uuidstr:", "uuid:", "int:", "str:", "slug:", "path:"):
                    full = full.replace("{" + kind, "{")
                callers = [one for one in operation.auth_callbacks if isinstance(one, BearerToken)]
                for method in operation.methods:
                    found[f"{method} {full}"] = _needed(callers[0]) if callers else "no sign-in"
    return found


def _needed(caller: BearerToken) -> str:
    if caller.scope is None:
        return "any token"
    if caller.scope is Scope.ADMIN or caller.roles == ANY_ROLE:
        return f"scope {caller.scope.value}"
    roles = ", ".join(sorted(role.label.lower() for role in caller.roles))
    return f"scope {caller.scope.value}; role {roles}"
