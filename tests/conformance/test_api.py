"""Generated requests against every operation of the API, held to the OpenAPI document that it publishes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as given_settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from apps.accounts.models import Organisation, User
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.config.wsgi import application
from tests import tenancy
from tests.cast import Cast
from tests.openapi import DOCUMENT
from tests.tenancy import Route
from tests.tiers import some

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXAMPLES = some(8)
# The operations that the document describes, each with what the tenancy table says of it.
ROUTES = {route.key: route for route in tenancy.declared() if route.is_api}
OPERATIONS = sorted((method.upper(), path) for path, methods in DOCUMENT["paths"].items() for method in methods)


def route_of(method: str, path: str) -> Route:
    """The declaration of an operation; the document writes {pk} where Django writes {uuid:pk}."""
    wanted = (method, path)
    found = [route for route in ROUTES.values() if (route.method, _plain(route.path)) == wanted]
    assert found, f"declare {method} {path} in tests/<room>/tenancy.py"
    return found[0]


def _plain(path: str) -> str:
    head, *rest = path.split("{")
    return head + "".join("{" + part.split(":", 1)[-1] if ":" in part.split("}")[0] else "{" + part for part in rest)


@pytest.fixture(autouse=True)
def _one_connection() -> Iterator[None]:
    """A WSGI server closes the database connection around a request; here it holds the test's transaction."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@cache
def published() -> Any:
    """The document as the site serves it, read once."""
    return schemathesis.openapi.from_wsgi("/api/v1/openapi.json", application)


def test_the_document_is_openapi_3_1_and_public(db: None) -> None:
    response = Client().get("/api/v1/openapi.json")
    assert response.status_code == 200
    assert response.json()["openapi"] == "3.1.0"


def test_every_operation_declares_its_refusals_as_problems_and_has_a_name_of_its_own() -> None:
    names = []
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            names.append(operation["operationId"])
            for status, response in operation["responses"].items():
                kinds = set(response.get("content", {}))
                assert status.startswith(("2", "3")) or kinds == {"application/problem+json"}
    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda value: value)
def test_any_request_is_answered_as_the_document_says(cast: Cast, method: str, path: str) -> None:
    operation = published()[path][method]
    route = route_of(method, path)
    values = {name: str(value) for name, value in (route.make(cast) if route.make else {}).items()}
    headers = {"Authorization": f"Bearer {_secret(cast, route)}"}

    @given(case=operation.as_strategy())
    @given_settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any) -> None:
        case.path_parameters = {**(case.path_parameters or {}), **values}
        case.call_and_validate(headers=headers, checks=CHECKS)

    ask()


def _secret(cast: Cast, route: Route) -> str:
    user: User = cast.admin if route.admin else cast.owner
    organisation: Organisation | None = None if route.admin else cast.organisation
    scopes = [Scope.ADMIN] if route.admin else [scope for scope in Scope if scope is not Scope.ADMIN]
    _, secret = token_create(user=user, organisation=organisation, name="t", scopes=scopes, now=timezone.now())
    return secret
