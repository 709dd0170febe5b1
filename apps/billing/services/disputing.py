"""What a bank takes back, and what we give back."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.billing.models import DisputeState, Invoice
from apps.billing.outbox import outbox_write
from apps.billing.services.settling import balance_of, invoice_lock
from apps.figures import money_exact_format
from apps.ledger.models import AccountKind, Transaction
from apps.ledger.posting import chain_lock, transaction_post
from apps.pricing.rating import decimal_text


@transaction.atomic
def invoice_dispute(*, invoice_id: UUID, outcome: DisputeState, now: datetime) -> Invoice:
    """Show on the invoice that its money is disputed, or how that ended. The postings are the collector's."""
    invoice = invoice_lock(invoice_id)
    if invoice.dispute == outcome:
        return invoice
    invoice.dispute = outcome
    invoice.save(update_fields=["dispute"])
    audit_record(
        action=f"invoice.dispute_{outcome.value}", subject=f"invoice {invoice.number}", actor=None, now=now,
        organisation=invoice.organisation,
    )  # fmt: skip
    return invoice


@transaction.atomic
def balance_refund(
    *,
    organisation: Organisation,
    amount: Decimal,
    currency: str,
    reference: str,
    idempotency_key: str,
    actor: User | None,
    now: datetime,
) -> Transaction:
    """Give money of the customer's balance back; once for each key. Raises Problem (409) when the balance is less."""
    chain_lock(organisation.id)
    key = f"balance-refund:{idempotency_key}"
    known = Transaction.objects.filter(organisation=organisation, idempotency_key=key).exists()
    left = balance_of(organisation.id, currency)
    if not known and not 0 < amount <= left:
        raise Problem(
            409, "Not given back", f"The balance is {money_exact_format(left, currency)}; give back more than 0 and at most "
            "that.", kind="balance",
        )  # fmt: skip
    posted, is_new = transaction_post(
        organisation_id=organisation.id, kind="refund", idempotency_key=key, subject=f"refund {reference}",
        currency=currency, detail={"reference": reference}, now=now,
        amounts={AccountKind.PREPAID: amount, AccountKind.BANK: amount.copy_negate()},
    )  # fmt: skip
    if is_new:
        said = {"amount": decimal_text(amount), "currency": currency, "reference": reference}
        outbox_write(organisation_id=organisation.id, topic="refund.made", payload=said, now=now)
        audit_record(
            action="balance.refund", subject=f"refund {reference}", actor=actor, now=now, organisation=organisation,
            detail=said,
        )  # fmt: skip
    return posted
