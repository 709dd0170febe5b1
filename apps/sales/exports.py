"""Quotes as PDF, CSV and JSON files."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse

from apps.figures import Currency, count_format, duration_format, instant_format, money_exact_format, money_format
from apps.pricing.rating.shown import step_shown
from apps.sales.contract_minimum import TITLE, minimum_quoted
from apps.sales.loading import loading_sentence
from apps.sales.models import Quote
from apps.sales.snapshots import ProgramSnapshot, snapshot_of_line

if TYPE_CHECKING:
    from apps.sales.pdf import PdfDocument

UNIT_PRICES = "Unit prices are shown with four significant digits but computed with all digits, which are in the JSON."
CSV_HEAD = (
    "line",
    "model",
    "program_digest",
    "processor_class",
    "precision",
    "class",
    "executions",
    "step",
    "operation",
    "input",
    "factor",
    "result",
    "unit",
    "rule",
)


def quote_file_response(quote: Quote, kind: str) -> HttpResponse:
    """Return a quote as a download."""
    writers = {
        "pdf": ("application/pdf", lambda: quote_pdf(quote)),
        "csv": ("text/csv; charset=utf-8", lambda: steps_csv(priced_lines(quote.document))),
        "json": ("application/json", lambda: quote_json(quote)),
    }
    content_type, write = writers[kind]
    response = HttpResponse(write(), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{quote.reference}.{kind}"'
    return response


def quote_json(quote: Quote) -> str:
    """Return the document and the digest of a quote as indented JSON."""
    return json.dumps({**quote.document, "digest": quote.digest}, indent=1, ensure_ascii=False) + "\n"


def steps_csv(lines: list[dict[str, Any]]) -> str:
    """Return the price steps of a quote or an invoice as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(CSV_HEAD)
    writer.writerows(_rows(lines))
    return buffer.getvalue()


def _rows(lines: list[dict[str, Any]]) -> Iterator[list[Any]]:
    for line in lines:
        rating, program = line["rating"], line["program"] or {"digest": ""}
        terms = rating["terms"]
        for step in rating["steps"]:
            yield [
                line["number"],
                text_cell(line_subject(line)),
                program["digest"],
                terms["processor_class"],
                terms["precision"],
                terms["klass"],
                rating["executions"],
                step["name"],
                step["operation"],
                step["input"],
                step["factor"],
                step["result"],
                step["unit"],
                step["rule"],
            ]


