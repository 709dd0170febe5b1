"""Usage and cost in the columns of FOCUS 1.2, the FinOps Foundation's specification of cost data.

Amounts are exact and never rounded: what an invoice's one rounding moved, and what it carries to the next, is a row of
its own, so that the BilledCost of an invoice's rows sums to what it asks to be paid, to the last digit. Usage that is on
no invoice yet has no InvoiceId.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, localcontext
from typing import Any

from apps.accounts.models import Organisation
from apps.billing.models import Invoice
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.rating import Rating, decimal_text, exact_sum
from apps.pricing.rating.book import NO_COMMITMENT
from apps.pricing.rating.decimals import CONTEXT, TERA, subtract
from apps.registry.models import Project

PROVIDER = "Takt"
UNIT = "Tera-operations"  # 10^12 operations
CREDITS = frozenset({"credit", "free-tier", "guarantee"})
CHUNK = 500


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in the specification, whether it may be null, and its only values."""

    name: str
    kind: str
    nullable: bool = True
    values: tuple[str, ...] = ()


# In the alphabetical order of the specification; `x_` columns are ours, as it allows.
COLUMNS = (
    Column("BilledCost", "decimal", nullable=False),
    Column("BillingAccountId", "string", nullable=False),
    Column("BillingAccountName", "string"),
    Column("BillingCurrency", "string", nullable=False),
    Column("BillingPeriodEnd", "datetime", nullable=False),
    Column("BillingPeriodStart", "datetime", nullable=False),
    Column("CapacityReservationId", "string"),
    Column("CapacityReservationStatus", "string", values=("Used", "Unused")),
    Column("ChargeCategory", "string", nullable=False, values=("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    Column("ChargeClass", "string", values=("Correction",)),
    Column("ChargeDescription", "string"),
    Column("ChargeFrequency", "string", nullable=False, values=("One-Time", "Recurring", "Usage-Based")),
    Column("ChargePeriodEnd", "datetime", nullable=False),
    Column("ChargePeriodStart", "datetime", nullable=False),
    Column("ConsumedQuantity", "decimal"),
    Column("ConsumedUnit", "string"),
    Column("ContractedCost", "decimal", nullable=False),
    Column("ContractedUnitPrice", "decimal"),
    Column("EffectiveCost", "decimal", nullable=False),
    Column("InvoiceId", "string"),
    Column("InvoiceIssuerName", "string", nullable=False),
    Column("ListCost", "decimal", nullable=False),
    Column("ListUnitPrice", "decimal"),
    Column("PricingCategory", "string", values=("Standard", "Dynamic", "Committed", "Other")),
    Column("PricingQuantity", "decimal"),
    Column("PricingUnit", "string"),
    Column("ProviderName", "string", nullable=False),
    Column("PublisherName", "string", nullable=False),
    Column("ResourceId", "string"),
    Column("ResourceName", "string"),
    Column("ResourceType", "string"),
    Column("ServiceCategory", "string", nullable=False, values=("AI and Machine Learning",)),
    Column("ServiceName", "string", nullable=False),
    Column("ServiceSubcategory", "string", nullable=False, values=("Machine Learning",)),
    Column("SkuId", "string"),
    Column("SkuMeter", "string"),
    Column("SkuPriceDetails", "json"),
    Column("SkuPriceId", "string"),
    Column("SubAccountId", "string"),
    Column("SubAccountName", "string"),
    Column("SubAccountType", "string"),
    Column("x_Executions", "decimal"),
    Column("x_UsageDigest", "string"),
)

Row = dict[str, Any]


def focus_rows(*, organisation: Organisation, start: datetime, end: datetime) -> Iterator[Row]:
    """Every charge of the invoices issued in [start, end), then what was recorded there and is not invoiced yet."""
    projects = {
        str(pk): name for pk, name in Project.objects.filter(organisation=organisation).values_list("pk", "name")
    }
    invoices = Invoice.objects.filter(organisation=organisation, issued_at__gte=start, issued_at__lt=end)
    for invoice in invoices.order_by("sequence"):
        yield from _invoice_rows(invoice, organisation, projects)
    waiting = UsageRow.objects.filter(
        organisation=organisation, created_at__gte=start, created_at__lt=end, invoiced__isnull=True
    )
    for usage in waiting.order_by("created_at", "id").iterator(chunk_size=CHUNK):
        yield _usage_row(usage, _frame(organisation, usage.currency, *month_of(usage.created_at)), projects)


def _frame(organisation: Organisation, currency: str, start: datetime, end: datetime, number: str | None = None) -> Row:
    """What every row of a billing period says."""
    return dict.fromkeys(column.name for column in COLUMNS) | {
        "BillingAccountId": str(organisation.id),
        "BillingAccountName": organisation.name,
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


def _invoice_rows(invoice: Invoice, organisation: Organisation, projects: dict[str, str]) -> Iterator[Row]:
    frame = _frame(organisation, invoice.currency, invoice.period_start, invoice.period_end, invoice.number)
    rows = UsageRow.objects.filter(invoiced__line__invoice=invoice).order_by(
        "invoiced__line__number", "occurred_from", "id"
    )
    billed = Decimal(0)
    for usage in rows.iterator(chunk_size=CHUNK):
        billed = exact_sum([billed, usage.amount])
        yield _usage_row(usage, frame, projects)
    for one in invoice.document.get("adjustments", []):
        amount = Decimal(one["amount"])
        billed = exact_sum([billed, amount])
        category = "Credit" if one["kind"] in CREDITS else "Adjustment"
        yield _plain_row(frame, category, amount, one.get("sentence") or one["title"])
    rest = subtract(invoice.payable, billed)
    if rest:
        said = "Rounding of the invoice, and what is carried from the last and to the next one"
        yield _plain_row(frame, "Adjustment", rest, said)
    if invoice.tax:
        yield _plain_row(frame, "Tax", invoice.tax, "Tax")


def _plain_row(frame: Row, category: str, amount: Decimal, said: str) -> Row:
    costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), amount)
    return frame | costs | {"ChargeCategory": category, "ChargeFrequency": "One-Time", "ChargeDescription": said}


def _usage_row(usage: UsageRow, frame: Row, projects: dict[str, str]) -> Row:
    rating = Rating.from_json(usage.rating)
    listed, terms = rating.step("list"), rating.terms
    quantity = CONTEXT.scaleb(listed.input, -TERA)
    committed = terms.commitment != NO_COMMITMENT
    project = str(usage.project_id) if usage.project_id else None
    sku = f"{terms.processor_class}/{terms.precision}"
    details = {"x_Class": terms.klass, "x_Commitment": terms.commitment, "x_PriceBook": str(rating.book_version)}
    return frame | {
        "BilledCost": usage.amount,
        "CapacityReservationId": str(usage.contract_id),
        "CapacityReservationStatus": "Unused" if rating.unused else "Used",
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{usage.quantity} executions of {usage.model_name} on {sku}, class {terms.klass}"
        + (", reserved and not used" if rating.unused else ""),
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodStart": usage.occurred_from,
        "ChargePeriodEnd": usage.occurred_to,
        "ConsumedQuantity": quantity,
        "ConsumedUnit": UNIT,
        "ContractedCost": usage.amount,
        "ContractedUnitPrice": _unit_price(usage.amount, quantity),
        "EffectiveCost": usage.amount,
        "ListCost": listed.result,
        "ListUnitPrice": listed.factor,
        "PricingCategory": "Committed" if committed else "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": UNIT,
        "ResourceId": usage.program_digest or str(usage.contract_id),
        "ResourceName": usage.model_name,
        "ResourceType": "Compiled program",
        "SkuId": sku,
        "SkuMeter": "Billed operations",
        "SkuPriceDetails": details,
        "SkuPriceId": f"{rating.book_digest[:16]}/{sku}/{terms.klass}/{terms.commitment}",
        "SubAccountId": project,
        "SubAccountName": projects.get(project, project) if project else None,
        "SubAccountType": "Project" if project else None,
        "x_Executions": Decimal(usage.quantity),
        "x_UsageDigest": usage.payload_digest,
    }


def _unit_price(amount: Decimal, quantity: Decimal) -> Decimal:
    """What one unit came to; where hours of several prices share a row and it has no end, to 60 places."""
    try:
        return CONTEXT.divide(amount, quantity)
    except Inexact:
        with localcontext(Context(prec=120)):
            return (amount / quantity).quantize(Decimal(1).scaleb(-60))


def focus_csv(rows: Iterator[Row]) -> Iterator[str]:
    """CSV, a line at a time: nulls are empty, instants in whole seconds of UTC, numbers with every digit."""
    yield _line([column.name for column in COLUMNS])
    for row in rows:
        yield _line([_text(column, row) for column in COLUMNS])


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _text(column: Column, row: Row) -> str:
    value = row[column.name]
    if value is None:
        return ""
    if column.kind == "decimal":
        return decimal_text(value)
    if column.kind == "datetime":
        return _instant(value, up=column.name.endswith("End"))
    if column.kind == "json":
        return json.dumps(value, sort_keys=True)
    return f"'{value}" if value[:1] in "=+-@\t\r" else str(value)


def _instant(value: datetime, *, up: bool) -> str:
    """Starts are inclusive and rounded down, ends exclusive and rounded up."""
    whole = value.astimezone(UTC).replace(microsecond=0)
    if up and whole < value:
        whole += timedelta(seconds=1)
    return f"{whole:%Y-%m-%dT%H:%M:%SZ}"
