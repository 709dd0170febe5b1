"""A quote while it is open: withdrawn, its link revoked and made anew; lists narrowed by what they hold."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.registry.models import Project
from apps.sales.filters import QUOTE_STATES, Filters, filters_read, quotes_filter
from apps.sales.models import Quote, QuoteState
from apps.sales.selectors import quote_shared, quotes_of
from apps.sales.services import Quota, quote_accept, quote_create, quote_share, quote_unshare, quote_withdraw
from tests.cast import Cast
from tests.sales.market import Market
from tests.sales.tenancy import a_contract_of, a_quote_of, a_shared_quote_of

pytestmark = pytest.mark.django_db


def test_a_withdrawn_quote_cannot_be_accepted_and_an_accepted_one_not_withdrawn(cast: Cast, market: Market) -> None:
    quote, now = _quote(cast, market), timezone.now()
    who = {"organisation": cast.organisation, "actor": cast.owner, "now": now}
    for _ in range(2):
        assert quote_withdraw(quote_id=quote.id, **who).state == QuoteState.WITHDRAWN
    with pytest.raises(Problem, match="was withdrawn"):
        quote_accept(quote_id=quote.id, **who)
    other = _quote(cast, market)
    quote_accept(quote_id=other.id, **who)
    with pytest.raises(Problem, match="has become a contract"):
        quote_withdraw(quote_id=other.id, **who)


def test_a_revoked_link_shows_nothing_and_never_comes_back(cast: Cast, as_user: Callable[[User], Client]) -> None:
    quote, client = a_shared_quote_of(cast), as_user(cast.engineer)
    first = f"/shared/quotes/{quote.share_token}"
    assert Client().get(first).status_code == 200
    page = client.post(f"/quotes/{quote.pk}/unshare", follow=True).content.decode()
    assert "There is no link." in page
    assert Client().get(first).status_code == 404
    assert Client().get("/shared/quotes/None").status_code == 404
    client.post(f"/quotes/{quote.pk}/share")
    quote.refresh_from_db()
    assert Client().get(f"/shared/quotes/{quote.share_token}").status_code == 200
    assert Client().get(first).status_code == 404
    token = quote.share_token
    now = timezone.now()
    assert quote_share(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now).share_token == token
    for _ in range(2):
        quote_unshare(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now)


def test_a_quote_has_no_link_until_somebody_asks_and_a_link_ends(cast: Cast, as_user: Callable[[User], Client]) -> None:
    quote, client, now = a_quote_of(cast), as_user(cast.engineer), timezone.now()
    assert quote.share_token is None
    assert "There is no link." in client.get(f"/quotes/{quote.pk}").content.decode()
    page = client.post(f"/quotes/{quote.pk}/share", {"days": "7"}, follow=True).content.decode()
    quote.refresh_from_db()
    assert f"/shared/quotes/{quote.share_token}" in page
    assert quote.share_until is not None
    assert now + timedelta(days=7) <= quote.share_until < now + timedelta(days=7, minutes=5)
    assert quote_shared(quote.share_token or "", now=quote.share_until - timedelta(microseconds=1)) == quote
    assert quote_shared(quote.share_token or "", now=quote.share_until) is None
    old = quote.share_token
    later = quote.share_until
    renewed = quote_share(quote_id=quote.id, organisation=cast.organisation, actor=None, now=later)
    assert renewed.share_token != old
    assert renewed.share_until == later + timedelta(days=30)
    for days in ("0", "366", "9" * 30):
        page = client.post(f"/quotes/{quote.pk}/share", {"days": days}, follow=True).content.decode()
        assert "Enter 1 to 365 days" in page


def test_the_same_over_the_api(cast: Cast, as_token: Callable[..., Client]) -> None:
    quote, client = a_quote_of(cast), as_token(cast.engineer, cast.organisation, Scope.READ, Scope.BUILD)
    path = f"/api/v1/quotes/{quote.pk}/share"
    assert client.get(f"/api/v1/quotes/{quote.pk}").json()["share_url"] == "", "nobody asked for one"
    made = client.post(path, "", content_type="application/json").json()
    assert made["share_url"].startswith("/shared/quotes/")
    assert made == client.post(path, {}, content_type="application/json").json()
    moved = client.post(path, {"days": 7}, content_type="application/json").json()
    assert (moved["share_url"], moved["share_until"] < made["share_until"]) == (made["share_url"], True)
    for days in (0, 366, "soon", 1.5):
        assert client.post(path, {"days": days}, content_type="application/json").status_code == 422
    ended = client.delete(path).json()
    assert (ended["share_url"], ended["share_until"]) == ("", None)
    assert client.post(f"/api/v1/quotes/{quote.pk}/withdraw").json()["state"] == "withdrawn"
    assert client.get("/api/v1/quotes?state=withdrawn").json()["results"][0]["id"] == str(quote.pk)
    assert client.get("/api/v1/quotes?state=open").json()["results"] == []
    assert client.get("/api/v1/quotes?state=%00").status_code == 422
    assert client.get("/api/v1/contracts?form=quota").json()["results"] == []


def test_withdrawing_on_the_page_says_so(cast: Cast, as_user: Callable[[User], Client]) -> None:
    quote, client = a_shared_quote_of(cast), as_user(cast.engineer)
    page = client.post(f"/quotes/{quote.pk}/withdraw", follow=True).content.decode()
    assert "This quote was withdrawn" in page
    assert "was withdrawn" in Client().get(f"/shared/quotes/{quote.share_token}").content.decode()
    accepted = client.post(f"/quotes/{quote.pk}/accept")
    assert accepted.status_code == 409


def test_a_withdrawn_quote_is_not_shared(
    cast: Cast, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    quote, client = a_quote_of(cast), as_user(cast.engineer)
    assert "Create a share link" in client.get(f"/quotes/{quote.pk}").content.decode()
    client.post(f"/quotes/{quote.pk}/withdraw")
    page = client.get(f"/quotes/{quote.pk}").content.decode()
    assert "There is no link. A withdrawn quote can't be shared." in page
    assert "Create a share link" not in page
    said = client.post(f"/quotes/{quote.pk}/share", {"days": "7"}, follow=True).content.decode()
    assert "This quote was withdrawn, so it can&#x27;t be shared." in said
    build = as_token(cast.engineer, cast.organisation, Scope.BUILD)
    refused = build.post(f"/api/v1/quotes/{quote.pk}/share", {"days": 7}, content_type="application/json")
    assert (refused.status_code, refused.json()["type"].rsplit("/", 1)[-1]) == (409, "quote-withdrawn")
    quote.refresh_from_db()
    assert quote.share_token is None


def test_a_link_that_was_made_before_says_that_the_quote_was_withdrawn(
    cast: Cast, as_user: Callable[[User], Client]
) -> None:
    quote, client = a_shared_quote_of(cast), as_user(cast.engineer)
    client.post(f"/quotes/{quote.pk}/withdraw")
    shared = Client().get(f"/shared/quotes/{quote.share_token}").content.decode()
    assert "This quote was withdrawn. It can no longer be accepted." in shared
    assert "Price locked" not in shared
    with pytest.raises(Problem, match="can't be shared"):
        quote_share(quote_id=quote.id, organisation=cast.organisation, actor=None, now=timezone.now(), days=90)
    assert "End the link" in client.get(f"/quotes/{quote.pk}").content.decode()


def test_a_list_is_narrowed_by_state_form_and_project(cast: Cast, market: Market) -> None:
    now = timezone.now()
    open_, old, quota, gone = (
        _quote(cast, market),
        _quote(cast, market, age=timedelta(days=2)),
        _quota(cast, market),
        _quote(cast, market),
    )
    quote_withdraw(quote_id=gone.id, organisation=cast.organisation, actor=None, now=now)
    project = Project.objects.get(organisation=cast.organisation)

    def found(**asked: object) -> set[Quote]:
        return set(quotes_filter(quotes_of(cast.organisation), Filters(**asked), now=now))  # type: ignore[arg-type]

    assert found(state="open") == {open_, quota}
    assert found(state="expired") == {old}
    assert found(state="withdrawn") == {gone}
    assert found(form="quota") == {quota}
    assert found(project=project.pk) == {open_, old, gone}
    assert found(project=cast.organisation.pk) == set()
    assert len(found()) == 4


@pytest.mark.parametrize("path", ["/quotes", "/contracts"])
def test_lists_answer_any_filter_and_say_when_nothing_is_like_that(
    cast: Cast, as_user: Callable[[User], Client], path: str
) -> None:
    a_contract_of(cast)
    client = as_user(cast.viewer)
    assert "matches these filters" in client.get(f"{path}?form=quota").content.decode()
    project = Project.objects.get(organisation=cast.organisation)
    assert "matches these filters" not in client.get(f"{path}?project={project.pk}&form=execution").content.decode()
    for name in ("state", "form", "project", "page"):
        for value in ("<script>", "-1", "9" * 50, "'; --"):
            page = client.get(path, {name: value})
            assert page.status_code == 200
            assert b"<script>" not in page.content.replace(b"<script src", b"")


@pytest.mark.parametrize(
    ("path", "states"),
    [("/quotes", "Open, Accepted, Expired or Withdrawn"), ("/contracts", "Active, Used up or Ended")],
)
def test_a_list_says_that_an_unknown_filter_is_ignored(
    cast: Cast, as_user: Callable[[User], Client], path: str, states: str
) -> None:
    contract, client, rows = a_contract_of(cast), as_user(cast.viewer), path[1:]
    response = client.get(f"{path}?state=nonsense&form=gift&project=mine")
    page = response.content.decode()
    assert response.status_code == 200
    assert str(contract.pk if rows == "contracts" else contract.quote_id) in page
    assert f"There is no state “nonsense”, so {rows} of every state are shown. Choose {states}." in page
    assert f"There is no form “gift”, so {rows} of every form are shown. Choose Per execution, Raw quota" in page
    assert f"There is no project “mine”, so {rows} of every project are shown." in page
    assert "There is no" not in client.get(f"{path}?state=&form=execution").content.decode()


def test_a_filter_that_means_nothing_narrows_nothing() -> None:
    states = tuple(name for name, _ in QUOTE_STATES)
    assert filters_read({"state": "gold", "form": "gift", "project": "x"}, states=states) == Filters()
    assert filters_read({"state": "open"}, states=states).any


def _quote(cast: Cast, market: Market, *, age: timedelta = timedelta(0)) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), 1000)],
        klass="standard",
        pool=market.lpu,
        actor=cast.engineer,
        now=timezone.now() - age,
    )


def _quota(cast: Cast, market: Market) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=Quota("float32", 5),
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=timezone.now(),
    )