def priced_lines(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the priced lines of a quote. The shortfall against the contract minimum, if any, is the last line."""
    lines: list[dict[str, Any]] = document["lines"]
    if not minimum_quoted(document):
        return lines
    return [*lines, {**document["minimum"], "number": len(lines) + 1, "program": None, "executions": 1}]


def line_subject(line: dict[str, Any]) -> str:
    """Return what a line charges for: a program, a quota, or the contract minimum."""
    if "charged" in line["rating"]:
        return TITLE
    if line["program"] is None and "quota" not in line:  # a quota on an invoice
        return f"any {line['rating']['terms']['precision']} program"
    return snapshot_of_line(line).model


def line_machine(line: dict[str, Any]) -> str:
    """Return the pool and the processor class of a line. Old documents state only the processor class."""
    processor_class = str(line["rating"]["terms"]["processor_class"])
    return f"{line['pool']['name']} ({processor_class})" if "pool" in line else processor_class


def line_title(line: dict[str, Any]) -> str:
    """Return the title of an invoice line."""
    if "charged" in line["rating"]:
        return TITLE
    name = f"{line_subject(line)} on {line_machine(line)}, {line['rating']['terms']['klass']}"
    marks = {"unused": "unused", "late": "late cancellation"}
    return f"{name} ({marks[line['kind']]})" if line["kind"] in marks else name


def text_cell(text: str) -> str:
    """Return the text, prefixed with an apostrophe if a spreadsheet would read the text as a formula."""
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def quote_pdf(quote: Quote) -> bytes:
    """Return the quote as PDF."""
    from apps.sales.pdf import PdfDocument  # ReportLab: most processes never write a PDF

    document = quote.document
    currency = document["currency"]  # with its decimal places
    pdf = PdfDocument(title=f"Quote {quote.reference}", footer=f"Quote {quote.id} - digest {quote.digest[:32]}...")
    pdf.definitions(
        [
            ("For", document["organisation"]["name"]),
            *([("Name", quote.name)] if quote.name else []),
            ("Identifier", document["id"]),
            ("Made", instant(document["created_at"])),
            ("Price locked until", instant(document["valid_until"])),
            ("Class", f"{document['class']['title']}: {document['class']['promise']}"),
            ("Pool", f"{document['pool']['name']} ({document['pool']['processor_class']})"),
            ("Window", f"{instant(document['window']['start'])} to {instant(document['window']['end'])}"),
            ("Reserved time", duration_format(document["device_seconds"])),
            *([("Loading", loading_sentence(document["loading"]))] if "loading" in document else []),
            ("Price book", f"version {document['book']['version']}"),
        ]
    )
    _lines(pdf, document, currency)
    totals = [("Net, worst case (held)", money_exact_format(document["net"], currency))]
    if document["expected"] != document["net"]:
        totals.append(("Expected", money_exact_format(document["expected"], currency)))
    totals.append(("Payable if everything is used", money_format(document["payable"], currency)))
    pdf.definitions(totals)
    _amendment(pdf, document, currency)
    _steps(pdf, priced_lines(document), currency)
    pdf.heading("Assumptions")
    for sentence in document["assumptions"]:
        pdf.text(sentence, small=True)
    pdf.heading("Digests")
    pdf.code(f"quote {quote.digest}")
    pdf.code(f"price book {document['book']['digest']}")
    for line in document["lines"]:
        if line["program"] is not None:
            pdf.code(f"program {line['program']['digest']}")
    return pdf.print()


def _lines(pdf: PdfDocument, document: dict[str, Any], currency: dict[str, Any]) -> None:
    pdf.heading("Lines")
    pdf.table(
        ["", "Program", "Executions", "Billed operations", f"Amount ({currency['code']})"],
        [
            [
                str(line["number"]),
                _line_title(snapshot_of_line(line), line_machine(line)),
                "" if line["program"] is None else count_format(line["executions"]),
                count_format(step_of(line, "billed")["result"]),
                money_exact_format(line["amount"], currency),
            ]
            for line in document["lines"]
        ]
        + [
            [str(line["number"]), TITLE, "", "", money_exact_format(line["amount"], currency)]
            for line in priced_lines(document)[len(document["lines"]) :]
        ],
        widths=(0.05, 0.35, 0.16, 0.2, 0.24),
        right=3,
    )


def _amendment(pdf: PdfDocument, document: dict[str, Any], currency: dict[str, Any]) -> None:
    amended = document.get("amends")
    if amended is None:
        return
    pdf.heading("Change from the contract")
    pdf.definitions(
        [
            ("Amends", f"contract {amended['contract']}"),
            ("Ends, as quoted", money_exact_format(amended["rest"], currency)),
            ("Charge for ending the contract", money_exact_format(amended["charge"], currency)),
            ("Change in total", money_exact_format(amended["difference"], currency)),
        ]
    )


def _line_title(snapshot: ProgramSnapshot, machine: str) -> str:
    if snapshot.is_quota:
        return f"Quota: {snapshot.model} on {machine}"
    return f"{snapshot.model} on {machine}, {snapshot.precision}"


def _steps(pdf: PdfDocument, lines: list[dict[str, Any]], currency: Currency) -> None:
    for line in lines:
        pdf.heading(f"Why this price: line {line['number']}")
        step_table(pdf, line["rating"]["steps"], currency)
    pdf.text(UNIT_PRICES, small=True)


def step_table(pdf: PdfDocument, steps: list[dict[str, str]], currency: Currency) -> None:
    """Add a table of price steps."""
    shown = [step_shown(step, currency) for step in steps]
    pdf.table(
        ["Step", "Rule", "Input", "Factor", "Result"],
        [[step.title, step.rule, step.input, step.factor, step.result] for step in shown],
        widths=(0.13, 0.33, 0.18, 0.17, 0.19),
        right=3,
        fine=True,
    )


def instant(text: str) -> str:
    """Format an instant of a document to the minute, in UTC."""
    return instant_format(datetime.fromisoformat(text))


def step_of(line: dict[str, Any], name: str) -> dict[str, str]:
    """Return a line's price step with this name."""
    found: dict[str, str] = next(step for step in line["rating"]["steps"] if step["name"] == name)
    return found
