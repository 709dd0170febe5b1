"""Compares credit notes with documents and postings."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.invoicing.models import CreditNote, Invoice, InvoiceState, Settlement, StripeFact
from apps.invoicing.reconciliation.postings import (
    NOTHING,
    Posting,
    Postings,
    document_differences,
    figures_differ,
    moved_differences,
)
from apps.invoicing.services.credit_lines import Part, part_exists
from apps.invoicing.services.crediting import RETURN_ACCOUNTS, RETURN_FACTS, note_amounts
from apps.ledger.altered import compared
from apps.ledger.models import AccountKind
from apps.pricing.rating import exact_sum


def note_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's credit notes."""
    settlements = Settlement.objects.filter(credit_note__organisation_id=organisation_id).order_by()
    settled: dict[UUID | None, Decimal] = dict(settlements.values_list("credit_note").annotate(sum=Sum("amount")))
    notes = CreditNote.objects.filter(organisation_id=organisation_id).order_by("number")
    found = []
    for note in notes.select_related("invoice").prefetch_related("lines__line"):
        found += _compared(note, settled.get(note.id, NOTHING), postings)
    return found + compared("what credit notes reverse", lambda: _reversals_check(organisation_id, postings))


def _compared(note: CreditNote, settled: Decimal, postings: Postings) -> list[str]:
    return compared(f"credit note {note.number}", lambda: _note(note, settled, postings))


def _reversals_check(organisation_id: UUID, postings: Postings) -> list[str]:
    rows = StripeFact.objects.filter(invoice__organisation_id=organisation_id, kind__in=RETURN_FACTS)
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
        for account in RETURN_ACCOUNTS:
            left[invoice, account] = exact_sum([left[invoice, account], posting.amount(account, currency)])
    over = {invoice: account for (invoice, account), amount in left.items() if amount < 0}
    return [
        f"invoice {one.number}: its credit notes take back more {AccountKind(over[one.pk]).label.partition(':')[0].lower()} "
        "than there was"
        for one in Invoice.objects.filter(pk__in=over).order_by("sequence")
    ]


def _note(note: CreditNote, settled: Decimal, postings: Postings) -> list[str]:
    posting = postings.take(f"credit-note:{note.id}")
    parts, found = _document(note, posting)
    if found:  # the document cannot be used for the rest
        expected = {AccountKind.RECEIVABLE: settled.copy_negate(), AccountKind.TAX: note.tax}
        return found + moved_differences(f"credit note {note.number}", posting, expected, note.currency)
    expected = _expected(note, parts, settled, posting, postings)
    return moved_differences(f"credit note {note.number}", posting, expected, note.currency, whole=True)


def _document(note: CreditNote, posting: Posting | None) -> tuple[list[Part], list[str]]:
    name, document = f"credit note {note.number}", note.document
    found = document_differences(name, document, note.digest, posting)
    found += figures_differ(name, note, document, {one: one for one in ("net", "tax", "total")})
    if document.get("currency", {}).get("code") != note.currency:
        found.append(f"{name}: its currency is {note.currency}, and its document says another one")
    lines, parts = {one["number"]: one for one in document.get("lines", [])}, []
    for line in note.lines.all():
        line_name = f"{name}, line {line.number}"
        found += figures_differ(line_name, line, lines.pop(line.number, {}), {"share": "share", "amount": "amount"})
        parts.append(Part(line.number, line.line, "", line.share, line.amount))
        if not part_exists(note.invoice, parts[-1]):
            found.append(f"{line_name}: invoice {note.invoice.number} has no such line any more")
    return parts, found + [f"{name}, line {number} is not there any more" for number in lines]


def _expected(
    note: CreditNote, parts: list[Part], settled: Decimal, posting: Posting | None, postings: Postings
) -> dict[AccountKind, Decimal]:
    if note.invoice.state == InvoiceState.VOID:
        issue = postings.by_key.get(f"invoice:{note.invoice_id}:issue")
        entries = issue.entries if issue else {}
        reversal = {AccountKind(kind): amount.copy_negate() for (kind, _), amount in entries.items()}
        return reversal | {AccountKind.RECEIVABLE: settled.copy_negate()}
    back = {one: posting.amount(one, note.currency).copy_negate() if posting else NOTHING for one in RETURN_ACCOUNTS}
    return note_amounts(note, note.invoice, parts, settled, back)
