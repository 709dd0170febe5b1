"""Models of invoicing, one module for each kind of record."""

from apps.invoicing.models.checks import LedgerCheck
from apps.invoicing.models.credits import (
    CreditEnd,
    CreditGrant,
    CreditNote,
    CreditNoteCounter,
    CreditNoteLine,
    CreditUse,
    GrantKind,
    ReleasedUsage,
)
from apps.invoicing.models.drafts import KeptDraft
from apps.invoicing.models.facts import FactKind, StripeFact
from apps.invoicing.models.invoices import (
    WAITING,
    BillingProfile,
    DisputeState,
    Invoice,
    InvoiceCounter,
    InvoicedUsage,
    InvoiceLine,
    InvoiceState,
    TaxScheme,
)
from apps.invoicing.models.outbox import OutboxWork
from apps.invoicing.models.payments import DunningStep, Payment, Settlement, SettlementKind

__all__ = [
    "WAITING",
    "BillingProfile",
    "CreditEnd",
    "CreditGrant",
    "CreditNote",
    "CreditNoteCounter",
    "CreditNoteLine",
    "CreditUse",
    "DisputeState",
    "DunningStep",
    "FactKind",
    "GrantKind",
    "Invoice",
    "InvoiceCounter",
    "InvoiceLine",
    "InvoiceState",
    "InvoicedUsage",
    "KeptDraft",
    "LedgerCheck",
    "OutboxWork",
    "Payment",
    "ReleasedUsage",
    "Settlement",
    "SettlementKind",
    "StripeFact",
    "TaxScheme",
]
