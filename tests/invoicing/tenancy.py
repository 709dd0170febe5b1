"""Who may open the addresses of the invoicing room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY, Scope
from apps.invoicing.ledger_checks import ledger_check_request
from apps.invoicing.models import Invoice
from apps.invoicing.services import credit_note_issue, grant_create, invoice_issue
from tests.cast import Cast
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run
from tests.tenancy import operation, page


def an_invoice_of(cast: Cast, *, executions: int = 1000) -> Invoice:
    """An issued invoice over a contract used up."""
    contract = a_contract_of(cast, executions=executions)
    run(contract, executions, now=timezone.now())
    return invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())


def _invoice(cast: Cast) -> dict[str, Any]:
    return {"pk": an_invoice_of(cast).pk}


def _check(cast: Cast) -> dict[str, Any]:
    return {"pk": ledger_check_request(organisation=cast.organisation, actor=cast.viewer, now=timezone.now()).pk}


def a_million(cast: Cast) -> dict[str, Any]:
    """The key of an invoice over a million executions."""
    return {"pk": an_invoice_of(cast, executions=10**6).pk}


def _credit_note(cast: Cast) -> dict[str, Any]:
    invoice = an_invoice_of(cast, executions=10**6)
    return {"pk": credit_note_issue(invoice_id=invoice.pk, reason="wrong", actor=cast.admin, now=timezone.now()).pk}


def _credit(cast: Cast) -> dict[str, Any]:
    grant = grant_create(
        organisation=cast.organisation,
        amount=Decimal(5),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="tenancy",
        actor=cast.admin,
        now=timezone.now(),
    )
    return {"pk": grant.pk}


ROUTES = [
    page("/credit-notes/<uuid:pk>/credit-note.<str:kind>", make=lambda cast: {**_credit_note(cast), "kind": "pdf"}),
    operation("GET /credit-notes"),
    operation("GET /credit-notes/{uuid:pk}/file", make=_credit_note),
    operation("POST /invoices/{uuid:pk}/credit-notes", scope=Scope.ADMIN, make=a_million, body={"reason": "wrong"}),
    operation(
        "POST /invoices/{uuid:pk}/end", scope=Scope.ADMIN, make=a_million, body={"action": "void", "reason": "wrong"}
    ),
    operation("GET /credits"),
    operation("POST /credits", scope=Scope.ADMIN, body={"organisation": "0", "amount": "1.00", "reason": "x"}),
    operation("POST /credits/{uuid:pk}/end", scope=Scope.ADMIN, make=_credit, body={"reason": "by mistake"}),
    page("/portal/settings", "GET", "POST", roles=MONEY),
    page("/portal/focus.csv"),
    page("/portal/focus.parquet"),
    page("/invoices"),
    page("/invoices/issue", "POST", roles=MONEY),
    page("/invoices/draft"),
    page("/invoices/draft", "POST"),
    page("/invoices/<uuid:pk>", make=_invoice),
    page("/invoices/<uuid:pk>/invoice.<str:kind>", make=lambda cast: {**_invoice(cast), "kind": "pdf"}),
    page("/payments", "GET", "POST", admin=True),
    operation("GET /invoices"),
    operation("POST /invoices", roles=MONEY, scope=Scope.BILLING, body={}),
    operation("GET /invoices/draft"),
    operation("POST /invoices/draft", body={}),
    operation("GET /invoices/{uuid:pk}", make=_invoice),
    operation("GET /invoices/{uuid:pk}/file", make=_invoice),
    operation(
        "POST /invoices/{uuid:pk}/paid", scope=Scope.ADMIN, make=_invoice, body={"amount": "1.00", "reference": "x"}
    ),
    operation("GET /usage"),
    operation("GET /usage/focus"),
    operation("GET /spend-cap"),
    operation("PUT /spend-cap", roles=MONEY, scope=Scope.BILLING, body={"amount": "10.00"}),
    operation("GET /ledger"),
    operation("POST /ledger/checks"),
    operation("GET /ledger/checks/{uuid:pk}", make=_check),
]
