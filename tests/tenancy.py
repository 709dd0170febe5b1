"""Who may open which address. Every room states its own in `tests/<room>/tenancy.py`; what is not stated fails.

    ROUTES = [
        page("/models", "GET", "POST"),
        page("/models/<uuid:pk>/delete", "POST", roles=ENGINEERING, make=lambda cast: {"pk": model_of(cast).pk}),
        operation("POST /models", roles=ENGINEERING, scope=Scope.BUILD, body={"name": "a"}),
        page("/capacity", admin=True),
        page("/share/<str:secret>", public=True),
        page("/sign-in/code", step=True),
    ]

`make(cast)` makes an object of `cast.organisation` and returns what the address needs to name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from apps.accounts.roles import ANY_ROLE, Role, Scope
from apps.config.api import api
from tests.cast import Cast

API = "/api/v1"
Make = Callable[[Cast], dict[str, Any]]


@dataclass(frozen=True)
class Route:
    """One method of one address and who may use it."""

    method: str
    path: str
    roles: frozenset[Role]
    scope: Scope | None
    public: bool
    signed_in: bool
    admin: bool
    make: Make | None
    body: dict[str, Any] | None
    step: bool = False
    own: bool = False

    @property
    def key(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def is_api(self) -> bool:
        return self.path.startswith(API)

    def address(self, values: dict[str, Any]) -> str:
        """The path with its parameters filled in."""
        return re.sub(r"[<{](?:\w+:)?(\w+)[>}]", lambda match: str(values[match.group(1)]), self.path)

    @property
    def parameters(self) -> list[str]:
        return re.findall(r"[<{](?:\w+:)?(\w+)[>}]", self.path)


def page(
    path: str,
    *methods: str,
    roles: frozenset[Role] = ANY_ROLE,
    make: Make | None = None,
    public: bool = False,
    signed_in: bool = False,
    admin: bool = False,
    step: bool = False,
    own: bool = False,
    body: dict[str, Any] | None = None,
) -> list[Route]:
    """A page, for members with `roles` unless it says `public`, `signed_in` (no organisation needed), `admin` or `step`:
    a step of a sign-in under way, which sends everybody else to its beginning. `own`: the object is a person's."""
    chosen = methods or ("GET",)
    return [
        Route(method, path, roles, None, public, signed_in or own, admin, make, body, step, own) for method in chosen
    ]


def operation(
    key: str,
    *,
    roles: frozenset[Role] = ANY_ROLE,
    scope: Scope | None = Scope.READ,
    make: Make | None = None,
    public: bool = False,
    body: dict[str, Any] | None = None,
) -> list[Route]:
    """An operation such as "GET /models/{uuid:pk}"; `Scope.ADMIN` makes it the administrator's, None anybody's."""
    method, path = key.split(" ", 1)
    return [Route(method, f"{API}{path}", roles, scope, public, scope is None, scope is Scope.ADMIN, make, body)]


def declared() -> list[Route]:
    """Every route that the rooms state."""
    routes: list[Route] = []
    for room in [*settings.ROOMS, "config"]:
        if find_spec(f"tests.{room}") and find_spec(f"tests.{room}.tenancy"):
            for group in import_module(f"tests.{room}.tenancy").ROUTES:
                routes.extend(group)
    return routes


def page_paths() -> set[str]:
    """Every address of the resolver except the API's."""
    return {path for path in _walk(get_resolver().url_patterns, "/") if not path.startswith(API)}


def _walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            yield path


def operation_keys() -> set[str]:
    """Every method and path of the API."""
    keys = set()
    for prefix, router in api._routers:
        for path, view in router.path_operations.items():
            for one in view.operations:
                full = f"{API}/{prefix}/{path}".replace("//", "/").replace("//", "/")
                full = full.replace("{uuidstr:", "{uuid:")  # ninja's own name for it
                keys |= {f"{method} {full}" for method in one.methods}
    return keys
