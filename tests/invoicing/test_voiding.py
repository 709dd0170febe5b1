"""A void invoice is undone whole: its usage, what it carried, its free operations and credits are there again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.invoicing.adjustments import credits_of
from apps.invoicing.drafting import carried_open
from apps.invoicing.focus import focus_rows
from apps.invoicing.models import BillingProfile, CreditNote, Invoice, InvoicedUsage, InvoiceLine, ReleasedUsage
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import grant_create, invoice_issue, invoice_void
from apps.ledger.models import UsageRow
from apps.ledger.selectors import balances
from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
MILLION = 10**6


def _issue(cast: Cast, minute: int) -> Invoice:
    return invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=minute))


def _void(cast: Cast, invoice: Invoice, minute: int) -> Invoice:
    at = NOW + timedelta(minutes=minute)
    return invoice_void(invoice_id=invoice.id, reason="wrong", actor=cast.admin, now=at)


def _books_agree(cast: Cast) -> None:
    """Accrued is what is used and on no standing invoice, and what is carried; and every check of the database holds."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    now = balances(cast.organisation.id)
    full = reconcile_all(cast.organisation)
    assert full.differences == []
    assert exact_sum(now.values()) == 0
    assert balance(now, "accrued") == exact_sum([*full.open.values(), carried_open(cast.organisation, "EUR")])
    assert balance(now, "receivable") == exact_sum(Invoice.objects.values_list("open", flat=True))
    standing = InvoiceLine.objects.exclude(invoice__state="void")
    assert exact_sum(standing.values_list("amount", flat=True)) == exact_sum(full.invoiced.values())
    used = exact_sum(UsageRow.objects.values_list("amount", flat=True))
    assert exact_sum([*full.invoiced.values(), *full.open.values()]) == used


def test_everything_that_an_invoice_took_is_there_again(cast: Cast) -> None:
    market = open_market(change=lambda d: d.update(free_tera_operations="100"))
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    grant_create(
        organisation=cast.organisation,
        amount=Decimal(2),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="a",
        actor=None,
        now=NOW,
    )
    run(sold(cast, market, executions=MILLION), MILLION)
    before = balances(cast.organisation.id)
    first = _issue(cast, 1)
    assert first.due == Decimal("3.37")  # 5.632, less 0.8 free and 2 of credit, and its tax
    assert _void(cast, first, 2).state == "void"
    after = {key: amount for key, amount in balances(cast.organisation.id).items() if amount}
    assert after == {key: amount for key, amount in before.items() if amount}
    assert [one.left for one in credits_of(cast.organisation, currency="EUR")] == [2]
    assert ReleasedUsage.objects.get().credit_note == CreditNote.objects.get()
    _books_agree(cast)
    second = _issue(cast, 3)
    assert (second.number, second.due, second.period_start) == ("T-2026-000002", first.due, first.period_start)
    same = ("lines", "adjustments", "net", "payable", "tax", "due")
    assert [second.document[key] for key in same] == [
        first.document[key] if key != "adjustments" else _by_number(first, second) for key in same
    ]
    _books_agree(cast)
    rows = list(focus_rows(organisation=cast.organisation, start=NOW, end=NOW + timedelta(hours=1)))
    assert exact_sum(row["BilledCost"] for row in rows) == second.due


def _by_number(first: Invoice, second: Invoice) -> list[dict[str, Any]]:
    """The adjustments of the first; what is left of a credit is told as of the day."""
    assert len(first.document["adjustments"]) == len(second.document["adjustments"]) == 2
    rows: list[dict[str, Any]] = first.document["adjustments"]
    return rows


def test_a_void_one_in_the_middle_keeps_what_was_carried(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    invoices = []
    for number, executions in enumerate((1000, 1500, 200_000), 1):  # 0.005632 and 0.008448 are less than a cent
        run(contract, executions, now=NOW + timedelta(minutes=number))
        invoices.append(_issue(cast, number + 1))
        _books_agree(cast)
    first, second, third = invoices
    assert [one.carried_in for one in invoices] == [0, Decimal("0.005632"), Decimal("0.00408")]
    assert (first.payable, second.payable) == (0, Decimal("0.01"))
    _void(cast, second, 10)
    _books_agree(cast)
    assert carried_open(cast.organisation, "EUR") == Decimal("0.002032")  # 1.132032 is charged by both, 1.13 asked for
    again = _issue(cast, 11)
    assert (again.net, again.payable, again.carried_out) == (second.net, second.payable, third.carried_out)
    assert again.period_start < third.period_start
    _books_agree(cast)


def test_a_claim_ends_only_with_its_invoice(cast: Cast, market: Market) -> None:
    run(sold(cast, market, executions=MILLION), MILLION)
    invoice = _issue(cast, 1)
    row, line = UsageRow.objects.get(), InvoiceLine.objects.get()

    def void_by_hand() -> None:
        Invoice.objects.filter(pk=invoice.pk).update(state="void", open=0)
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS invoice_void_claims_nothing IMMEDIATE")

    for wrong, said in (
        (lambda: InvoicedUsage.objects.all().delete(), "only ever added"),
        (lambda: InvoicedUsage.objects.update(line=line), "only ever added"),
        (lambda: InvoicedUsage.objects.create(usage=row, line=line), "duplicate key"),
        (void_by_hand, "still claims usage"),
    ):
        with pytest.raises(IntegrityError, match=said), transaction.atomic():
            wrong()
    _void(cast, invoice, 2)
    for wrong, said in (
        (lambda: InvoicedUsage.objects.create(usage=row, line=line), "claims no usage"),
        (lambda: ReleasedUsage.objects.all().delete(), "only ever added"),
        (lambda: ReleasedUsage.objects.update(line=line), "only ever added"),
    ):
        with pytest.raises(IntegrityError, match=said), transaction.atomic():
            wrong()
    with pytest.raises(Problem, match="is already void") as refusal:
        _void(cast, invoice, 3)
    assert (refusal.value.status, refusal.value.kind) == (409, "invoice-void")


def test_the_page_says_what_becomes_of_the_usage(cast: Cast, market: Market, as_user: Callable[[User], Client]) -> None:
    run(sold(cast, market, executions=MILLION), MILLION)
    invoice = _issue(cast, 1)
    client = as_user(cast.admin)
    body = {"form": "end", "action": "void", "reason": "wrong address"}
    page = client.post(f"/customers/invoices/{invoice.pk}", body, follow=True).content.decode()
    assert f"Invoice {invoice.number} voided" in page
    assert "can be invoiced again" in page
    mine = as_user(cast.billing).get(f"/invoices/{invoice.pk}").content.decode()
    assert "Its usage moves to the next invoice" in mine
