"""The invoice lines that a credit note can credit."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from apps.invoicing.models import CreditNoteLine, Invoice, InvoiceLine
from apps.ledger.models import AccountKind
from apps.pricing.rating.decimals import subtract
from apps.sales.exports import line_title

ACCOUNTS = {
    "minimum": AccountKind.BREAKAGE,
    "shortfall": AccountKind.BREAKAGE,
    "free-tier": AccountKind.PROMOTION,
    "carried": AccountKind.REVENUE,
}
CARRIED = 0  # the line number of the remainder carried in


@dataclass(frozen=True)
class Part:
    """The credited part of one invoice line.

    `amount` is exact; `share` is a multiple of the currency's smallest unit.
    """

    number: int
    line: InvoiceLine | None
    title: str
    share: Decimal
    amount: Decimal


@dataclass(frozen=True)
class CreditLine:
    """An invoice line with its share of the rounded total and the amount left to credit."""

    number: int
    title: str
    share: Decimal
    left: Decimal


def credit_lines(invoice: Invoice) -> list[CreditLine]:
    """Return every line of an invoice with the amount left to credit."""
    lines = {line.number: line for line in invoice.lines.all()}
    numbers = [*lines, *adjustments_by_number(invoice), *([CARRIED] if invoice.carried_in else [])]
    taken = dict(
        CreditNoteLine.objects.filter(credit_note__invoice=invoice)
        .order_by()
        .values_list("number")
        .annotate(share=Sum("share"))
    )
    found = []
    for number in sorted(numbers):
        share, _ = line_amounts(invoice, number, lines.get(number))
        left = subtract(share, taken.get(number) or Decimal(0))
        found.append(CreditLine(number, title_of(invoice, number), share, left))
    return found


def adjustments_by_number(invoice: Invoice) -> dict[int, dict[str, Any]]:
    """Return the invoice lines that are not usage lines, by line number."""
    return {one["number"]: one for one in invoice.document.get("adjustments", [])}


def line_amounts(invoice: Invoice, number: int, line: InvoiceLine | None) -> tuple[Decimal, Decimal]:
    """Return a line's share of the rounded total and its exact amount."""
    if line is not None:
        return line.share, line.amount
    if number == CARRIED:
        return Decimal(invoice.document["carried_in_share"]), invoice.carried_in
    one = adjustments_by_number(invoice)[number]
    return Decimal(one["share"]), Decimal(one["amount"])


def part_exists(invoice: Invoice, part: Part) -> bool:
    """Return whether the invoice has the line that the part credits."""
    return part.line is not None or part.number == CARRIED or part.number in adjustments_by_number(invoice)


def part_account(invoice: Invoice, part: Part) -> AccountKind:
    """Return the account to which the part's invoice line was posted."""
    if part.line is not None:
        return AccountKind.REVENUE if part.line.kind == "usage" else AccountKind.BREAKAGE
    return adjustment_account(
        adjustments_by_number(invoice)[part.number]["kind"] if part.number != CARRIED else "carried"
    )


def adjustment_account(kind: str) -> AccountKind:
    """Return the account for an adjustment of this kind."""
    return ACCOUNTS.get(kind, AccountKind.CREDIT)


def title_of(invoice: Invoice, number: int) -> str:
    if number == CARRIED:
        return "Carried from the previous invoice"
    if number in adjustments_by_number(invoice):
        return str(adjustments_by_number(invoice)[number]["title"])
    return line_title(invoice.document["lines"][number - 1])
