"""The minimum of a contract: on the quote, held, charged when it closes, invoiced, exported, reconciled and verified."""

from __future__ import annotations

import csv
import json
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from pypdf import PdfReader

from apps.cli.agreement import Difference
from apps.cli.verify import verify
from apps.invoicing.exports import invoice_csv, invoice_json, invoice_pdf
from apps.invoicing.focus import focus_rows
from apps.invoicing.models import InvoiceLine
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import credit_note_issue, invoice_issue
from apps.ledger.models import AccountKind, Entry, Hold, HoldState, UsageRow
from apps.ledger.services import holds_expire_due
from apps.pricing.rating import digest_of
from apps.pricing.selectors import document_of
from apps.reports.rerating import parts_of, rerating_request, rerating_run
from apps.sales.amendments import rest_of
from apps.sales.differences import differences_named
from apps.sales.exports import quote_json, quote_pdf
from apps.sales.models import Contract, ContractState, Quote
from apps.sales.selectors import contract_usage
from apps.sales.services import (
    Quota,
    QuoteLine,
    contract_end,
    contracts_close_due,
    offer_make,
    quote_accept,
    quote_create,
)
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_forms import SOON, run

pytestmark = pytest.mark.django_db
WEEK = (NOW, NOW + timedelta(days=7))
LATER = NOW + timedelta(days=8)


@pytest.fixture
def market(cast: Cast) -> Market:
    return open_market(change=lambda document: document.update(contract_minimum="10"))


def _quote(cast: Cast, market: Market, lines: Any, **asked: Any) -> Quote:
    asked = {"klass": "standard", "window": WEEK, "now": NOW, "pool": market.lpu, **asked}
    return quote_create(organisation=cast.organisation, lines=lines, actor=None, **asked)


def _accepted(cast: Cast, quote: Quote, at: Any = NOW) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=at)


def _tiny(cast: Cast, market: Market) -> tuple[Any, Quote]:
    """1,000,000 executions whose lines come to 5.632: 4.368 are lacking."""
    program = market.program(cast.organisation, cast.engineer, name="tiny")
    return program, _quote(cast, market, [QuoteLine(program, 1_000_000)])


def _text(data: bytes) -> str:
    from io import BytesIO

    return " ".join(page.extract_text() for page in PdfReader(BytesIO(data)).pages)


