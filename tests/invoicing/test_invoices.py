from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.problems import Problem
from apps.invoicing.drafting import invoice_draft
from apps.invoicing.models import BillingProfile, Invoice, InvoicedUsage, InvoiceLine
from apps.invoicing.seed import seed
from apps.invoicing.services import invoice_issue, invoice_mark_paid, invoices_issue_month
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import balances, cap_of, chain_verify
from apps.ledger.services import cap_set
from apps.pricing.rating import digest_of, exact_sum
from apps.sales.services import contract_close
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(minutes=5)
MILLION = 10**6  # executions of the market's program cost 5.632 EUR


def _issue(cast: Cast, *, after: timedelta = timedelta(minutes=5)) -> Invoice:
    return invoice_issue(organisation=cast.organisation, actor=cast.billing, now=NOW + after)


def test_an_invoice_says_what_the_quote_said(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    for executions in (1, 333_333, 666_666):
        run(contract, executions)
    invoice = _issue(cast)
    invoice.refresh_from_db()
    assert invoice.net == contract.net == Decimal("5.632")
    assert (invoice.payable, invoice.carried_out, invoice.due) == (Decimal("5.63"), Decimal("0.002"), Decimal("5.63"))
    line = invoice.document["lines"][0]
    assert (line["executions"], line["amount"], line["share"]) == (MILLION, "5.632", "5.63")
    assert len(line["usage"]) == 3
    assert invoice.document["quoted_against_actual"][0]["difference"] == "0"
    assert digest_of(invoice.document) == invoice.digest
    assert invoice.number == "T-2026-000001"


def test_usage_is_invoiced_once(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    run(contract, 400_000)
    first = _issue(cast)
    with pytest.raises(Problem, match="has already been invoiced"):
        _issue(cast, after=timedelta(minutes=6))
    run(contract, 600_000, now=NOW + timedelta(minutes=7))
    second = _issue(cast, after=timedelta(minutes=8))
    assert exact_sum([first.net, second.net]) == contract.net
    assert second.number == "T-2026-000002"
    assert second.document["previous"] == {"number": first.number, "digest": first.digest}
    assert (second.period_start, InvoicedUsage.objects.count()) == (first.period_end, 2)


def test_less_than_a_cent_is_carried_visibly_until_it_is_one(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    run(contract, 1000)
    first = _issue(cast)
    assert (first.payable, first.carried_out, first.state) == (0, Decimal("0.005632"), "paid")
    run(contract, 1000, now=NOW + timedelta(minutes=6))
    second = _issue(cast, after=timedelta(minutes=7))
    assert (second.carried_in, second.carried_out) == (Decimal("0.005632"), Decimal("0.001264"))
    assert (second.payable, second.correction) == (Decimal("0.01"), 0)
    assert balance(balances(cast.organisation.id), "accrued") == Decimal("0.001264")


def test_the_books_follow_an_invoice_and_its_payment(cast: Cast, market: Market) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, MILLION)
    invoice = _issue(cast)
    assert (invoice.payable, invoice.tax, invoice.due) == (Decimal("5.63"), Decimal("1.07"), Decimal("6.70"))
    now = balances(cast.organisation.id)
    assert [balance(now, kind) for kind in ("receivable", "tax", "accrued", "rounding", "revenue")] == [
        Decimal("6.70"),
        Decimal("-1.07"),
        Decimal("0.002"),
        0,
        Decimal("-5.632"),
    ]
    invoice_mark_paid(invoice_id=invoice.id, amount=invoice.due, reference=" 7/11 ", actor=cast.admin, now=LATER)
    now = balances(cast.organisation.id)
    assert (balance(now, "receivable"), balance(now, "bank")) == (0, Decimal("6.70"))
    assert exact_sum(now.values()) == 0
    assert Invoice.objects.get().payment_reference == "7/11"
    assert reconcile(cast.organisation.id).differences == []
    assert chain_verify(cast.organisation.id).intact


def test_what_is_unused_is_a_named_line_that_explains_the_difference(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    run(contract, 250_000)
    contract_close(contract_id=contract.id, now=contract.ends_at)
    comparison = _issue(cast).document["quoted_against_actual"][0]
    assert comparison["difference"] == "-4.224"
    assert exact_sum(Decimal(one["amount"]) for one in comparison["named"]) == Decimal("-4.224")
    assert "750,000 of 1,000,000 executions" in comparison["named"][0]["sentence"]


def test_a_draft_may_be_looked_at_any_day_and_claims_nothing(cast: Cast, market: Market) -> None:
    assert invoice_draft(organisation=cast.organisation, until=LATER) is None
    run(sold(cast, market, executions=MILLION), MILLION)
    draft = invoice_draft(organisation=cast.organisation, until=LATER)
    assert draft is not None
    assert draft.net == Decimal("5.632")
    assert not Invoice.objects.exists()
    assert _issue(cast).net == draft.net


def test_the_month_is_invoiced_when_it_is_over_and_once(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    run(contract, 500_000)
    december = NOW.replace(month=12, day=1, hour=0, minute=0)
    run(contract, 300_000, now=december - timedelta(microseconds=1))
    contract_in_december = sold(cast, market, executions=MILLION)
    run(contract_in_december, 1, now=december)
    assert invoices_issue_month(now=december - timedelta(seconds=1)) == 0
    assert [invoices_issue_month(now=december + timedelta(hours=hour)) for hour in (1, 2)] == [1, 0]
    invoice = Invoice.objects.get()
    assert (invoice.period_end, InvoiceLine.objects.get().quantity) == (december, 800_000)


def test_the_database_refuses_to_change_an_invoice(cast: Cast, market: Market) -> None:
    run(sold(cast, market, executions=MILLION), MILLION)
    invoice = _issue(cast)
    for change in ({"payable": Decimal(1)}, {"document": {}}, {"number": "x"}):
        with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
            Invoice.objects.filter(pk=invoice.pk).update(**change)
    with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
        InvoiceLine.objects.update(amount=0)
    with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
        InvoicedUsage.objects.all().delete()
    invoice.pk, invoice.number, invoice.sequence = None, "T-2026-000009", 9
    invoice.net += 1
    with pytest.raises(IntegrityError, match="invoice_loses_nothing"), transaction.atomic():
        invoice.save(force_insert=True)


def test_numbers_have_no_gap_when_an_invoice_is_not_issued(cast: Cast, market: Market) -> None:
    with pytest.raises(Problem):
        _issue(cast)
    run(sold(cast, market, executions=MILLION), 10)
    assert _issue(cast).number == "T-2026-000001"


def test_seeding_leaves_alone_what_was_changed(cast: Cast, market: Market) -> None:
    people: dict[str, Any] = {"organisation": cast.organisation, "owner": cast.owner, "admin": cast.admin}
    seed(now=NOW, **people)
    assert cap_of(cast.organisation.id, currency="EUR") is not None
    cap_set(organisation=cast.organisation, amount=None, currency="EUR", now=NOW)
    seed(now=NOW, **people)
    assert cap_of(cast.organisation.id, currency="EUR") is None


def test_a_class_that_charges_for_unused_volume_says_so_on_a_line_of_its_own(cast: Cast) -> None:
    market = open_market(change=lambda d: d["classes"]["standard"].update(unused="0.4"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, 250_000)
    contract_close(contract_id=contract.id, now=contract.ends_at)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=contract.ends_at + timedelta(minutes=1))
    lines = {line["kind"]: line for line in invoice.document["lines"]}
    assert (lines["usage"]["amount"], lines["unused"]["amount"]) == ("1.408", "1.6896")
    assert lines["unused"]["executions"] == 750_000
    comparison = invoice.document["quoted_against_actual"][0]
    assert exact_sum(Decimal(one["amount"]) for one in comparison["named"]) == Decimal(comparison["difference"])
    assert balance(balances(cast.organisation.id), "breakage") == Decimal("-1.6896")
    assert reconcile(cast.organisation.id).differences == []
