"""Who may open the addresses of the billing room."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY, Scope
from apps.billing.models import Invoice
from apps.billing.services import invoice_issue
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


ROUTES = [
    page("/portal"),
    page("/portal/settings", "GET", "POST", roles=MONEY),
    page("/portal/ledger"),
    page("/portal/focus.csv"),
    page("/invoices"),
    page("/invoices/issue", "POST", roles=MONEY),
    page("/invoices/draft"),
    page("/invoices/<uuid:pk>", make=_invoice),
    page("/invoices/<uuid:pk>/invoice.<str:kind>", make=lambda cast: {**_invoice(cast), "kind": "pdf"}),
    page("/payments", "GET", "POST", admin=True),
    operation("GET /invoices"),
    operation("POST /invoices", roles=MONEY, scope=Scope.BILLING, body={}),
    operation("GET /invoices/draft"),
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
]
