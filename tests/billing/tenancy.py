"""Who may open the addresses of the billing room."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.utils import timezone

from apps.accounts.roles import MONEY, OWNING, Scope
from apps.billing.budgets.services import budget_create
from apps.billing.checking import ledger_check_ask
from apps.billing.models import Invoice, StripeEvent, WebhookEndpoint
from apps.billing.services import credit_note_issue, grant_create, invoice_issue
from apps.billing.webhooks.services import endpoint_create, test_message
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


def an_endpoint_of(cast: Cast) -> WebhookEndpoint:
    """An endpoint that hears of invoices."""
    return endpoint_create(
        organisation=cast.organisation,
        url="https://example.com/hook",
        topics=["invoices"],
        actor=cast.billing,
        now=timezone.now(),
    )


def _endpoint(cast: Cast) -> dict[str, Any]:
    return {"pk": an_endpoint_of(cast).pk}


def _delivery(cast: Cast) -> dict[str, Any]:
    return {"pk": test_message(endpoint=an_endpoint_of(cast), now=timezone.now()).pk}


def _budget(cast: Cast) -> dict[str, Any]:
    now, amount = timezone.now(), Decimal(10)
    return {
        "pk": budget_create(
            organisation=cast.organisation, amount=amount, currency="EUR", actor=cast.billing, now=now
        ).pk
    }


def _event(cast: Cast) -> dict[str, Any]:
    now = timezone.now()
    StripeEvent.objects.create(id="evt_1", type="invoice.paid", created=now, received_at=now, payload={})
    return {"pk": "evt_1"}


def _check(cast: Cast) -> dict[str, Any]:
    return {"pk": ledger_check_ask(organisation=cast.organisation, actor=cast.viewer, now=timezone.now()).pk}


WEBHOOK = {"url": "https://example.com/hook", "topics": ["invoices"]}


def _million(cast: Cast) -> dict[str, Any]:
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
    page("/settings/organisation/delete", "GET", "POST", roles=OWNING),
    page("/credit-notes/<uuid:pk>/credit-note.<str:kind>", make=lambda cast: {**_credit_note(cast), "kind": "pdf"}),
    operation("GET /credit-notes"),
    operation("GET /credit-notes/{uuid:pk}/file", make=_credit_note),
    operation("POST /invoices/{uuid:pk}/credit-notes", scope=Scope.ADMIN, make=_million, body={"reason": "wrong"}),
    operation(
        "POST /invoices/{uuid:pk}/end", scope=Scope.ADMIN, make=_million, body={"action": "void", "reason": "wrong"}
    ),
    operation("GET /customers/{uuid:pk}/tax", scope=Scope.ADMIN, make=lambda cast: {"pk": cast.organisation.pk}),
    operation(
        "PUT /customers/{uuid:pk}/tax",
        scope=Scope.ADMIN,
        make=lambda cast: {"pk": cast.organisation.pk},
        body={"scheme": "exempt"},
    ),
    operation("POST /refunds", scope=Scope.ADMIN, body={"organisation": "0", "amount": "1.00", "reference": "7/11"}),
    operation("GET /credits"),
    operation("POST /credits", scope=Scope.ADMIN, body={"organisation": "0", "amount": "1.00", "reason": "x"}),
    operation("POST /credits/{uuid:pk}/end", scope=Scope.ADMIN, make=_credit, body={"reason": "by mistake"}),
    page("/portal"),
    page("/portal/usage"),
    page("/portal/caps"),
    page("/portal/caps", "POST", roles=MONEY),
    page("/portal/settings", "GET", "POST", roles=MONEY),
    page("/portal/ledger", "GET", "POST"),
    page("/portal/focus.csv"),
    page("/portal/focus.parquet"),
    page("/portal/budgets"),
    page("/portal/budgets", "POST", roles=MONEY),
    page("/portal/budgets/<uuid:pk>/delete", "POST", roles=MONEY, make=_budget),
    page("/portal/webhooks", "GET", "POST", roles=MONEY),
    page("/portal/webhooks/<uuid:pk>", "GET", "POST", roles=MONEY, make=_endpoint),
    page("/outbox", admin=True),
    page("/invoices"),
    page("/invoices/issue", "POST", roles=MONEY),
    page("/invoices/draft"),
    page("/invoices/draft", "POST"),
    page("/invoices/<uuid:pk>", make=_invoice),
    page("/invoices/<uuid:pk>/invoice.<str:kind>", make=lambda cast: {**_invoice(cast), "kind": "pdf"}),
    page("/payments", "GET", "POST", admin=True),
    page("/customers", admin=True),
    page("/customers/<uuid:pk>", "GET", "POST", admin=True, make=lambda cast: {"pk": cast.organisation.pk}),
    page("/customers/invoices/<uuid:pk>", "GET", "POST", admin=True, make=_million),
    page("/stripe/webhook", "POST", public=True),
    page("/stripe", "GET", "POST", admin=True),
    page("/stripe/events/<str:pk>", "GET", "POST", admin=True, make=_event),
    page("/portal/payment-methods", "GET", "POST", roles=MONEY),
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
    operation("GET /usage/summary"),
    operation("GET /usage/focus"),
    operation("GET /budgets"),
    operation("POST /budgets", roles=MONEY, scope=Scope.BILLING, body={"amount": "10.00"}),
    operation("DELETE /budgets/{uuid:pk}", roles=MONEY, scope=Scope.BILLING, make=_budget),
    operation("GET /budget-alerts"),
    operation("GET /webhooks", roles=MONEY, scope=Scope.BILLING),
    operation("POST /webhooks", roles=MONEY, scope=Scope.BILLING, body=WEBHOOK),
    operation("DELETE /webhooks/{uuid:pk}", roles=MONEY, scope=Scope.BILLING, make=_endpoint),
    operation("GET /webhooks/{uuid:pk}/deliveries", roles=MONEY, scope=Scope.BILLING, make=_endpoint),
    operation("POST /webhooks/{uuid:pk}/test", roles=MONEY, scope=Scope.BILLING, make=_endpoint, body={}),
    operation("POST /webhook-deliveries/{uuid:pk}/replay", roles=MONEY, scope=Scope.BILLING, make=_delivery, body={}),
    operation("GET /spend-cap"),
    operation("PUT /spend-cap", roles=MONEY, scope=Scope.BILLING, body={"amount": "10.00"}),
    operation("GET /ledger"),
    operation("POST /ledger/checks"),
    operation("GET /ledger/checks/{uuid:pk}", make=_check),
]
