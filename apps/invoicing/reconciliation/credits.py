"""Compares credits with postings, invoices and credit notes."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.invoicing.models import CreditGrant, CreditNoteLine, CreditUse, Invoice
from apps.invoicing.reconciliation.postings import NOTHING, Postings, moved_differences
from apps.ledger.altered import UNREADABLE
from apps.ledger.models import AccountKind
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract

Key = tuple[str, UUID | None]  # a grant, and the invoice that used it; None for expired or ended amounts


def grant_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's credits."""
    used: defaultdict[Key, Decimal] = defaultdict(Decimal)
    for use in CreditUse.objects.filter(grant__organisation_id=organisation_id).order_by("at", "id"):
        key = (str(use.grant_id), use.invoice_id)
        used[key] = exact_sum([used[key], use.amount])
    documented, numbers = _documented(organisation_id)
    found = []
    for grant in CreditGrant.objects.filter(organisation_id=organisation_id).order_by("granted_at", "id"):
        name = f"credit {grant.id}"
        posted = postings.take(f"credit:{grant.id}:grant")
        expected = {AccountKind.PROMOTION: grant.amount, AccountKind.CREDIT: grant.amount.copy_negate()}
        found += moved_differences(name, posted, expected, grant.currency, whole=True)
        ended = [one.amount(AccountKind.CREDIT, grant.currency) for one in postings.starting(f"credit:{grant.id}:")]
        # The posting of the grant is among them, so the sum is what was withdrawn.
        documented[str(grant.id), None] = exact_sum([*ended, grant.amount])
    for grant_id, invoice in sorted(used.keys() | documented.keys(), key=str):
        taken, wanted = used.get((grant_id, invoice), NOTHING), documented.get((grant_id, invoice), NOTHING)
        if taken != wanted:
            place = f"by invoice {numbers.get(invoice, invoice)}" if invoice else "as expired or ended"
            found.append(
                f"credit {grant_id}: {decimal_text(taken)} of it is used {place}, and the documents say {decimal_text(wanted)}"
            )
    return found


def _documented(organisation_id: UUID) -> tuple[dict[Key, Decimal], dict[UUID | None, str]]:
    documented: dict[Key, Decimal] = {}
    numbers: dict[UUID | None, str] = {}
    rows = CreditNoteLine.objects.filter(credit_note__organisation_id=organisation_id)
    returned: defaultdict[tuple[UUID, int], Decimal] = defaultdict(Decimal)
    for invoice_id, number, amount in rows.values_list("credit_note__invoice_id", "number", "amount"):
        returned[invoice_id, number] = exact_sum([returned[invoice_id, number], amount])
    invoices = Invoice.objects.filter(organisation_id=organisation_id).order_by("sequence")
    for pk, name, document in invoices.values_list("pk", "number", "document").iterator(chunk_size=100):
        numbers[pk] = name
        for grant, number, amount in _taken(document):
            key, back = (grant, pk), returned.get((pk, number), NOTHING)
            documented[key] = exact_sum([documented.get(key, NOTHING), subtract(back, amount)])
    return documented, numbers


def _taken(document: Any) -> list[tuple[str, int, Decimal]]:
    # Other checks report unreadable documents.
    try:
        return [
            (str(one["basis"]["grant"]), int(one["number"]), Decimal(one["amount"]))
            for one in document.get("adjustments", [])
            if "grant" in one.get("basis", {})
        ]
    except UNREADABLE:
        return []
