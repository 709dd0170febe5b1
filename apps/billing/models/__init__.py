"""The facts of the billing room, one module for each kind."""

from apps.billing.models.credits import CreditNote, CreditNoteCounter, CreditNoteLine
from apps.billing.models.invoices import (
    WAITING,
    BillingProfile,
    Invoice,
    InvoiceCounter,
    InvoicedUsage,
    InvoiceLine,
    InvoiceState,
    TaxScheme,
)
from apps.billing.models.outbox import OutboxWork
from apps.billing.models.payments import DunningStep, Payment, Settlement, SettlementKind
from apps.billing.models.webhooks import WebhookAttempt, WebhookDelivery, WebhookEndpoint

__all__ = [
    "WAITING",
    "BillingProfile",
    "CreditNote",
    "CreditNoteCounter",
    "CreditNoteLine",
    "DunningStep",
    "Invoice",
    "InvoiceCounter",
    "InvoiceLine",
    "InvoiceState",
    "InvoicedUsage",
    "OutboxWork",
    "Payment",
    "Settlement",
    "SettlementKind",
    "TaxScheme",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
]
