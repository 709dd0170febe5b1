"""Compares payment events at Stripe with payments and postings."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.invoicing.models import FactKind, Payment, StripeFact
from apps.invoicing.reconciliation.postings import NOTHING, Posting, Postings
from apps.invoicing.services.disputing import refund_key
from apps.ledger.altered import compared
from apps.ledger.models import AccountKind, Entry
from apps.pricing.rating import decimal_text

INTENT = "pi_"  # prefix of the ids of payment intents
# The account that shows the full amount of an event, and its sign.
SHOWS = {
    FactKind.REFUNDED: (AccountKind.BANK, -1),
    FactKind.REFUND_FAILED: (AccountKind.BANK, 1),
    FactKind.DISPUTED: (AccountKind.BANK, -1),
    FactKind.DISPUTE_WON: (AccountKind.BANK, 1),
    FactKind.DISPUTE_LOST: (AccountKind.DISPUTED, -1),
}


def fact_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's payment events."""
    facts = StripeFact.objects.filter(invoice__organisation_id=organisation_id).select_related("invoice").order_by("id")
    found = []
    for fact in facts:
        found += _compared(fact, organisation_id, postings)
    return found + _unknown(organisation_id)


def _compared(fact: StripeFact, organisation_id: UUID, postings: Postings) -> list[str]:
    name = f"invoice {fact.invoice.number}, {str(fact.get_kind_display()).lower()} at Stripe as {fact.reference}"
    return compared(name, lambda: _differs(name, fact, _shown(fact, organisation_id, postings)))


def _differs(name: str, fact: StripeFact, shown: Decimal) -> list[str]:
    if shown == fact.amount:
        return []
    return [f"{name}: {decimal_text(fact.amount)} {fact.invoice.currency}, and {decimal_text(shown)} was posted"]


def _unknown(organisation_id: UUID) -> list[str]:
    # Payments without a payment intent may have been recorded by an administrator.
    kept = StripeFact.objects.filter(invoice__organisation_id=organisation_id, kind=FactKind.PAID).values("reference")
    rows = Payment.objects.filter(organisation_id=organisation_id, provider="stripe", reference__startswith=INTENT)
    return [
        f"payment {reference}: what Stripe said of it is not there any more"
        for reference in rows.exclude(reference__in=kept).order_by("at", "id").values_list("reference", flat=True)
    ]


def _shown(fact: StripeFact, organisation_id: UUID, postings: Postings) -> Decimal:
    kind, currency = FactKind(fact.kind), fact.invoice.currency
    if kind == FactKind.FAILED:
        return NOTHING
    if kind == FactKind.PAID:
        rows = Payment.objects.filter(organisation_id=organisation_id, reference=fact.reference, currency=currency)
        return rows.aggregate(sum=Sum("amount"))["sum"] or NOTHING
    account, sign = SHOWS[kind]
    posting = postings.take(fact.posting_key)
    if posting is None and kind == FactKind.REFUNDED:  # from the customer's balance
        posting = _of_balance(fact, organisation_id)
    return posting.amount(account, currency) * sign if posting else NOTHING


def _of_balance(fact: StripeFact, organisation_id: UUID) -> Posting:
    key = refund_key(f"stripe:{fact.reference}")
    rows = Entry.objects.filter(transaction__organisation_id=organisation_id, transaction__idempotency_key=key)
    entries = {
        (kind, code): amount for kind, code, amount in rows.values_list("account__kind", "account__currency", "amount")
    }
    return Posting(key, "refund", "", {}, entries)
