"""Visitors read the demo organisation and nothing else: every address of the site, with every method."""

from __future__ import annotations

import re
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core import signing
from django.core.cache import cache
from django.db import connection, transaction
from django.http import HttpResponse
from django.test import Client
from django.test.client import ClientHandler
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.accounts import services
from apps.accounts.models import Membership, Organisation, User
from apps.accounts.rates import Rate
from apps.accounts.roles import Role, Scope
from apps.demo import middleware
from apps.demo.visitors import COOKIE, EMAIL, LASTS, SALT, VISITS, visitor_make
from tests import tenancy
from tests.cast import PASSWORD, Cast
from tests.sales.market import open_market
from tests.tenancy import Route
from tests.tiers import WHOLE

Methods = dict[str, Route]  # what is declared of one address, by method

# By the first part of their addresses, then by address: a test makes its people once for all of them.
PLACES: dict[str, dict[str, Methods]] = {}
for declared in tenancy.declared():
    place_of = PLACES.setdefault(declared.path.removeprefix(tenancy.API).split("/")[1] or "landing", {})
    place_of.setdefault(declared.path, {})[declared.method] = declared
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
CHANGES = ("POST", "PUT", "PATCH", "DELETE")


@pytest.fixture
def prices(db: None) -> None:
    """A price book is in force, as the portal needs."""
    open_market()


@pytest.fixture(autouse=True)
def _many_pages(monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper) -> None:
    settings.DEMO_VISITORS = True
    monkeypatch.setattr(middleware, "PAGES", Rate("demo page in tests", 10**6, 60))


def opened(organisation: Organisation) -> Organisation:
    """The organisation as the demo that strangers may look around in."""
    organisation.sample_until = timezone.now()
    organisation.save(update_fields=["sample_until"])
    visitor_make(organisation=organisation, now=timezone.now())
    return organisation


def visitor(handler: ClientHandler | None = None) -> Client:
    """A browser with a visit."""
    client = Client()
    client.handler = handler or client.handler
    client.cookies[COOKIE] = signing.dumps("visit", salt=SALT)
    return client


def ask(client: Client, method: str, route: Route, values: dict[str, Any]) -> HttpResponse:
    address = route.address({parameter: uuid.uuid4() for parameter in route.parameters} | values)
    options: dict[str, Any] = {}
    if method in CHANGES:
        kind = "application/json" if route.is_api or method != "POST" else None
        options = {"data": route.body or {}, **({"content_type": kind} if kind else {})}
    return getattr(client, method.lower())(address, **options)  # type: ignore[no-any-return]


def written() -> dict[str, tuple[int, ...]]:
    """What this transaction has inserted, updated and deleted so far, by table."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_xact_user_tables")
        return {row[0]: tuple(row[1:]) for row in cursor.fetchall() if any(row[1:])}


def text_of(response: HttpResponse) -> str:
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]
    return bytes(body).decode("utf-8", "replace")


@pytest.mark.parametrize("place", PLACES)
def test_a_visitor_changes_nothing_and_sees_nothing_of_people_or_of_others(cast: Cast, place: str) -> None:
    """The demo's own objects with every method, then the same objects as those of somebody else."""
    handler = Client().handler  # makes the middleware once
    for methods in PLACES[place].values():
        with transaction.atomic():
            _visited(cast, methods, handler)
            transaction.set_rollback(True)
        cache.clear()


def _visited(cast: Cast, declared: Methods, handler: ClientHandler) -> None:
    """Every method in the whole; otherwise those that are declared, and one that reads and one that changes."""
    first = next(iter(declared.values()))
    values = next((route.make(cast) for route in declared.values() if route.make), {})
    _, secret = services.token_create(
        user=cast.owner, organisation=cast.organisation, name="t", scopes=[Scope.READ], now=timezone.now()
    )
    opened(cast.organisation)
    before = written()
    for method in METHODS if WHOLE else dict.fromkeys(("GET", "POST", *declared)):
        route = declared.get(method, first)
        response = ask(visitor(handler), method, route, values)
        asked = f"{method} of {route.key}"
        assert response.status_code < 500, asked
        assert written() == before, f"{asked} wrote something"
        assert "sessionid" not in response.cookies or not response.cookies["sessionid"].value, asked
        if route.is_api and not route.public and route.scope is not None:
            assert response.status_code in {401, 405}, asked
        if method in CHANGES and not route.public:
            assert response.status_code in {302, 401, 403, 404, 405}, asked
        if response.status_code == 200 and not route.public:  # which strangers may open as well
            private_check(text_of(response), cast, secret)
    _others_check(cast, declared, values, handler)


