"""Credit notes and what they take back of lines, beside their documents and their postings."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.billing.models import CreditNote, FactKind, Invoice, InvoiceState, Settlement, StripeFact
from apps.billing.reconciling.postings import (
    NOTHING,
    Postings,
    document_differences,
    figures_differ,
    moved_differences,
)
from apps.billing.services.crediting import Part, note_amounts, part_known
from apps.ledger.altered import compared
from apps.ledger.models import AccountKind
from apps.pricing.rating import exact_sum


def note_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Every credit note of an organisation; none is the normal answer."""
    settlements = Settlement.objects.filter(credit_note__organisation_id=organisation_id).order_by()
    settled: dict[UUID | None, Decimal] = dict(settlements.values_list("credit_note").annotate(sum=Sum("amount")))
    notes = CreditNote.objects.filter(organisation_id=organisation_id).order_by("number")
    found = []
    for note in notes.select_related("invoice").prefetch_related("lines__line"):
        found += _compared(note, settled.get(note.id, NOTHING), postings)
    return found + compared("what credit notes take back", lambda: _bad_debt(organisation_id, postings))


def _compared(note: CreditNote, settled: Decimal, postings: Postings) -> list[str]:
    return compared(f"credit note {note.number}", lambda: _note(note, settled, postings))


def _bad_debt(organisation_id: UUID, postings: Postings) -> list[str]:
    """Credit notes take back no more bad debt than disputes of their invoice had made."""
    rows = StripeFact.objects.filter(invoice__organisation_id=organisation_id, kind=FactKind.DISPUTE_LOST)
    lost: dict[UUID, Decimal] = {}
    for fact in rows.select_related("invoice").order_by("id"):
        posting = postings.by_key.get(fact.posting_key)
        made = posting.amount(AccountKind.BAD_DEBT, fact.invoice.currency) if posting else NOTHING
        lost[fact.invoice_id] = exact_sum([lost.get(fact.invoice_id, NOTHING), made])
    for pk, invoice, currency in CreditNote.objects.filter(organisation_id=organisation_id).values_list(
        "pk", "invoice", "currency"
    ):
        posting = postings.by_key.get(f"credit-note:{pk}")
        taken = posting.amount(AccountKind.BAD_DEBT, currency) if posting else NOTHING
        lost[invoice] = exact_sum([lost.get(invoice, NOTHING), taken])
    over = Invoice.objects.filter(pk__in=[pk for pk, left in lost.items() if left < 0]).order_by("sequence")
    return [f"invoice {one.number}: its credit notes take back more bad debt than its disputes made" for one in over]


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
        if not part_known(note.invoice, parts[-1]):
            found.append(f"{said}: invoice {note.invoice.number} has no such line any more")
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
        lost = posting.amount(AccountKind.BAD_DEBT, note.currency).copy_negate() if posting else NOTHING
        expected = note_amounts(note, note.invoice, parts, settled, lost)
    return moved_differences(name, posting, expected, note.currency, whole=True)
