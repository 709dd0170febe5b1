"""Renders the reference in the place where ninja would load a viewer from elsewhere, which the content policy forbids."""

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
    """`NinjaAPI(docs=Reference(), docs_url="/docs")`."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        """Every operation with its fields, its answer and its examples."""
        return render(request, "pages/reference.html", {"groups": _groups(api)})


@cache
def _groups(api: NinjaAPI) -> dict[str, list[Operation]]:
    """The document is the same for as long as the process lives."""
    return operations(api.get_openapi_schema(), site=settings.SITE_URL, needs=_needs(api))


def _needs(api: NinjaAPI) -> dict[str, str]:
    """What each operation asks of its caller, from the operation's own `auth=`."""
    found: dict[str, str] = {}
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for operation in view.operations:
                full = "/" + f"api/v1/{prefix}/{path}".replace("//", "/").replace("//", "/")
                for kind in ("uuidstr:", "uuid:", "int:", "str:", "slug:", "path:"):
                    full = full.replace("{" + kind, "{")
                callers = [one for one in operation.auth_callbacks if isinstance(one, BearerToken)]
                for method in operation.methods:
                    found[f"{method} {full}"] = _said(callers[0]) if callers else "no sign-in"
    return found


def _said(caller: BearerToken) -> str:
    if caller.scope is None:
        return "any token"
    if caller.scope is Scope.ADMIN or caller.roles == ANY_ROLE:
        return f"scope {caller.scope.value}"
    roles = ", ".join(sorted(role.label.lower() for role in caller.roles))
    return f"scope {caller.scope.value}; role {roles}"
