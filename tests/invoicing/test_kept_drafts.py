"""Drafts over much usage: made by a worker, kept with their time, and what an invoice of that moment says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.invoicing import excerpts, stored_drafts
from apps.invoicing.drafting import document_of_draft, invoice_draft
from apps.invoicing.models import KeptDraft
from apps.invoicing.services import invoice_issue
from apps.invoicing.stored_drafts import REQUEST_RATE, draft_make, draft_request, draft_status, drafts_make_due
from tests.cast import Cast
from tests.invoicing.test_pages import _text
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
AsToken = Callable[..., Client]


@pytest.fixture
def much(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Cast:
    """Three contracts, the first of them with twelve usage rows, where more than five rows are much."""
    monkeypatch.setattr(stored_drafts, "ROWS_MAX", 5)
    for count in (12, 1, 1):
        contract = a_contract_of(cast)
        for _ in range(count):
            run(contract, 7, now=timezone.now())
    return cast


def later(minutes: int = 0) -> datetime:
    return timezone.now().astimezone(UTC) + timedelta(minutes=minutes)


def made(cast: Cast, *, minutes: int = 0) -> KeptDraft:
    draft_request(organisation=cast.organisation, currency="EUR", now=later(minutes))
    assert draft_make(organisation_id=cast.organisation.pk, currency="EUR", clock=lambda: later(minutes))
    return KeptDraft.objects.get()


def test_what_is_kept_is_the_draft_with_the_first_rows_of_each_line(much: Cast) -> None:
    kept = made(much)
    assert kept.read_at is not None
    draft = invoice_draft(organisation=much.organisation, until=kept.read_at, currency="EUR")
    assert draft is not None
    whole = document_of_draft(draft, identity={})
    assert [(len(line["usage"]), line["more"]) for line in kept.document["lines"]] == [(5, 7), (1, 0), (1, 0)]
    for line, told in zip(kept.document["lines"], whole["lines"], strict=True):
        assert line.pop("usage") == told.pop("usage")[:5]
        assert line.pop("more") >= 0
    assert kept.document == whole


def test_the_invoice_says_what_the_draft_said_and_the_draft_is_gone(much: Cast) -> None:
    kept = made(much)
    invoice = invoice_issue(organisation=much.organisation, actor=much.billing, now=later(1))
    told = {name: kept.document[name] for name in ("net", "payable", "due", "carried_out")}
    assert {name: invoice.document[name] for name in told} == told
    assert [line["amount"] for line in invoice.document["lines"]] == [line["amount"] for line in kept.document["lines"]]
    assert not KeptDraft.objects.exists()


def test_a_draft_that_is_invoiced_while_it_is_read_is_not_found(much: Cast) -> None:
    kept = made(much)
    invoice_issue(organisation=much.organisation, actor=much.billing, now=later(1))
    for read in (excerpts.document_text, partial(excerpts.stored_excerpt, first=1)):
        with pytest.raises(Problem, match="has been invoiced"):
            read(kept)


def test_no_request_reads_much_usage(much: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_drafts, "invoice_draft", lambda **_: pytest.fail("a request makes a long draft"))
    client = as_user(much.viewer)
    assert "Make draft" in _text(client, "/invoices/draft")
    empty = client.get("/api/v1/invoices/draft").json()
    assert empty == {"document": None, "open": ["EUR"], "made_at": None, "asked_at": None}


def test_the_page_and_the_api_ask_and_show_when_it_was_made(much: Cast, as_user: AsUser, as_token: AsToken) -> None:
    cache.clear()
    browser, client = as_user(much.billing), as_token(much.owner, much.organisation, Scope.READ)
    assert browser.post("/invoices/draft")["Location"] == "/invoices/draft?currency=EUR"
    assert "Reload to see the draft" in _text(browser, "/invoices/draft")
    asked = client.post("/api/v1/invoices/draft", {}, content_type="application/json")
    assert (asked.status_code, asked.json()["currency"]) == (202, "EUR")
    assert drafts_make_due(now=later(-5), clock=later) == 0  # its message is on its way
    assert drafts_make_due(now=later(5), clock=later) == 1
    page = _text(browser, "/invoices/draft")
    assert "Update draft" in page
    assert "7 more in the CSV" in page
    told = client.get("/api/v1/invoices/draft").json()
    assert (told["asked_at"], len(told["document"]["lines"]), told["open"]) == (None, 3, ["EUR"])
    assert told["made_at"] is not None
    assert told["document"] == KeptDraft.objects.get().document
    answers = [
        client.post("/api/v1/invoices/draft", {}, content_type="application/json") for _ in range(REQUEST_RATE.amount)
    ]
    assert answers[-1].status_code == 429


def test_the_clock_makes_drafts_of_what_grew_and_leaves_the_rest(much: Cast) -> None:
    assert drafts_make_due(now=later(), clock=later) == 1  # nobody asked: much waits
    first = KeptDraft.objects.get()
    assert drafts_make_due(now=later(120), clock=later) == 0  # nothing was posted since
    run(a_contract_of(much), 7, now=timezone.now())
    assert drafts_make_due(now=later(30), clock=later) == 0
    assert drafts_make_due(now=later(61), clock=later) == 1
    assert len(KeptDraft.objects.get().document["lines"]) == len(first.document["lines"]) + 1


def test_little_usage_is_drafted_in_the_request(cast: Cast, as_user: AsUser) -> None:
    run(a_contract_of(cast), 7, now=timezone.now())
    shown = draft_status(organisation=cast.organisation, currency=None, now=(now := timezone.now()))
    assert (shown.read_at, shown.asked_at) == (now, None)
    assert shown.document is not None
    assert "more" not in shown.document["lines"][0]
    page = _text(as_user(cast.viewer), "/invoices/draft")
    assert "Make draft" not in page
    assert not KeptDraft.objects.exists()


def test_nothing_to_draft_is_said(cast: Cast, as_token: AsToken) -> None:
    a_contract_of(cast)
    refused = as_token(cast.owner, cast.organisation, Scope.READ).post(
        "/api/v1/invoices/draft", {}, content_type="application/json"
    )
    assert (refused.status_code, refused.json()["code"]) == (409, "nothing-to-invoice")


def test_the_lines_of_an_invoice_are_read_a_page_at_a_time(
    much: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excerpts, "LINES_SHOWN", 2)
    invoice = invoice_issue(organisation=much.organisation, actor=much.billing, now=later(1))
    browser = as_user(much.viewer)
    pages = [browser.get(f"/invoices/{invoice.pk}{query}").context for query in ("", "?line=3", "?line=99", "?line=x")]
    shown = [[line["number"] for line in page["lines"]] for page in pages]
    assert shown == [[1, 2], [3], [], [1, 2]]
    assert [page["excerpt"].next for page in pages] == [3, None, None, 3]
    assert pages[1]["excerpt"].previous == 1
    assert "For the contracts of the lines above." in _text(browser, f"/invoices/{invoice.pk}")
    whole = invoice.document
    for page in pages[:2]:
        document = page["document"]
        assert {name: document[name] for name in ("net", "due", "sections")} == {
            name: whole[name] for name in ("net", "due", "sections")
        }
        for line in page["document"]["lines"]:
            told = whole["lines"][line["number"] - 1]
            assert (line["usage"], line["more"]) == (told["usage"][:5], max(len(told["usage"]) - 5, 0))
            assert line["rating"] == told["rating"]
        contracts = {line["contract"] for line in document["lines"]}
        assert {one["contract"] for one in document["quoted_against_actual"]} == contracts
    assert excerpts.document_excerpt(whole, first=1).document["lines"] == pages[0]["document"]["lines"]
    told = browser.get(f"/api/v1/invoices/{invoice.pk}").json()
    assert (told["document"], told["net"], told["number"]) == (whole, str(invoice.net.normalize()), invoice.number)
