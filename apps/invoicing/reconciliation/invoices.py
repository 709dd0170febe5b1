"""Compares invoices and their lines with documents, postings, usage and settlements."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Sum

from apps.invoicing.models import Invoice, InvoicedUsage, InvoiceLine, InvoiceState, ReleasedUsage, Settlement
from apps.invoicing.reconciliation.postings import (
    NOTHING,
    Postings,
    document_differences,
    figures_differ,
    moved_differences,
)
from apps.invoicing.services.credit_lines import adjustment_account
from apps.ledger.altered import compared
from apps.ledger.models import AccountKind
from apps.pricing.rating import RULES, decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.documents import stamp

FIGURES = {
    one: one for one in ("net", "carried_in", "carried_out", "correction", "payable", "tax", "due")
}  # attribute of the row -> key of its document
LINE_FIGURES = {"amount": "amount", "share": "share", "quantity": "executions"}


def invoice_differences(organisation_id: UUID, postings: Postings) -> list[str]:
    """Return a sentence for each difference found in the organisation's invoices."""
    lines: dict[UUID, list[InvoiceLine]] = {}
    for line in InvoiceLine.objects.filter(invoice__organisation_id=organisation_id).order_by("invoice_id", "number"):
        lines.setdefault(line.invoice_id, []).append(line)
    settled = _by(Settlement.objects.filter(invoice__organisation_id=organisation_id), "invoice", "amount")
    of_ours = {"line__invoice__organisation_id": organisation_id}
    claimed = _by(InvoicedUsage.objects.filter(**of_ours), "line", "usage__amount")
    released = _by(ReleasedUsage.objects.filter(**of_ours), "line", "usage__amount")
    found = []
    for invoice in (
        Invoice.objects.filter(organisation_id=organisation_id).order_by("sequence").iterator(chunk_size=100)
    ):
        ours = lines.get(invoice.id, [])
        sums = released if invoice.state == InvoiceState.VOID else claimed
        found += _invoice(invoice, ours, postings, settled.get(invoice.id, NOTHING), sums)
    return found


def _invoice(
    invoice: Invoice, lines: list[InvoiceLine], postings: Postings, settled: Decimal, sums: dict[UUID, Decimal]
) -> list[str]:
    name = f"invoice {invoice.number}"
    found = compared(name, lambda: _paper(invoice, lines, postings))
    found += compared(name, lambda: _open(invoice, settled))
    return found + compared(name, lambda: _usage(invoice, lines, sums))


def _by(rows: Any, group: str, amount: str) -> dict[UUID, Decimal]:
    return dict(rows.order_by().values_list(group).annotate(sum=Sum(amount)))


def _paper(invoice: Invoice, lines: list[InvoiceLine], postings: Postings) -> list[str]:
    name, document = f"invoice {invoice.number}", invoice.document
    posting = postings.take(f"invoice:{invoice.id}:issue")
    found = document_differences(name, document, invoice.digest, posting)
    found += figures_differ(name, invoice, document, FIGURES)
    if document.get("due_at") != stamp(invoice.due_at):
        found.append(f"{name}: it is due at {stamp(invoice.due_at)}, and its document says {document.get('due_at')}")
    if document.get("currency", {}).get("code") != invoice.currency:
        found.append(f"{name}: its currency is {invoice.currency}, and its document says another one")
    found += compared(name, lambda: _rules(name, invoice))
    if found:  # the document cannot be used for the rest
        expected = {AccountKind.RECEIVABLE: invoice.due, AccountKind.TAX: invoice.tax.copy_negate()}
        return found + moved_differences(name, posting, expected, invoice.currency)
    found += _lines(name, lines, document["lines"])
    return found + moved_differences(name, posting, _expected(invoice), invoice.currency, whole=True)


def _rules(name: str, invoice: Invoice) -> list[str]:
    document, stated = invoice.document, NOTHING
    found = [] if document.get("rules", 1) == invoice.rules else [f"{name}: its document has other rules than its row"]
    if invoice.rules >= RULES:
        stated = subtract(Decimal(document["tax_carried_out"]), Decimal(document["tax_carried_in"]))
    if stated != invoice.tax_carried:
        found.append(
            f"{name}: {decimal_text(invoice.tax_carried)} of its tax is carried, and its document says {decimal_text(stated)}"
        )
    return found


def _lines(name: str, lines: list[InvoiceLine], stated: Iterable[dict[str, Any]]) -> list[str]:
    found, rows = [], {line.number: line for line in lines}
    for one in stated:
        line = rows.pop(one["number"], None)
        line_name = f"{name}, line {one['number']}"
        if line is None:
            found.append(f"{line_name} is not there any more")
            continue
        found += figures_differ(line_name, line, one, LINE_FIGURES)
        if str(line.contract_id) != one["contract"]:
            found.append(f"{line_name}: its contract is another one than its document says")
    return found + [f"{name}, line {number}: its document has no such line" for number in rows]


def _expected(invoice: Invoice) -> dict[AccountKind, Decimal]:
    adjustments = [(one["kind"], Decimal(one["amount"])) for one in invoice.document.get("adjustments", [])]
    of_usage = subtract(invoice.net, exact_sum(amount for _, amount in adjustments))
    asked = subtract(exact_sum([of_usage, invoice.carried_in]), invoice.carried_out)
    amounts = {
        AccountKind.RECEIVABLE: invoice.due,
        AccountKind.TAX: invoice.tax.copy_negate(),
        AccountKind.ACCRUED: asked.copy_negate(),
        AccountKind.ROUNDING: invoice.correction,
    }
    for kind, amount in adjustments:
        account = adjustment_account(kind)
        amounts[account] = subtract(amounts.get(account, NOTHING), amount)
    return amounts


def _open(invoice: Invoice, settled: Decimal) -> list[str]:
    name, rest = f"invoice {invoice.number}", subtract(invoice.due, settled)
    found = []
    if invoice.open != rest:
        found.append(
            f"{name}: {decimal_text(invoice.open)} of it is open, and what settled it leaves {decimal_text(rest)}"
        )
    if invoice.is_waiting != bool(invoice.open):
        found.append(f"{name} is {invoice.get_state_display().lower()} with {decimal_text(invoice.open)} open")
    return found


def _usage(invoice: Invoice, lines: list[InvoiceLine], sums: dict[UUID, Decimal]) -> list[str]:
    return [
        f"invoice {invoice.number}, line {line.number}: its usage comes to {decimal_text(sums.get(line.id, NOTHING))}, not "
        f"{decimal_text(line.amount)}"
        for line in lines
        if sums.get(line.id, NOTHING) != line.amount
    ]
