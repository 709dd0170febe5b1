"""Usage and cost in the rows of FOCUS 1.2, the FinOps Foundation's specification of cost data.

Amounts are exact and never rounded: what an invoice's one rounding moved, and what it carries to the next, is a row of
its own, so that the BilledCost of an invoice's rows before tax sums to its payable, to the last digit. A credit note is an
invoice of its own in these rows, of corrections. Usage that is on no invoice yet has no InvoiceId. Payments, balances and
refunds of money settle charges and are none, so they have no rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import Organisation
from apps.billing.focus_columns import COLUMNS, Row
from apps.billing.models import CreditNote, Invoice
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.rating import Rating, exact_sum, multiply
from apps.pricing.rating.decimals import CONTEXT, TERA, subtract
from apps.registry.models import Project
from apps.sales.models import Commitment, Contract

PROVIDER = "Takt"
UNIT = "Tera-operations"  # 10^12 operations
CREDITS = frozenset({"credit", "free-tier", "guarantee"})
CHUNK = 500


@dataclass(frozen=True)
class Names:
    """What rows name beside their own: the organisation, its projects, and of each contract where it ran and under which
    commitment."""

    organisation: Organisation
    projects: dict[str, str]
    regions: dict[str, tuple[str, str]]
    commitments: dict[str, Commitment]


@dataclass(frozen=True)
class Part:
    """The executions of a usage row that have one price."""

    name: str
    executions: int
    quantity: Decimal
    listed: Decimal
    amount: Decimal


def focus_rows(*, organisation: Organisation, start: datetime, end: datetime) -> Iterator[Row]:
    """Every charge of the invoices and credit notes issued in [start, end), then what was recorded there and is not
    invoiced yet."""
    names = _names(organisation)
    within = {"organisation": organisation, "issued_at__gte": start, "issued_at__lt": end}
    for invoice in Invoice.objects.filter(**within).order_by("sequence"):
        yield from _invoice_rows(invoice, names)
    for note in CreditNote.objects.filter(**within).select_related("invoice").order_by("issued_at", "number"):
        yield from _note_rows(note, names)
    waiting = UsageRow.objects.filter(
        organisation=organisation, created_at__gte=start, created_at__lt=end, invoiced__isnull=True
    )
    for usage in waiting.order_by("created_at", "id").iterator(chunk_size=CHUNK):
        yield from _usage_rows(usage, _frame(names, usage.currency, *month_of(usage.created_at)), names)


def _names(organisation: Organisation) -> Names:
    contracts = Contract.objects.filter(organisation=organisation).select_related("pool__site", "commitment")
    regions: dict[str, tuple[str, str]] = {}
    commitments: dict[str, Commitment] = {}
    for contract in contracts.only("id", "pool__site__slug", "pool__site__name", "commitment").iterator(
        chunk_size=CHUNK
    ):
        regions[str(contract.id)] = (contract.pool.site.slug, contract.pool.site.name)
        if contract.commitment is not None:
            commitments[str(contract.id)] = contract.commitment
    projects = Project.objects.filter(organisation=organisation).values_list("pk", "name")
    return Names(organisation, {str(pk): name for pk, name in projects}, regions, commitments)


def _frame(names: Names, currency: str, start: datetime, end: datetime, number: str | None = None) -> Row:
    """What every row of a billing period says."""
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
    billed = Decimal(0)
    for line in invoice.document["lines"]:
        ids = [row["id"] for row in line["usage"]]
        for at in range(0, len(ids), CHUNK):
            rows = UsageRow.objects.filter(pk__in=ids[at : at + CHUNK]).order_by("occurred_from", "id")
            for usage in rows:
                billed = exact_sum([billed, usage.amount])
                yield from _usage_rows(usage, frame, names)
    for one in invoice.document.get("adjustments", []):
        amount = Decimal(one["amount"])
        billed = exact_sum([billed, amount])
        yield _plain_row(frame, _category(one["kind"]), amount, one.get("sentence") or one["title"]) | _promised(
            one, names
        )
    rest = subtract(invoice.payable, billed)
    if rest:
        said = "Rounding of the invoice, and what is carried from the last and to the next one"
        yield _plain_row(frame, "Adjustment", rest, said)
    if invoice.tax:
        yield _plain_row(frame, "Tax", invoice.tax, "Tax")


def _note_rows(note: CreditNote, names: Names) -> Iterator[Row]:
    """A credit note: corrections of the period that its invoice was about; they sum to what is credited before tax."""
    invoice = note.invoice
    frame = _frame(names, note.currency, *month_of(note.issued_at), note.number) | {
        "ChargePeriodStart": invoice.period_start,
        "ChargePeriodEnd": invoice.period_end,
        "ChargeClass": "Correction",
    }
    lines = {line["number"] for line in invoice.document["lines"]}
    kinds = {one["number"]: one["kind"] for one in invoice.document.get("adjustments", [])}
    for part in note.document["lines"]:
        number, share = part["number"], Decimal(part["share"])
        if not share:
            continue
        category = "Usage" if number in lines else _category(kinds.get(number, "carried"))
        said = f"Credit note {note.number} to invoice {invoice.number}, line {number}, {part['title']}: {note.reason}"
        yield _plain_row(frame, category, share.copy_negate(), said)
    if note.tax:
        yield _plain_row(frame, "Tax", note.tax.copy_negate(), f"Tax, credit note {note.number}")


def _category(kind: str) -> str:
    return "Credit" if kind in CREDITS else "Adjustment"


def _promised(adjustment: dict[str, Any], names: Names) -> Row:
    """The commitment that a shortfall is about."""
    wanted = adjustment.get("basis", {}).get("commitment")
    known = next((one for one in names.commitments.values() if str(one.id) == wanted), None)
    if wanted is None:
        return {}
    kind = {"CommitmentDiscountName": known.kind} if known else {}
    return {
        "CommitmentDiscountCategory": "Spend",
        "CommitmentDiscountId": wanted,
        "CommitmentDiscountType": "Spend",
        **kind,
    }


def _plain_row(frame: Row, category: str, amount: Decimal, said: str) -> Row:
    costs = dict.fromkeys(("BilledCost", "ContractedCost", "EffectiveCost", "ListCost"), amount)
    return frame | costs | {"ChargeCategory": category, "ChargeFrequency": "One-Time", "ChargeDescription": said}


def _usage_rows(usage: UsageRow, frame: Row, names: Names) -> Iterator[Row]:
    """One row for each price: a lease that ran in hours of several prices has several."""
    rating = Rating.from_json(usage.rating)
    project = str(usage.project_id) if usage.project_id else None
    whose = frame | {
        "ChargePeriodStart": usage.occurred_from,
        "ChargePeriodEnd": usage.occurred_to,
        "RegionId": names.regions.get(str(usage.contract_id), (None, None))[0],
        "RegionName": names.regions.get(str(usage.contract_id), (None, None))[1],
        "ResourceId": usage.program_digest or str(usage.contract_id),
        "ResourceName": usage.model_name,
        "ResourceType": "Compiled program" if usage.program_digest else "Contract",
        "SubAccountId": project,
        "SubAccountName": names.projects.get(project, project) if project else None,
        "SubAccountType": "Project" if project else None,
        "x_UsageDigest": usage.payload_digest,
    }
    for part in _parts(rating):
        yield whose | _priced(usage, rating, part) | _commitment(names.commitments.get(str(usage.contract_id)), part)


def _parts(rating: Rating) -> Sequence[Part]:
    listed = rating.step("list")
    quantity = CONTEXT.scaleb(listed.input, -TERA)
    if rating.periods is None:
        return [Part("", rating.executions, quantity, listed.result, rating.amount)]
    once = CONTEXT.divide(quantity, Decimal(rating.executions))
    return [
        Part(
            name, count, multiply(once, count), rating.step(f"list:{name}").result, rating.step(f"amount:{name}").result
        )
        for name, count in sorted(rating.periods.items())
    ]


def _priced(usage: UsageRow, rating: Rating, part: Part) -> Row:
    """What was used and what it cost. Every step of a price is a factor, so a unit price has an end."""
    terms = rating.terms
    sku = f"{terms.processor_class}/{terms.precision}"
    told = {"x_Class": terms.klass, "x_Commitment": terms.commitment, "x_PriceBook": str(rating.book_version)}
    told |= {"x_Served": terms.served} if terms.served else {}
    told |= {"x_Hours": part.name} if part.name else {}
    price = "/".join([rating.book_digest[:16], sku, *(value for key, value in told.items() if key != "x_PriceBook")])
    said = ", reserved and not used" if rating.unused else f", hours {part.name}" if part.name else ""
    return {
        "BilledCost": part.amount,
        "CapacityReservationId": str(usage.contract_id),
        "CapacityReservationStatus": "Unused" if rating.unused else "Used",
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{part.executions} executions of {usage.model_name} on {sku}, class {terms.klass}{said}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": part.quantity,
        "ConsumedUnit": UNIT,
        "ContractedCost": part.amount,
        "ContractedUnitPrice": CONTEXT.divide(part.amount, part.quantity),
        "EffectiveCost": part.amount,
        "ListCost": part.listed,
        "ListUnitPrice": rating.step("list").factor,
        "PricingCategory": "Standard",
        "PricingQuantity": part.quantity,
        "PricingUnit": UNIT,
        "SkuId": sku,
        "SkuMeter": "Billed operations",
        "SkuPriceDetails": told,
        "SkuPriceId": f"{price}/unused" if rating.unused else price,
        "x_Executions": Decimal(part.executions),
    }


def _commitment(commitment: Commitment | None, part: Part) -> Row:
    """Spend that counts towards a commitment."""
    if commitment is None:
        return {}
    return {
        "CommitmentDiscountCategory": "Spend",
        "CommitmentDiscountId": str(commitment.id),
        "CommitmentDiscountName": commitment.kind,
        "CommitmentDiscountQuantity": part.amount,
        "CommitmentDiscountStatus": "Used",
        "CommitmentDiscountType": "Spend",
        "CommitmentDiscountUnit": commitment.currency,
        "PricingCategory": "Committed",
    }
