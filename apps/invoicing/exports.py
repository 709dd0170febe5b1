"""Exports stored invoices and credit notes as PDF, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from apps.figures import count_format, money_exact_format, money_format
from apps.invoicing.models import CreditNote, Invoice
from apps.invoicing.payments import provider_of
from apps.sales.exports import UNIT_PRICES, instant, line_title, step_of, step_table, steps_csv

if TYPE_CHECKING:
    from apps.sales.pdf import PdfDocument

# The totals of an invoice document; `correction` is the rounding difference.
TOTALS = ("net", "carried_in", "total", "correction", "carried_out", "payable", "tax", "due")


SAMPLE = "Sample data of a demo: nobody owes this amount."


def invoice_json(invoice: Invoice) -> str:
    """Return the document with its digest as JSON, the input of `takt verify`."""
    return json.dumps({**invoice.document, "digest": invoice.digest}, indent=1, ensure_ascii=False) + "\n"


def invoice_csv(invoice: Invoice) -> str:
    """Return the invoice as CSV: one row for each step of each usage line, then the other lines and the totals."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    code = invoice.document["currency"]["code"]
    for one in invoice.document.get("adjustments", []):
        writer.writerow(
            [one["number"], one["title"], *[""] * 5, one["kind"], "add", "", "", one["amount"], code, one["sentence"]]
        )
    if "sample" in invoice.document:
        writer.writerow(["", f"Invoice {invoice.number}", *[""] * 5, "sample", "", "", "", "", code, SAMPLE])
    for name in TOTALS:
        writer.writerow(
            ["", f"Invoice {invoice.number}", *[""] * 5, name, "", "", "", invoice.document[name], code, ""]
        )
    return steps_csv(invoice.document["lines"]) + buffer.getvalue()


def invoice_pdf(invoice: Invoice) -> bytes:
    """Return the invoice as PDF."""
    from apps.sales.pdf import PdfDocument  # ReportLab: most processes never write a PDF

    document = invoice.document
    currency = document["currency"]  # with the decimal places of the total
    pdf = PdfDocument(
        title=f"Invoice {invoice.number}", footer=f"Invoice {invoice.number} - digest {invoice.digest[:32]}..."
    )
    pdf.definitions(
        [
            *_addressee(document["addressee"]),
            ("Number", invoice.number),
            ("Issued", instant(document["issued_at"])),
            ("Due", instant(document["due_at"])),
            ("Period", f"{instant(document['period']['start'])} to {instant(document['period']['end'])}"),
        ]
    )
    if "sample" in document:
        pdf.text(SAMPLE)
    _print_lines(pdf, document, currency)
    pdf.definitions(_totals(document, currency))
    instructions = provider_of(invoice).instructions(invoice)
    if Decimal(document["due"]):
        pdf.heading(instructions.title)
        pdf.text(f"{instructions.text} Reference: {instructions.reference}.")
    _print_comparison(pdf, document, currency)
    for line in document["lines"]:
        pdf.heading(f"Why this amount: line {line['number']}")
        step_table(pdf, line["rating"]["steps"], currency)
    pdf.text(UNIT_PRICES, small=True)
    _print_check(pdf, invoice)
    return pdf.print()


def _addressee(addressee: dict[str, Any]) -> list[tuple[str, str]]:
    named = (("To", "name"), ("Address", "address"), ("Tax id", "tax_id"))
    return [(title, addressee[key]) for title, key in named if addressee[key] or key == "name"]


def _print_lines(pdf: PdfDocument, document: dict[str, Any], currency: dict[str, Any]) -> None:
    adjustments = document.get("adjustments", [])
    pdf.heading("Lines")
    pdf.table(
        ["", "Item", "Executions", "Billed operations", "Exact amount", f"Share ({currency['code']})"],
        [
            *(_row(line, currency) for line in document["lines"]),
            *(_adjustment_row(one, currency) for one in adjustments),
        ],
        widths=(0.05, 0.27, 0.15, 0.2, 0.18, 0.15),
        right=4,
        fine=True,
    )
    for one in adjustments:
        pdf.text(f"{one['number']}. {one['title']}: {one['sentence']}", small=True)
    for line in document["lines"]:
        if "downgrade" in line:
            saved = money_exact_format(line["downgrade"]["saved"], currency)
            pdf.text(f"{line['number']}. {line['downgrade']['sentence']} Saved: {saved}.", small=True)


def _print_comparison(pdf: PdfDocument, document: dict[str, Any], currency: dict[str, Any]) -> None:
    pdf.heading("Quoted against actual")
    for one in document["quoted_against_actual"]:
        quoted, actual, rest = (money_exact_format(one[key], currency) for key in ("quoted", "actual", "difference"))
        pdf.text(f"Contract {one['contract']}: quoted {quoted}, actual {actual}, difference {rest}.")
        for named in one["named"]:
            pdf.text(f"- {named['sentence']}", small=True)


