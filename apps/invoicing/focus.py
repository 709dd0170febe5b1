"""Usage and cost as rows of FOCUS 1.2, the FinOps Foundation's specification for cost data.

Amounts are exact. An invoice's rounding and the remainder carried to the next invoice have their own rows, so the
BilledCost of an invoice's rows before tax sums to its payable amount. A credit note appears as an invoice with
corrections. Usage that is not invoiced yet has no InvoiceId. Payments, balances and refunds have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import Organisation
from apps.invoicing.focus_charges import (
    Names,
    about_row,
    category_of,
    names_of,
    plain_row,
    promised_row,
    shortfall_row,
    usage_rows,
)
from apps.invoicing.focus_columns import COLUMNS, Row
from apps.invoicing.models import CreditNote, Invoice
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.rating import exact_sum, multiply, payable_of
from apps.pricing.rating.decimals import subtract
from apps.sales.exports import line_subject

PROVIDER = "Takt"
CHUNK = 500


def focus_rows(*, organisation: Organisation, start: datetime, end: datetime) -> Iterator[Row]:
    """Yield the charges on invoices and credit notes issued in [start, end), then the usage in that period that is not
    invoiced yet.
    """
    names = names_of(organisation)
    within = {"organisation": organisation, "issued_at__gte": start, "issued_at__lt": end}
    for invoice in Invoice.objects.filter(**within).order_by("sequence"):
        yield from _invoice_rows(invoice, names)
    for note in CreditNote.objects.filter(**within).select_related("invoice").order_by("issued_at", "number"):
        yield from _note_rows(note, names)
    waiting = UsageRow.objects.filter(
        organisation=organisation, created_at__gte=start, created_at__lt=end, invoiced__isnull=True
    )
    for usage in waiting.order_by("created_at", "id").iterator(chunk_size=CHUNK):
        yield from usage_rows(usage, _frame(names, usage.currency, *month_of(usage.created_at)), names)


def _frame(names: Names, currency: str, start: datetime, end: datetime, number: str | None = None) -> Row:
    return dict.fromkeys(column.name for column in COLUMNS) | {
        "BillingAccountId": str(names.organisation.id),
        "BillingAccountName": names.organisation.name,
        "BillingCurrency": currency,
        "BillingPeriodStart": start,
        "BillingPeriodEnd": end,
        "ChargePeriodStart": start,
        "ChargePeriodEnd": end,
        "InvoiceId": number,
        "InvoiceIssuerName": PROVIDER,
        "ProviderName": PROVIDER,
        "PublisherName": PROVIDER,
        "ServiceCategory": "AI and Machine Learning",
        "ServiceName": "Takt inference",
        "ServiceSubcategory": "Machine Learning",
    }


def _invoice_rows(invoice: Invoice, names: Names) -> Iterator[Row]:
    frame = _frame(names, invoice.currency, invoice.period_start, invoice.period_end, invoice.number)
    billed, reduced = Decimal(0), Decimal(0)
    for line in invoice.document["lines"]:
        for row in _line_rows(line, frame, names):
            billed = exact_sum([billed, row["BilledCost"]])
            reduced = exact_sum([reduced, row["ListCost"], row["BilledCost"].copy_negate()])
            yield row
    for one in invoice.document.get("adjustments", []):
        amount = Decimal(one["amount"])
        billed = exact_sum([billed, amount])
        yield _adjustment_row(frame, one, amount, names)
    rest = subtract(invoice.payable, billed)
    if rest:
        description = "Rounding, and remainders carried over between invoices"
        yield plain_row(frame, "Adjustment", rest, description)
    if invoice.tax:
        # ListCost of a tax includes the tax on the reductions.
        on_list = multiply(reduced, Decimal(invoice.document["tax_rate"]))
        more = payable_of(on_list, exponent=invoice.exponent).payable
        yield plain_row(frame, "Tax", invoice.tax, "Tax") | {"ListCost": exact_sum([invoice.tax, more])}


def _line_rows(line: dict[str, Any], frame: Row, names: Names) -> Iterator[Row]:
    ids = [row["id"] for row in line["usage"]]
    for at in range(0, len(ids), CHUNK):
        for usage in UsageRow.objects.filter(pk__in=ids[at : at + CHUNK]).order_by("occurred_from", "id"):
            yield from usage_rows(usage, frame, names)


def _adjustment_row(frame: Row, one: dict[str, Any], amount: Decimal, names: Names) -> Row:
    if one["kind"] == "shortfall":
        return shortfall_row(frame, one, amount, names)
    return plain_row(frame, category_of(one["kind"]), amount, one.get("sentence") or one["title"])


def _note_rows(note: CreditNote, names: Names) -> Iterator[Row]:
    # The corrections sum to the note's amount with tax. Their period is the period of the invoice.
    invoice = note.invoice
    frame = _frame(names, note.currency, *month_of(note.issued_at), note.number) | {
        "ChargePeriodStart": invoice.period_start,
        "ChargePeriodEnd": invoice.period_end,
        "ChargeClass": "Correction",
    }
    lines = {line["number"]: line for line in invoice.document["lines"]}
    named = {one["number"]: one for one in invoice.document.get("adjustments", [])}
    for part in note.document["lines"]:
        number, share = part["number"], Decimal(part["share"])
        if not share:
            continue
        kind = "usage" if number in lines else named.get(number, {"kind": "carried"})["kind"]
        category = "Usage" if number in lines else category_of(kind)
        description = (
            f"Credit note {note.number} for invoice {invoice.number}, line {number}, {part['title']}: {note.reason}"
        )
        row = plain_row(frame, category, share.copy_negate(), description)
        yield row | (_line_about(lines[number], names) if number in lines else _named_about(named.get(number), names))
    if note.tax:
        yield plain_row(frame, "Tax", note.tax.copy_negate(), f"Tax, credit note {note.number}")


def _line_about(line: dict[str, Any], names: Names) -> Row:
    # Only the invoice's own rows state quantities and prices.
    program, contract = line["program"] or {"digest": "", "project_id": ""}, line["contract"]
    about = about_row(
        names,
        contract=contract,
        digest=program["digest"],
        model=line_subject(line),
        project=program["project_id"],
        unused=line["kind"] != "usage",
    )
    return about | promised_row(names.commitment_of(contract), "Used")


def _named_about(adjustment: dict[str, Any] | None, names: Names) -> Row:
    if adjustment is None or adjustment["kind"] != "shortfall":
        return {}
    commitment = names.commitments[adjustment["basis"]["commitment"]]
    about = {"ResourceId": str(commitment.id), "ResourceName": f"Commitment, {commitment.kind}"}
    return promised_row(commitment, "Unused") | about | {"ResourceType": "Commitment"}
