"""Credit notes and what they take back of lines, beside their documents and their postings."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.invoicing.models import CreditNote, Invoice, InvoiceState, Settlement, StripeFact
from apps.invoicing.reconciling.postings import (
    NOTHING,
    Postings,
    document_differences,
    figures_differ,
    moved_differences,
)
from apps.invoicing.services.crediting import GIVEN_BACK, MOVED_BACK, Part, note_amounts, part_known
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
    return found + compared("what credit notes take back", lambda: _given_back(organisation_id, postings))


def _compared(note: CreditNote, settled: Decimal, postings: Postings) -> list[str]:
    return compared(f"credit note {note.number}", lambda: _note(note, settled, postings))


def _given_back(organisation_id: UUID, postings: Postings) -> list[str]:
    """Credit notes take back no more of lost disputes and refunds of their invoice than there was."""
    rows = StripeFact.objects.filter(invoice__organisation_id=organisation_id, kind__in=MOVED_BACK)
    moved = [
        (fact.invoice_id, fact.invoice.currency, fact.posting_key)
        for fact in rows.select_related("invoice").order_by("id")
    ]
    notes = CreditNote.objects.filter(organisation_id=organisation_id).order_by("number")
    moved += [
        (invoice, currency, f"credit-note:{pk}")
        for pk, invoice, currency in notes.values_list("pk", "invoice", "currency")
    ]
    left: defaultdict[tuple[UUID, AccountKind], Decimal] = defaultdict(Decimal)
    for invoice, currency, key in moved:
        posting = postings.by_key.get(key)
        if posting is None:
            continue
        for account in GIVEN_BACK:
            left[invoice, account] = exact_sum([left[invoice, account], posting.amount(account, currency)])
    over = {invoice: account for (invoice, account), amount in left.items() if amount < 0}
    return [
        f"invoice {one.number}: its credit notes take back more {AccountKind(over[one.pk]).label.partition(':')[0].lower()} "
        "than there was"
        for one in Invoice.objects.filter(pk__in=over).order_by("sequence")
    ]


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
        back = {one: posting.amount(one, note.currency).copy_negate() if posting else NOTHING for one in GIVEN_BACK}
        expected = note_amounts(note, note.invoice, parts, settled, back)
    return moved_differences(name, posting, expected, note.currency, whole=True)
