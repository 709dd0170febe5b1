"""Every address of the site, against everybody who should not get in. An address that nobody declared fails."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from apps.accounts import services
from apps.accounts.models import Organisation, User
from apps.accounts.roles import Role, Scope
from tests import tenancy
from tests.cast import Browsers, Cast
from tests.tenancy import Route

ROUTES = tenancy.declared()
CLOSED = [route for route in ROUTES if not route.public and not route.step]
PUBLIC = [route for route in ROUTES if route.public and route.path != "/metrics"]  # which asks for a token of its own


@pytest.fixture(scope="module")
def browsers(shared_cast: Cast) -> Browsers:
    return Browsers(shared_cast)


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
def test_a_public_address_opens_without_a_sign_in(cast: Cast, browsers: Browsers, route: Route) -> None:
    response = knock(browsers(), route, route.make(cast) if route.make else {})
    assert response.status_code not in {302, 401, 403, 404}, response.status_code
    assert response.status_code < 500


@pytest.mark.parametrize("route", [route for route in ROUTES if route.step], ids=name)
def test_a_step_of_a_sign_in_leads_to_its_beginning(cast: Cast, browsers: Browsers, route: Route) -> None:
    response = knock(browsers(), route, {})
    assert (response.status_code, response["Location"]) == (302, "/sign-in")


@pytest.mark.parametrize("route", CLOSED, ids=name)
def test_an_address_opens_to_those_who_may_and_to_nobody_else(cast: Cast, browsers: Browsers, route: Route) -> None:
    """First all who are refused, which changes nothing, then who gets in: the object is made once."""
    values = route.make(cast) if route.make else {}
    anonymous(browsers, route, values)
    if route.make and (route.own or of_organisation(route)):
        strangers(cast, browsers, route, values)
    if route.is_api and route.scope is not None:
        without_scope(cast, browsers, route, values)
    if route.admin:
        administrators(cast, browsers, route, values)
    elif of_organisation(route):
        members(cast, browsers, route, values)


def of_organisation(route: Route) -> bool:
    return not route.admin and not route.signed_in


def anonymous(browsers: Browsers, route: Route, values: dict[str, Any]) -> None:
    """Nobody in particular is sent away."""
    response = knock(browsers(), route, values)
    if route.is_api:
        assert response.status_code == 401
        assert response["Content-Type"] == "application/problem+json"
    else:
        assert response.status_code == 302
        assert response["Location"].startswith("/sign-in?next=")


def strangers(cast: Cast, browsers: Browsers, route: Route, values: dict[str, Any]) -> None:
    """A stranger does not learn that the object exists, with a token of every scope neither."""
    assert knock(browsers(cast.stranger), route, values).status_code == 404, "a stranger"
    if route.is_api:
        assert route.scope
        scopes = (scope for scope in Scope if scope is not Scope.ADMIN)
        secret = token_for(cast.stranger, cast.stranger_organisation, *scopes)
        response = knock(browsers(), route, values, authorization=f"Bearer {secret}")
        assert response.status_code == 404, "a stranger's token"


def without_scope(cast: Cast, browsers: Browsers, route: Route, values: dict[str, Any]) -> None:
    """A token without the scope is refused."""
    others = [scope for scope in Scope if scope not in {route.scope, Scope.ADMIN}]
    secret = token_for(cast.owner, cast.organisation, *others)
    response = knock(browsers(), route, values, authorization=f"Bearer {secret}")
    assert response.status_code == (404 if route.admin else 403), "a token without the scope"


def members(cast: Cast, browsers: Browsers, route: Route, values: dict[str, Any]) -> None:
    """A role that is not enough is refused; a member with the role gets in."""
    for role in Role:
        if role not in route.roles:
            assert knock(browsers(cast.of_role(role)), route, values).status_code == 403, role
    role = next(role for role in Role if role in route.roles)
    response = knock(browsers(cast.of_role(role)), route, values)
    assert response.status_code not in {401, 403, 404}, response.content[:300]
    assert response.status_code < 500


def administrators(cast: Cast, browsers: Browsers, route: Route, values: dict[str, Any]) -> None:
    """Only an administrator sees the administrators' pages, and an administrator's token opens their operations."""
    assert knock(browsers(cast.owner), route, values).status_code == 404, "an owner"
    if route.make or not route.parameters:
        assert knock(browsers(cast.admin), route, values).status_code not in {401, 403, 404}
    if route.is_api:
        secret = token_for(cast.admin, None, Scope.ADMIN)
        response = knock(browsers(), route, values, authorization=f"Bearer {secret}")
        assert response.status_code not in {401, 403}
