"""Compares payments and settlements with their postings."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.invoicing.models import Invoice, Payment, Settlement, SettlementKind
from apps.invoicing.reconciliation.postings import NOTHING, Postings, moved_differences
from apps.ledger.models import AccountKind
from apps.pricing.rating import exact_sum

BY_INVOICE = {
    (SettlementKind.BALANCE, False): "balance",
    (SettlementKind.BALANCE, True): "balance-back",  # of a void invoice
    (SettlementKind.WRITE_OFF, False): "write-off",
}  # (kind, whether it is undone) -> the end of the key of the posting


def settlement_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's payments and settlements."""
    rows = Settlement.objects.filter(invoice__organisation_id=organisation_id).order_by()
    by_payment: dict[UUID | None, Decimal] = dict(
        rows.exclude(payment=None).values_list("payment").annotate(sum=Sum("amount"))
    )
    found = []
    for payment in Payment.objects.filter(organisation_id=organisation_id).order_by("at", "id"):
        posting = postings.take(f"payment:{payment.id}")
        name = f"payment {payment.reference} of {payment.at:%Y-%m-%d}"
        settled = by_payment.get(payment.id, NOTHING)
        expected = {AccountKind.BANK: payment.amount, AccountKind.RECEIVABLE: settled.copy_negate()}
        found += moved_differences(name, posting, expected, payment.currency)
        if posting is not None and posting.reference != payment.reference:
            found.append(f"{name}: it was posted under the reference {posting.reference}")
    return found + _of_invoices(organisation_id, postings)


def _of_invoices(organisation_id: UUID, postings: Postings) -> list[str]:
    sums: defaultdict[tuple[UUID, str, bool], Decimal] = defaultdict(Decimal)
    rows = Settlement.objects.filter(invoice__organisation_id=organisation_id).order_by("at", "id")
    for invoice, kind, amount in rows.values_list("invoice", "kind", "amount"):
        key = invoice, kind, amount.is_signed()
        sums[key] = exact_sum([sums[key], amount])
    found = []
    for pk, number, currency in (
        Invoice.objects.filter(organisation_id=organisation_id)
        .order_by("sequence")
        .values_list("pk", "number", "currency")
    ):
        for (kind, is_back), end in BY_INVOICE.items():
            posting, settled = postings.take(f"invoice:{pk}:{end}"), sums.get((pk, kind, is_back), NOTHING)
            name = f"invoice {number}, settled by {kind.label.lower()}"
            found += moved_differences(name, posting, {AccountKind.RECEIVABLE: settled.copy_negate()}, currency)
    return found