def test_it_is_a_line_of_the_quote_and_held(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    said = quote.document
    assert (said["net"], said["expected"], said["payable"]) == ("10", "10", "10")
    assert (said["lines"][0]["amount"], said["minimum"]["amount"]) == ("5.632", "4.368")
    assert said["minimum"]["rating"]["charged"] == "5.632"
    assert "A contract costs at least 10.00 EUR" in " ".join(said["assumptions"])
    offer = offer_make(
        organisation=cast.organisation,
        lines=[QuoteLine(program, 1_000_000)],
        klass="standard",
        pool=market.lpu,
        window=WEEK,
        now=NOW,
    )
    assert offer.priced.worst == quote.worst == Decimal(10)
    contract = _accepted(cast, quote)
    assert contract.terms["minimum"] == said["minimum"]
    assert contract.minimum == Decimal("4.368")
    assert Hold.objects.get().amount == contract.net == Decimal(10)


def test_used_up_in_full_the_invoice_is_the_quote(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    contract = _accepted(cast, quote)
    run(contract, program, 600_000)
    assert contracts_close_due(now=SOON) == 0
    run(contract, program, 400_000)
    usage = contract_usage(contract)
    assert (usage.actual, usage.minimum) == (Decimal("5.632"), Decimal(0))
    (said,) = differences_named(contract, usage)
    assert (said["name"], said["amount"]) == ("contract minimum", "-4.368")
    assert contracts_close_due(now=SOON) == 1
    contract.refresh_from_db()
    usage = contract_usage(contract)
    assert (contract.state, usage.actual, usage.difference) == (ContractState.USED, Decimal(10), Decimal(0))
    assert differences_named(contract, usage) == []
    assert Hold.objects.get().state == HoldState.POSTED
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert invoice.net == quote.worst == Decimal(10)
    kinds = {line["kind"]: line for line in invoice.document["lines"]}
    assert kinds["minimum"]["amount"] == kinds["minimum"]["quoted_amount"] == "4.368"
    assert Entry.objects.get(account__kind=AccountKind.BREAKAGE).amount == Decimal("-4.368")
    assert reconcile_all(cast.organisation).differences == []


@pytest.mark.parametrize("used", [0, 250_000])
def test_whatever_is_used_it_comes_to_the_minimum(cast: Cast, market: Market, used: int) -> None:
    program, quote = _tiny(cast, market)
    contract = _accepted(cast, quote)
    if used:
        run(contract, program, used)
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=SOON)
    contract.refresh_from_db()
    usage = contract_usage(contract)
    assert (usage.actual, contract.state) == (Decimal(10), ContractState.ENDED)
    assert usage.lines[0].used == used
    differences_named(contract, usage)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert invoice.net == Decimal(10)
    assert verify(json.loads(invoice_json(invoice)), models=[], books=[document_of(market.book)]).checked
    assert reconcile_all(cast.organisation).differences == []


def test_a_rerating_does_not_count_it_as_an_execution(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    contract = _accepted(cast, quote)
    run(contract, program, 250_000)
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=SOON)
    last = UsageRow.objects.latest("created_at").created_at
    asked = rerating_request(book=market.book, month=last, asked_by=None, now=last + timedelta(days=1))
    parts = parts_of(rerating_run(pk=asked.pk, now=last))
    assert asked.rows_total == 2
    assert all(part.executions == 250_000 for group in parts.values() for part in group)


def test_a_contract_above_it_never_hears_of_it(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    quote = _quote(cast, market, [QuoteLine(program, 3_000_000)])
    assert (quote.worst, quote.document["minimum"]["amount"]) == (Decimal("16.896"), "0")
    contract = _accepted(cast, quote)
    run(contract, program, 2_000_000)
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=SOON)
    assert contract_usage(contract).actual == Decimal("11.264")
    assert not UsageRow.objects.filter(billed_operations=0).exists()


def test_a_quota_and_programs_of_two_projects_have_one_minimum_each(cast: Cast, market: Market) -> None:
    from apps.registry.models import Project

    program = market.program(cast.organisation, cast.engineer, operations=10**12)
    quota = _accepted(cast, _quote(cast, market, Quota("float32", 10)))
    run(quota, program, 4)
    contract_end(contract_id=quota.id, organisation=cast.organisation, actor=cast.owner, now=SOON)
    usage = contract_usage(quota)
    assert (usage.lines[0].used, usage.lines[0].actual, usage.actual) == (4 * 10**12, Decimal("0.032"), Decimal(10))

    other = market.program(cast.organisation, cast.engineer)
    version = other.model_version
    version.model.project = Project.objects.create(organisation=cast.organisation, name="Second", created_at=NOW)
    version.model.save(update_fields=["project"])
    first = market.program(cast.organisation, cast.engineer)
    both = _accepted(cast, _quote(cast, market, [QuoteLine(first, 500_000), QuoteLine(other, 500_000)]))
    run(both, first, 500_000)
    contract_end(contract_id=both.id, organisation=cast.organisation, actor=cast.owner, now=SOON)
    assert contract_usage(both).actual == Decimal(10)
    invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert reconcile_all(cast.organisation).differences == []


def test_an_amendment_says_what_it_does_to_it(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    old = _accepted(cast, quote)
    run(old, program, 250_000)
    amended = _quote(cast, market, [QuoteLine(program, 3_000_000)], amends=old, now=SOON)
    said = amended.document["amends"]
    # Without it 8.592 were to come (4.224 of use, 4.368 lacking); with it 8.592 lacking, and 16.896.
    assert (said["rest"], said["charge"], said["difference"]) == ("8.592", "8.592", "16.896")
    assert rest_of(old).lines[-1].unit == "contract"
    new = _accepted(cast, amended, SOON)
    assert (contract_usage(old).actual, new.net) == (Decimal(10), Decimal("16.896"))


def test_an_expired_hold_is_never_charged(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    contract = _accepted(cast, quote)
    run(contract, program, 250_000)
    late = contract.ends_at + timedelta(days=30)
    holds_expire_due(now=late)
    assert contracts_close_due(now=late) == 1
    assert contract_usage(contract).actual == Decimal("1.408")
    contract.refresh_from_db()
    differences_named(contract, contract_usage(contract))
    assert reconcile_all(cast.organisation).differences == []


def test_exports_pages_and_credit_notes_show_it(cast: Cast, market: Market, as_user: Any) -> None:
    program, quote = _tiny(cast, market)
    client: Client = as_user(cast.owner)
    page = client.get(f"/quotes/{quote.pk}").content.decode()
    assert "Contract minimum" in page
    assert "€\u202f4.368" in page
    assert "Contract minimum" in _text(quote_pdf(quote))
    assert "Contract minimum" in client.get(f"/quotes/{quote.pk}/quote.csv").content.decode()
    contract = _accepted(cast, quote)
    run(contract, program, 1_000_000)
    contracts_close_due(now=SOON)
    assert "Contract minimum" in client.get(f"/contracts/{contract.pk}").content.decode()
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert "Contract minimum" in client.get(f"/invoices/{invoice.pk}").content.decode()
    assert "Contract minimum" in _text(invoice_pdf(invoice))
    assert any(row[1] == "Contract minimum" for row in csv.reader(invoice_csv(invoice).splitlines()))
    start = LATER - timedelta(days=30)
    rows = list(focus_rows(organisation=cast.organisation, start=start, end=LATER + timedelta(days=1)))
    assert sum(row["BilledCost"] for row in rows) == invoice.payable
    (lacking,) = [row for row in rows if row["SkuMeter"] == "Contract minimum"]
    assert (lacking["BilledCost"], lacking["ResourceType"]) == (Decimal("4.368"), "Contract")
    line = InvoiceLine.objects.get(kind="minimum")
    note = credit_note_issue(
        invoice_id=invoice.id, parts={line.number: line.share}, reason="by mistake", actor=cast.admin, now=LATER
    )
    assert note.document["lines"][0]["title"] == "Contract minimum"
    assert reconcile_all(cast.organisation).differences == []


def test_verify_finds_a_minimum_that_is_not_the_books(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    books = [document_of(market.book)]
    document = json.loads(quote_json(quote))
    assert verify(document, models=[], books=books).checked
    with pytest.raises(Difference):
        verify(_changed(document, "minimum", amount="5"), models=[], books=books)
    contract = _accepted(cast, quote)
    run(contract, program, 1_000_000)
    contracts_close_due(now=SOON)
    paper = json.loads(invoice_json(invoice_issue(organisation=cast.organisation, actor=None, now=LATER)))
    assert verify(paper, models=[], books=books).checked
    index = next(i for i, line in enumerate(paper["lines"]) if line["kind"] == "minimum")
    paper["lines"][index]["rating"]["charged"] = "1"
    with pytest.raises(Difference):
        verify(_signed(paper), models=[], books=books)


def _changed(document: dict[str, Any], key: str, **values: Any) -> dict[str, Any]:
    return _signed({**document, key: {**document[key], **values}})


def _signed(document: dict[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in document.items() if key != "digest"}
    return {**rest, "digest": digest_of(rest)}


def test_reconciliation_finds_a_closed_contract_below_its_minimum(cast: Cast, market: Market) -> None:
    program, quote = _tiny(cast, market)
    contract = _accepted(cast, quote)
    run(contract, program, 1_000_000)
    Contract.objects.filter(pk=contract.pk).update(state=ContractState.USED, closed_at=SOON)  # a planted fault
    assert any("less than its minimum" in one for one in reconcile_all(cast.organisation).differences)