def _print_check(pdf: PdfDocument, invoice: Invoice) -> None:
    pdf.heading("Check it yourself")
    pdf.text(
        "Download the invoice and the price book as JSON. Then run the commands below offline with the model file. "
        "In the commands, ./takt is the path of a Takt checkout or of a wheel built from it."
    )
    pdf.code("pip install ./takt")
    pdf.code(f"takt verify {invoice.number}.json model.onnx price-book.json")
    pdf.code(f"invoice {invoice.digest}")
    for line in invoice.document["lines"]:
        if line["program"] is not None:
            pdf.code(f"line {line['number']}: program {line['program']['digest']}")


def _row(line: dict[str, Any], currency: dict[str, Any]) -> list[str]:
    return [
        str(line["number"]),
        line_title(line),
        count_format(line["executions"]) if line["kind"] != "minimum" else "",
        count_format(step_of(line, "billed")["result"]) if line["kind"] not in {"minimum", "late"} else "",
        money_exact_format(line["amount"], currency),
        money_format(line["share"], currency),
    ]


def _adjustment_row(one: dict[str, Any], currency: dict[str, Any]) -> list[str]:
    amount, share = money_exact_format(one["amount"], currency), money_format(one["share"], currency)
    return [str(one["number"]), one["title"], "", "", amount, share]


def credit_note_json(note: CreditNote) -> str:
    """Return the credit note's document with its digest, as JSON."""
    return json.dumps({**note.document, "digest": note.digest}, indent=1, ensure_ascii=False) + "\n"


def credit_note_csv(note: CreditNote) -> str:
    """Return the credit note as CSV, with one row for each credited line."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["credit_note", "invoice", "line", "title", "exact_amount", "share", "currency"])
    for line in note.document["lines"]:
        writer.writerow(
            [
                note.number,
                note.document["invoice"]["number"],
                line["number"],
                line["title"],
                line["amount"],
                line["share"],
                note.currency,
            ]
        )
    return buffer.getvalue()


def credit_note_pdf(note: CreditNote) -> bytes:
    """Return the credit note as PDF."""
    from apps.sales.pdf import PdfDocument  # ReportLab: most processes never write a PDF

    document = note.document
    currency = note.invoice.document["currency"]
    title = f"Credit note {note.number}"
    pdf = PdfDocument(title=title, footer=f"{title} - digest {note.digest[:32]}...")
    pdf.definitions(
        [
            *_addressee(document["addressee"]),
            ("Number", note.number),
            ("Issued", instant(document["issued_at"])),
            ("Invoice", document["invoice"]["number"]),
            ("Reason", document["reason"]),
        ]
    )
    pdf.heading("Credited")
    pdf.table(
        ["Line", "Item", "Exact amount", f"Share ({currency['code']})"],
        [
            [
                str(line["number"]),
                line["title"],
                money_exact_format(line["amount"], currency),
                money_format(line["share"], currency),
            ]
            for line in document["lines"]
        ],
        widths=(0.08, 0.5, 0.24, 0.18),
        right=2,
    )
    pdf.definitions(
        [
            ("Net", money_format(document["net"], currency)),
            (f"Tax, {_percent(document['tax_rate'])}", money_format(document["tax"], currency)),
            ("Credited", money_format(document["total"], currency)),
        ]
    )
    pdf.text(
        "This credit note is first applied to the open amount of the invoice. The rest is added to your balance and "
        "applied to the next invoice."
    )
    pdf.code(f"credit note {note.digest}")
    pdf.code(f"invoice {document['invoice']['digest']}")
    return pdf.print()


def _totals(document: dict[str, Any], currency: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("Net, exact", money_exact_format(document["net"], currency))]
    if Decimal(document["carried_in"]):
        rows.append(("Carried from earlier invoices", money_exact_format(document["carried_in"], currency)))
    rows.append(("Total, exact", money_exact_format(document["total"], currency)))
    if Decimal(document["correction"]):
        rows.append(("Rounding", money_exact_format(Decimal(document["correction"]).copy_negate(), currency)))
    if Decimal(document["carried_out"]):
        rows.append(("Carried to the next invoice", money_exact_format(document["carried_out"], currency)))
    rows.append(("Payable", money_format(document["payable"], currency)))
    if "tax_note" in document:
        rows.append(("Tax note", document["tax_note"]))
    if Decimal(document.get("tax_carried_in", "0")):
        rows.append(("Tax carried from earlier invoices", money_exact_format(document["tax_carried_in"], currency)))
    rows.append((f"Tax, {_percent(document['tax_rate'])}", money_format(document["tax"], currency)))
    rows.append(("Total with tax", money_format(document["due"], currency)))
    return rows


def _percent(rate: str) -> str:
    return f"{(Decimal(rate) * 100).normalize():f} %"
