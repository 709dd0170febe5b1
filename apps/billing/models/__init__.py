"""The facts of the billing room, one module for each kind."""

from apps.billing.models.invoices import (
    BillingProfile,
    Invoice,
    InvoiceCounter,
    InvoicedUsage,
    InvoiceLine,
    InvoiceState,
)
from apps.billing.models.outbox import OutboxWork

__all__ = [
    "BillingProfile",
    "Invoice",
    "InvoiceCounter",
    "InvoiceLine",
    "InvoiceState",
    "InvoicedUsage",
    "OutboxWork",
]
