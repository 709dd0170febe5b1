"""Every address of the site, against everybody who should not get in. An address that nobody declared fails."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from apps.accounts import services
from apps.accounts.models import Organisation, User
from apps.accounts.roles import Role, Scope
from tests import tenancy
from tests.cast import Cast
from tests.tenancy import Route

ROUTES = tenancy.declared()
CLOSED = [route for route in ROUTES if not route.public and not route.step]
ADMIN = [route for route in CLOSED if route.admin]
ORGANISATION = [route for route in CLOSED if not route.admin and not route.signed_in]
OBJECTS = [route for route in CLOSED if route.make and (route.own or route in ORGANISATION)]
LIMITED = [(route, role) for route in ORGANISATION for role in Role if role not in route.roles]
PUBLIC = [route for route in ROUTES if route.public and route.path != "/metrics"]  # which asks for a token of its own
OPERATIONS = [route for route in CLOSED if route.is_api and route.scope is not None]

AsUser = Callable[[User], Client]


def name(value: Any) -> str:
    return value.key if isinstance(value, Route) else str(value)


def knock(client: Client, route: Route, values: dict[str, Any], **headers: str) -> HttpResponse:
    """Use the address; parameters that `values` lacks name something that does not exist."""
    address = route.address({parameter: uuid.uuid4() for parameter in route.parameters} | values)
    options: dict[str, Any] = {"headers": headers}
    if route.method != "GET":
        options |= {"data": route.body or {}}
        if route.is_api:
            options |= {"content_type": "application/json"}
    return getattr(client, route.method.lower())(address, **options)  # type: ignore[no-any-return]


def token_for(user: User, organisation: Organisation | None, *scopes: Scope) -> str:
    _, secret = services.token_create(user=user, organisation=organisation, name="t", scopes=scopes, now=timezone.now())
    return secret


def test_every_address_is_declared_once_and_no_declaration_is_stale() -> None:
    pages = {route.path for route in ROUTES if not route.is_api}
    undeclared, stale = "declare it in tests/<room>/tenancy.py", "no longer an address of the site"
    assert dict.fromkeys(tenancy.page_paths() - pages, undeclared) == {}
    assert dict.fromkeys(pages - tenancy.page_paths(), stale) == {}
    operations = [route.key for route in ROUTES if route.is_api]
    assert dict.fromkeys(tenancy.operation_keys() - set(operations), undeclared) == {}
    assert dict.fromkeys(set(operations) - tenancy.operation_keys(), stale) == {}
    keys = [route.key for route in ROUTES]
    assert sorted(keys) == sorted(set(keys))


def test_an_address_with_a_parameter_says_how_to_make_its_object() -> None:
    assert [route.key for route in ROUTES if route.parameters and not route.make and not route.admin] == []


@pytest.mark.parametrize("route", PUBLIC, ids=name)
def test_a_public_address_opens_without_a_sign_in(cast: Cast, route: Route) -> None:
    response = knock(Client(), route, route.make(cast) if route.make else {})
    assert response.status_code not in {302, 401, 403, 404}, response.status_code
    assert response.status_code < 500


@pytest.mark.parametrize("route", [route for route in ROUTES if route.step], ids=name)
def test_a_step_of_a_sign_in_leads_to_its_beginning(cast: Cast, route: Route) -> None:
    response = knock(Client(), route, {})
    assert (response.status_code, response["Location"]) == (302, "/sign-in")


@pytest.mark.parametrize("route", CLOSED, ids=name)
def test_an_anonymous_visitor_is_sent_away(cast: Cast, route: Route) -> None:
    response = knock(Client(), route, route.make(cast) if route.make else {})
    if route.is_api:
        assert response.status_code == 401
        assert response["Content-Type"] == "application/problem+json"
    else:
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in?next=")


@pytest.mark.parametrize("route", OBJECTS, ids=name)
def test_a_stranger_does_not_learn_that_the_object_exists(cast: Cast, as_user: AsUser, route: Route) -> None:
    assert route.make
    assert knock(as_user(cast.stranger), route, route.make(cast)).status_code == 404


@pytest.mark.parametrize(("route", "role"), LIMITED, ids=name)
def test_a_role_that_is_not_enough_is_refused(cast: Cast, as_user: AsUser, route: Route, role: Role) -> None:
    values = route.make(cast) if route.make else {}
    assert knock(as_user(cast.of_role(role)), route, values).status_code == 403


@pytest.mark.parametrize("route", ORGANISATION, ids=name)
def test_a_member_with_the_role_gets_in(cast: Cast, as_user: AsUser, route: Route) -> None:
    role = next(role for role in Role if role in route.roles)
    values = route.make(cast) if route.make else {}
    response = knock(as_user(cast.of_role(role)), route, values)
    assert response.status_code not in {401, 403, 404}, response.content[:300]
    assert response.status_code < 500


@pytest.mark.parametrize("route", ADMIN, ids=name)
def test_only_an_administrator_sees_the_administrators_pages(cast: Cast, as_user: AsUser, route: Route) -> None:
    values = route.make(cast) if route.make else {}
    assert knock(as_user(cast.owner), route, values).status_code == 404
    if route.make or not route.parameters:
        assert knock(as_user(cast.admin), route, values).status_code not in {401, 403, 404}


@pytest.mark.parametrize("route", OPERATIONS, ids=name)
def test_a_token_without_the_scope_is_refused(cast: Cast, route: Route) -> None:
    values = route.make(cast) if route.make else {}
    others = [scope for scope in Scope if scope not in {route.scope, Scope.ADMIN}]
    secret = token_for(cast.owner, cast.organisation, *others)
    response = knock(Client(), route, values, authorization=f"Bearer {secret}")
    assert response.status_code == (404 if route.admin else 403)


@pytest.mark.parametrize("route", [route for route in OBJECTS if route.is_api], ids=name)
def test_a_strangers_token_does_not_reach_the_object(cast: Cast, route: Route) -> None:
    assert route.make
    assert route.scope
    secret = token_for(
        cast.stranger, cast.stranger_organisation, *(scope for scope in Scope if scope is not Scope.ADMIN)
    )
    response = knock(Client(), route, route.make(cast), authorization=f"Bearer {secret}")
    assert response.status_code == 404


@pytest.mark.parametrize("route", [route for route in ADMIN if route.is_api], ids=name)
def test_an_administrators_token_opens_the_administrators_operations(cast: Cast, route: Route) -> None:
    values = route.make(cast) if route.make else {}
    secret = token_for(cast.admin, None, Scope.ADMIN)
    response = knock(Client(), route, values, authorization=f"Bearer {secret}")
    assert response.status_code not in {401, 403}
