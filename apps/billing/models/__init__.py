"""The facts of the billing room, one module for each kind."""

from apps.billing.models.budgets import AlertKind, Budget, BudgetAlert
from apps.billing.models.checks import LedgerCheck
from apps.billing.models.credits import (
    CreditEnd,
    CreditGrant,
    CreditNote,
    CreditNoteCounter,
    CreditNoteLine,
    CreditUse,
    GrantKind,
    ReleasedUsage,
)
from apps.billing.models.drafts import KeptDraft
from apps.billing.models.invoices import (
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
from apps.billing.models.outbox import OutboxWork
from apps.billing.models.payments import DunningStep, Payment, Settlement, SettlementKind
from apps.billing.models.stripe import (
    CallOutcome,
    FactKind,
    PushState,
    StripeCall,
    StripeCheck,
    StripeCustomer,
    StripeEvent,
    StripeFact,
    StripePush,
)
from apps.billing.models.webhooks import WebhookAttempt, WebhookDelivery, WebhookEndpoint

__all__ = [
    "WAITING",
    "AlertKind",
    "BillingProfile",
    "Budget",
    "BudgetAlert",
    "CallOutcome",
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
    "PushState",
    "ReleasedUsage",
    "Settlement",
    "SettlementKind",
    "StripeCall",
    "StripeCheck",
    "StripeCustomer",
    "StripeEvent",
    "StripeFact",
    "StripePush",
    "TaxScheme",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
]
