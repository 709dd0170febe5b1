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
        administration = {subject: rows for subject, rows in groups.items() if _is_for_administrators(rows)}
        customers = {subject: rows for subject, rows in groups.items() if subject not in administration}
        parts = [("For customers", customers), ("For administrators", administration)]
        return render(request, "pages/reference.html", {"parts": parts, "site": settings.SITE_URL})


def _is_for_administrators(operations: list[Operation]) -> bool:
    needing = [one for one in operations if one.needs.startswith(f"scope {Scope.ADMIN.value}")]
    return 2 * len(needing) > len(operations)


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
