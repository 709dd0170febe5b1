"""Credit notes and what they take back of lines, beside their documents and their postings."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.billing.models import CreditNote, InvoiceState, Settlement
from apps.billing.reconciling.postings import (
    NOTHING,
    Postings,
    document_differences,
    figures_differ,
    moved_differences,
)
from apps.billing.services.crediting import Part, note_amounts
from apps.ledger.models import AccountKind


def note_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Every credit note of an organisation; none is the normal answer."""
    settlements = Settlement.objects.filter(credit_note__organisation_id=organisation_id).order_by()
    settled: dict[UUID | None, Decimal] = dict(settlements.values_list("credit_note").annotate(sum=Sum("amount")))
    notes = CreditNote.objects.filter(organisation_id=organisation_id).order_by("number")
    found = []
    for note in notes.select_related("invoice").prefetch_related("lines__line"):
        found += _note(note, settled.get(note.id, NOTHING), postings)
    return found


def _note(note: CreditNote, settled: Decimal, postings: Postings) -> list[str]:
    name, document = f"credit note {note.number}", note.document
    posting = postings.take(f"credit-note:{note.id}")
    found = document_differences(name, document, note.digest, posting)
    found += figures_differ(name, note, document, {one: one for one in ("net", "tax", "total")})
    if document.get("currency", {}).get("code") != note.currency:
        found.append(f"{name}: its currency is {note.currency}, and its document says another one")
    told, parts = {one["number"]: one for one in document.get("lines", [])}, []
    for line in note.lines.all():
        said = f"{name}, line {line.number}"
        found += figures_differ(said, line, told.pop(line.number, {}), {"share": "share", "amount": "amount"})
        parts.append(Part(line.number, line.line, "", line.share, line.amount))
    found += [f"{name}, line {number} is not there any more" for number in told]
    if found:  # its document is no measure for the rest
        expected = {AccountKind.RECEIVABLE: settled.copy_negate(), AccountKind.TAX: note.tax}
        return found + moved_differences(name, posting, expected, note.currency)
    if note.invoice.state == InvoiceState.VOID:
        issued = postings.by_key.get(f"invoice:{note.invoice_id}:issue")
        undone = {
            AccountKind(kind): amount.copy_negate() for (kind, _), amount in (issued.entries if issued else {}).items()
        }
        expected = undone | {AccountKind.RECEIVABLE: settled.copy_negate()}
    else:
        expected = note_amounts(note, note.invoice, parts, settled)
    return moved_differences(name, posting, expected, note.currency, whole=True)
