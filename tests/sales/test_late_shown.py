"""Late cancellation where people and programs read it: pages, papers, exports, the API, and the offline check."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.cli.agreement import Difference
from apps.cli.verify import verify
from apps.invoicing.exports import invoice_csv, invoice_json, invoice_pdf
from apps.invoicing.focus import focus_rows
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import credit_note_issue, invoice_issue
from apps.ledger.models import UsageRow
from apps.pricing.rating import Terms, digest_of
from apps.pricing.selectors import document_of
from apps.reports.rerating import rated_again
from apps.sales.exports import quote_json, quote_pdf
from apps.sales.models import Contract, ContractState
from apps.sales.services import QuoteLine
from tests.cast import Cast
from tests.pricing.rating.books import book as book_of
from tests.sales.market import Market, open_market
from tests.sales.test_forms import run
from tests.sales.test_late import BEGIN, DAY, HOUR, MILLION, _accepted, _bought, _end, _quote, _terms
from tests.sales.test_minimum import _signed, _text

pytestmark = pytest.mark.django_db


@pytest.fixture
def market(cast: Cast) -> Market:
    return open_market(change=_terms)


def test_exports_pages_and_credit_notes_show_it(cast: Cast, market: Market, as_user: Any) -> None:
    program, contract = _bought(cast, market)
    run(contract, program, 250_000, at=BEGIN)
    client: Client = as_user(cast.owner)
    assert "Late cancellation" in _text(quote_pdf(contract.quote))
    for path in (f"/quotes/{contract.quote_id}", "/prices"):
        assert "Late cancellation" in client.get(path).content.decode()
    _end(cast, contract, BEGIN + HOUR)
    assert "€\u202f1.6896" in client.get(f"/contracts/{contract.pk}").content.decode()
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=BEGIN + DAY)
    kinds = {line["kind"]: line for line in invoice.document["lines"]}
    assert kinds["late"]["amount"] == "1.6896"
    assert "late cancellation" in client.get(f"/invoices/{invoice.pk}").content.decode()
    assert "late cancellation" in _text(invoice_pdf(invoice))
    assert "Class standard charges 0.4 of its price for what is not used" in invoice_csv(invoice)
    start = BEGIN - 30 * DAY
    rows = list(focus_rows(organisation=cast.organisation, start=start, end=BEGIN + 2 * DAY))
    assert sum(row["BilledCost"] for row in rows) == invoice.payable
    (late,) = [row for row in rows if row["SkuMeter"] == "Late cancellation"]
    assert (late["BilledCost"], late["CapacityReservationStatus"]) == (Decimal("1.6896"), "Unused")
    number = kinds["late"]["number"]
    share = Decimal(kinds["late"]["share"])
    note = credit_note_issue(
        invoice_id=invoice.id, parts={number: share}, reason="ours", actor=cast.admin, now=BEGIN + DAY
    )
    assert "late cancellation" in note.document["lines"][0]["title"]
    assert reconcile_all(cast.organisation).differences == []


def test_verify_finds_a_charge_that_is_not_the_books(cast: Cast, market: Market) -> None:
    _, contract = _bought(cast, market)
    books = [document_of(market.book)]
    document = json.loads(quote_json(contract.quote))
    assert any("late cancellation" in one for one in verify(document, models=[], books=books).checked)
    for key, value in (("share", "0.3"), ("amount", "2"), ("notice_minutes", 60), ("free_until", None)):
        with pytest.raises(Difference, match="late cancellation"):
            verify(_signed({**document, "late": {**document["late"], key: value}}), models=[], books=books)
    with pytest.raises(Difference, match="late cancellation"):
        verify(_signed({key: value for key, value in document.items() if key != "late"}), models=[], books=books)
    _end(cast, contract, BEGIN)
    paper = json.loads(invoice_json(invoice_issue(organisation=cast.organisation, actor=None, now=BEGIN + DAY)))
    assert verify(paper, models=[], books=books).checked
    paper["lines"][0]["rating"]["steps"][-1]["factor"] = "0.3"
    with pytest.raises(Difference):
        verify(_signed(paper), models=[], books=books)
    row = UsageRow.objects.get()
    assert rated_again(book_of(), row) == 0, "another book without the term would have charged nothing"
    assert rated_again(document_of(market.book), row) == row.amount
    assert Terms.from_json(row.rating["terms"]).klass == "standard"
    assert digest_of(contract.terms) == contract.terms_digest


def test_the_contract_says_what_ending_costs_and_the_form_carries_it(cast: Cast, market: Market, as_user: Any) -> None:
    """Over the page and over the API, as of now: a contract that begins at once is late from the start."""
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    client: Client = as_user(cast.owner)

    def bought(start: datetime) -> Contract:
        asked = {"window": (start, start + 2 * DAY), "now": now}
        return _accepted(cast, _quote(cast, market, [QuoteLine(program, MILLION)], **asked), now)

    at_once, ahead = bought(now), bought(now + 9 * DAY)
    page = client.get(f"/contracts/{at_once.pk}").content.decode()
    assert 'Ending now costs <span class="money">€\u202f2.2528</span>.' in page
    assert 'data-confirm="End this contract now? It costs €\u202f2.2528. The remaining' in page
    assert 'name="at_most" value="2.2528"' in page
    early = client.get(f"/contracts/{ahead.pk}").content.decode()
    assert "Ending now costs nothing." in early
    assert "No late charge applies before" in early
    refused = client.post(f"/contracts/{at_once.pk}/end", {"at_most": "2.25"}, follow=True).content.decode()
    assert "The contract was not ended" in refused
    for text in ("", "nan", "-5", "x" * 100):
        client.post(f"/contracts/{at_once.pk}/end", {"at_most": text})
    at_once.refresh_from_db()
    assert at_once.state == ContractState.ACTIVE

    told = client.get(f"/api/v1/contracts/{at_once.pk}/end").json()
    assert (told["charge"], told["late_charge"], told["currency"], told["free_until"]) == (
        "2.2528",
        "2.2528",
        "EUR",
        None,
    )
    assert told["lines"][0]["late"] == MILLION
    answer = _post(client, at_once, {"at_most": "2.2527"})
    assert (answer.status_code, answer.json()["code"]) == (409, "ending-costs-more")
    assert _post(client, at_once, {"at_most": "no"}).status_code == 422
    ended = _post(client, at_once, {"at_most": told["charge"]}).json()
    assert (ended["state"], ended["actual"], ended["late_charged"]) == ("ended", "2.2528", "2.2528")
    assert ended["late_cancellation"] == {"notice_minutes": 1440, "share": "0.4", "amount": "2.2528"}
    done = client.post(f"/contracts/{ahead.pk}/end", {"at_most": "0"}, follow=True).content.decode()
    assert "There was no charge for ending the contract." in done
    assert client.get(f"/api/v1/contracts/{ahead.pk}/end").json()["charge"] == "0"


def _post(client: Client, contract: Contract, body: dict[str, Any]) -> Any:
    return client.post(f"/api/v1/contracts/{contract.pk}/end", body, content_type="application/json")