def private_check(page: str, cast: Cast, secret: str) -> None:
    assert cast.stranger_organisation.name not in page
    assert secret not in page
    assert not re.findall(r"[\w.]+@example\.com", page), "the address of a person"


def _others_check(cast: Cast, declared: Methods, values: dict[str, Any], handler: ClientHandler) -> None:
    """The demo is another organisation now: the object is somebody else's."""
    Membership.objects.filter(user__email=EMAIL).delete()
    Organisation.objects.update(sample_until=None)
    opened(cast.stranger_organisation)
    closed = [
        route for route in declared.values() if route.admin or (route.make and not route.public and not route.signed_in)
    ]
    if closed:
        answer = ask(visitor(handler), "GET", declared.get("GET", closed[0]), values)
        assert answer.status_code in {302, 401, 403, 404, 405}, closed[0].key


READ = (
    "/",
    "/models",
    "/quotes",
    "/contracts",
    "/jobs",
    "/targets",
    "/portal",
    "/portal/usage",
    "/invoices",
    "/portal/budgets",
)
CLOSED = (
    "/settings/organisation",
    "/settings/tokens",
    "/settings/audit",
    "/settings/account",
    "/capacity",
    "/customers",
)


def test_one_click_opens_the_demo_to_read_and_a_strip_says_so(cast: Cast, prices: None) -> None:
    assert "Look around" not in Client().get("/").content.decode(), "there is nothing to look at"
    opened(cast.organisation)
    client = Client()
    assert "Look around without an account" in client.get("/").content.decode()
    before = written()
    assert client.post("/demo/visit")["Location"] == "/portal"
    assert written() == before, "a visit is a cookie"
    for path in READ:
        response = client.get(path)
        assert response.status_code == 200, path
        page = response.content.decode()
        assert "You are viewing a demo." in page
        assert "/sign-up" in page
    for path in CLOSED:
        assert client.get(path).status_code in {302, 404}, path
    refused = client.post("/jobs/new", {})
    assert refused.status_code == 403
    assert "Create an account" in refused.content.decode()
    assert client.get("/api/v1/jobs").status_code == 401
    assert client.get("/sign-up").status_code == 200
    assert client.post("/demo/leave")["Location"] == "/"
    assert client.get("/portal").status_code == 302


def test_a_visit_ends_in_time_and_cannot_be_made_up(cast: Cast) -> None:
    opened(cast.organisation)
    for cookie in ("", "visit", signing.dumps("visit", salt="another"), signing.dumps("visit", salt=SALT)[:-1] + "x"):
        client = Client()
        client.cookies[COOKIE] = cookie
        assert client.get("/portal").status_code == 302
    assert timedelta(minutes=30) <= LASTS <= timedelta(hours=4)


def test_a_person_who_signs_in_is_no_visitor_any_more(cast: Cast) -> None:
    opened(cast.organisation)
    client = visitor()
    client.post("/sign-in", {"login": cast.stranger.email, "password": PASSWORD})
    page = client.get("/").content.decode()
    assert cast.stranger_organisation.name in page
    assert "You are viewing a demo." not in page
    assert not client.cookies[COOKIE].value


def test_a_visitor_is_a_viewer_whatever_the_membership_says_and_nobody_signs_in_as_it(cast: Cast) -> None:
    opened(cast.organisation)
    Membership.objects.filter(user__email=EMAIL).update(role=Role.OWNER)
    for path in ("/jobs/new", "/quotes/new", "/models/upload"):
        page = visitor().get(path)
        assert page.status_code == 403
        assert "Create an account to do this" in page.content.decode(), path
    person = User.objects.get(email=EMAIL)
    assert not person.is_active
    assert not person.has_usable_password()
    assert not person.is_platform_admin


def test_visits_are_counted_and_end_where_they_are_switched_off(
    cast: Cast, prices: None, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened(cast.organisation)
    client = visitor()
    monkeypatch.setattr(middleware, "PAGES", Rate("demo page counted", 2, 60))
    assert [client.get("/portal").status_code for _ in range(3)] == [200, 200, 429]
    assert VISITS.amount <= 30
    settings.DEMO_VISITORS = False
    assert client.get("/portal").status_code == 302
    assert Client().post("/demo/visit").status_code == 404
    assert "Look around" not in Client().get("/").content.decode()


def test_an_owner_who_removes_the_visitor_ends_all_visits(cast: Cast, prices: None) -> None:
    opened(cast.organisation)
    client = visitor()
    assert client.get("/portal").status_code == 200
    Membership.objects.filter(user__email=EMAIL).delete()
    assert client.get("/portal").status_code == 302
