"""How an invoice is put together from usage rows; stores nothing, so that a draft can be looked at any day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from apps.accounts.models import Organisation
from apps.billing.adjusting import (
    MICROSECOND,
    Adjustment,
    adjustments_of,
    minimum_book,
    minimum_of,
    shortfalls_of,
    used_in,
)
from apps.billing.models import BillingProfile, Invoice, InvoiceState, TaxScheme
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import (
    Payable,
    PriceBookDocument,
    Rating,
    decimal_text,
    exact_sum,
    group_key,
    merge_ratings,
    multiply,
    payable_of,
    rate_bought,
    shares_of,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_of_digest
from apps.sales.differences import differences_named
from apps.sales.documents import stamp
from apps.sales.models import Commitment, Contract
from apps.sales.selectors import ContractUsage, contract_usages, terms_line

FORMAT = "takt-invoice/1"
TAX_NOTES: dict[str, str] = {
    TaxScheme.REVERSE_CHARGE: "Reverse charge: the customer owes the tax.",
    TaxScheme.EXEMPT: "Exempt from tax.",
}


@dataclass(frozen=True)
class DraftLine:
    """Usage of one program under one contract: the rows, and the one rating of their sum."""

    contract: Contract
    kind: str
    rows: tuple[UsageRow, ...]
    rating: Rating
    terms: dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """An invoice that is not issued: lines, exact totals, and what would be payable."""

    organisation: Organisation
    period_start: datetime
    period_end: datetime
    currency: str
    exponent: int
    lines: tuple[DraftLine, ...]
    adjustments: tuple[Adjustment, ...]
    shares: tuple[Decimal, ...]
    net: Decimal
    carried_in: Decimal
    carried_share: Decimal
    rounded: Payable
    tax_rate: Decimal
    tax_note: str
    tax: Decimal
    previous: Invoice | None
    contracts: tuple[tuple[Contract, ContractUsage], ...]

    @property
    def due(self) -> Decimal:
        """What is to be paid, with tax."""
        return exact_sum([self.rounded.payable, self.tax])

    @property
    def unit(self) -> dict[str, Any]:
        """The currency as the document has it, with the places that it is rounded to."""
        return {"code": self.currency, "exponent": self.exponent}


def usage_open(organisation: Organisation, *, until: datetime) -> QuerySet[UsageRow]:
    """Usage recorded before `until` that is on no invoice."""
    rows = UsageRow.objects.filter(organisation=organisation, created_at__lt=until, invoiced__isnull=True)
    return rows.order_by("contract_id", "program_digest", "occurred_from", "id")


def currencies_open(organisation: Organisation, *, until: datetime) -> list[str]:
    """The currencies in which something waits for an invoice: usage, what a commitment lacks, or what the month that ends
    at `until` lacks to its minimum charge. Each has one of its own."""
    used = usage_open(organisation, until=until).order_by().values_list("currency", flat=True).distinct()
    promised = Commitment.objects.filter(organisation=organisation, period__startswith__lt=until)
    lacking = {
        code
        for code in promised.values_list("currency", flat=True).distinct()
        if shortfalls_of(organisation, currency=code, until=until)
    }
    return sorted(
        {*used, *lacking, *(code for code in _used_of(organisation, until) if _lacks(organisation, code, until))}
    )


def months_lacking(*, until: datetime) -> QuerySet[Organisation]:
    """Those who used something in the month that ends at `until` in a currency whose book asks for a minimum charge."""
    month, _ = month_of(until - MICROSECOND)
    codes = PriceBook.objects.order_by().values_list("currency", flat=True).distinct()
    asking = [code for code in sorted(codes) if minimum_book(code, until=until)]
    used = [used_in(code, month, until).values("organisation") for code in asking]
    return Organisation.objects.filter(reduce(or_, (Q(pk__in=one) for one in used), Q(pk__in=[])))


def _used_of(organisation: Organisation, until: datetime) -> list[str]:
    """The currencies in which the organisation used something in the month that ends at `until`; none where no month does."""
    start, _ = month_of(until)
    if until != start:
        return []
    month, _ = month_of(start - MICROSECOND)
    rows = UsageRow.objects.filter(organisation=organisation, created_at__gte=month, created_at__lt=until)
    return sorted(rows.order_by().values_list("currency", flat=True).distinct())


def _lacks(organisation: Organisation, currency: str, until: datetime) -> bool:
    """Whether invoices of the month that ends at `until` lack to its minimum charge, where nothing else waits."""
    nothing = Decimal(0)
    return bool(minimum_of(organisation, currency=currency, net=nothing, shortfall=nothing, until=until))


def _until(organisation: Organisation, currency: str, until: datetime) -> datetime:
    """Where an invoice asked for at `until` ends: where a month with a minimum charge did, while usage of it waits, so that
    the month is closed by itself and none of its usage counts in the next."""
    start, _ = month_of(until)
    month, _ = month_of(start - MICROSECOND)
    waiting = usage_open(organisation, until=start).filter(currency=currency, created_at__gte=month)
    return start if minimum_book(currency, until=start) and waiting.exists() else until


def invoice_draft(*, organisation: Organisation, until: datetime, currency: str | None = None) -> Draft | None:
    """The invoice in a currency over everything that was used before `until` and not invoiced, and what commitments lack;
    without one in the first currency in which something waits. It ends earlier where a month with a minimum charge is not
    closed yet. None when there is nothing."""
    currency = currency or next(iter(currencies_open(organisation, until=until)), None)
    if currency is None:
        return None
    until = _until(organisation, currency, until)
    rows = list(usage_open(organisation, until=until).filter(currency=currency))
    document = _book(organisation, rows, currency, until)
    if document is None:
        return None
    exponent = document.currency.exponent
    invoices = Invoice.objects.filter(organisation=organisation).order_by("-sequence")
    previous, lines, carried_in = invoices.first(), _lines(rows), carried_open(organisation, currency)
    amounts = [line.rating.amount for line in lines]
    adjustments = adjustments_of(
        organisation=organisation, book=document, ratings=[line.rating for line in lines], carried_in=carried_in,
        until=until,
    )  # fmt: skip
    amounts += [one.amount for one in adjustments]
    net = exact_sum(amounts)
    rounded = payable_of(exact_sum([net, carried_in]), exponent=exponent)
    *shares, carried_share = shares_of(rounded.payable, [*amounts, carried_in], exponent=exponent)
    profile = BillingProfile.objects.filter(organisation=organisation).first()
    tax_rate = profile.tax_rate if profile else Decimal(0)
    contracts = list({line.contract.id: line.contract for line in lines}.values())
    usages = contract_usages(contracts)
    return Draft(
        organisation=organisation,
        period_start=_period_start(organisation, rows, until),
        period_end=until,
        currency=currency,
        exponent=exponent,
        lines=lines,
        adjustments=tuple(adjustments),
        shares=tuple(shares),
        net=net,
        carried_in=carried_in,
        carried_share=carried_share,
        rounded=rounded,
        tax_rate=tax_rate,
        tax_note=TAX_NOTES.get(profile.tax_scheme, "") if profile else "",
        tax=payable_of(multiply(rounded.payable, tax_rate), exponent=exponent).payable,
        previous=previous,
        contracts=tuple((contract, usages[contract.id]) for contract in contracts),
    )


def carried_open(organisation: Organisation, currency: str) -> Decimal:
    """What invoices that stand carried on and none has taken: of a chain that is whole, what the last one carries out."""
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state=InvoiceState.VOID)
    carried = standing.values_list("carried_out", "carried_in")
    return exact_sum(amount for out, into in carried for amount in (out, into.copy_negate()))


def _period_start(organisation: Organisation, rows: Sequence[UsageRow], until: datetime) -> datetime:
    """Where the last invoice that stands ended before `until`, or earlier, when usage of a void one is invoiced again."""
    standing = Invoice.objects.filter(organisation=organisation, period_end__lt=until).exclude(state=InvoiceState.VOID)
    last = standing.order_by("-sequence").values_list("period_end", flat=True).first()
    begins = [row.created_at for row in rows] + ([last] if last else [])
    return min(begins, default=organisation.created_at)


def _book(
    organisation: Organisation, rows: Sequence[UsageRow], currency: str, until: datetime
) -> PriceBookDocument | None:
    """The book of the oldest open usage; without usage, of a commitment whose ended month lacks something, or the one
    whose minimum charge the invoices of the month lack."""
    if rows:
        return book_of_digest(rows[0].rating["book_digest"])
    if not shortfalls_of(organisation, currency=currency, until=until):
        return minimum_book(currency, until=until) if _lacks(organisation, currency, until) else None
    promised = Commitment.objects.filter(organisation=organisation, currency=currency, period__startswith__lt=until)
    return book_of_digest(promised[0].book_digest)


def document_of_draft(draft: Draft, *, identity: dict[str, Any]) -> dict[str, Any]:
    """The self-contained document: with the model and the price book it can be verified offline (T1)."""
    return {
        "format": FORMAT,
        **identity,
        "organisation": {"id": str(draft.organisation.id), "name": draft.organisation.name},
        "period": {"start": stamp(draft.period_start), "end": stamp(draft.period_end)},
        "currency": draft.unit,
        "lines": [
            line_json(line, share, number)
            for number, (line, share) in enumerate(zip(draft.lines, draft.shares, strict=False), 1)
        ],
        **_adjustments_json(draft),
        "net": decimal_text(draft.net),
        "carried_in": decimal_text(draft.carried_in),
        "carried_in_share": decimal_text(draft.carried_share),
        "total": decimal_text(draft.rounded.exact),
        "correction": decimal_text(draft.rounded.correction),
        "carried_out": decimal_text(draft.rounded.carried),
        "payable": decimal_text(draft.rounded.payable),
        "tax_rate": decimal_text(draft.tax_rate),
        **({"tax_note": draft.tax_note} if draft.tax_note else {}),
        "tax": decimal_text(draft.tax),
        "due": decimal_text(draft.due),
        "quoted_against_actual": [comparison_json(contract, usage) for contract, usage in draft.contracts],
        "previous": None
        if draft.previous is None
        else {"number": draft.previous.number, "digest": draft.previous.digest},
    }


def _adjustments_json(draft: Draft) -> dict[str, Any]:
    """The named lines beside usage, numbered on; no key when there is none."""
    shares = draft.shares[len(draft.lines) :]
    rows = [
        one.to_json(number, share)
        for number, (one, share) in enumerate(zip(draft.adjustments, shares, strict=True), len(draft.lines) + 1)
    ]
    return {"adjustments": rows} if rows else {}


def line_json(line: DraftLine, share: Decimal, number: int) -> dict[str, Any]:
    """A line with everything that its amount follows from, and the usage rows that it sums."""
    return {
        "number": number,
        "kind": line.kind,
        "contract": str(line.contract.id),
        "terms_digest": line.contract.terms_digest,
        "program": line.terms["program"],
        "executions": line.rating.executions,
        "quoted_executions": line.terms["executions"],
        "quoted_amount": line.terms["amount"],
        "rating": line.rating.to_json(),
        "amount": decimal_text(line.rating.amount),
        "share": decimal_text(share),
        **_downgrade_json(line),
        "usage": [
            {
                "id": str(row.id),
                "lease": str(row.lease_id) if row.lease_id else None,
                "executions": row.quantity,
                "amount": decimal_text(row.amount),
                "from": stamp(row.occurred_from),
                "to": stamp(row.occurred_to),
                "digest": row.payload_digest,
            }
            for row in line.rows
        ],
    }


def comparison_json(contract: Contract, usage: ContractUsage) -> dict[str, Any]:
    """Quoted against actual for one contract, with every difference named."""
    return {
        "contract": str(contract.id),
        "state": contract.state,
        "quoted": decimal_text(usage.quoted),
        "actual": decimal_text(usage.actual),
        "difference": decimal_text(usage.difference),
        "named": differences_named(contract, usage),
    }


def _downgrade_json(line: DraftLine) -> dict[str, Any]:
    """What work that was served below its class would have cost as it was bought; no key when it was served as bought."""
    served = line.rating.terms.served
    if not served or line.rating.unused:
        return {}
    bought = rate_bought(book_of_digest(line.rating.book_digest), line.rating).amount
    saved = subtract(bought, line.rating.amount)
    sentence = f"Bought as {line.rating.terms.klass}, served as {served}: billed as {served}."
    return {"downgrade": {"bought": decimal_text(bought), "saved": decimal_text(saved), "sentence": sentence}}


def _lines(rows: Sequence[UsageRow]) -> tuple[DraftLine, ...]:
    """Rows whose ratings can stand on one line: the same program under the same terms, used or unused."""
    groups: dict[tuple[UUID, str, str], list[tuple[UsageRow, Rating]]] = {}
    for row in rows:
        rating = Rating.from_json(row.rating)
        groups.setdefault((row.contract_id, row.program_digest, group_key(rating)), []).append((row, rating))
    contracts = Contract.objects.select_related("pool").in_bulk({contract for contract, _, _ in groups})
    return tuple(_line(contracts[contract], digest, members) for (contract, digest, _), members in groups.items())


def _line(contract: Contract, program_digest: str, members: list[tuple[UsageRow, Rating]]) -> DraftLine:
    """Rating is linear, so the rating of the sum is the sum of the ratings; if it were not, nothing is invoiced."""
    rating = merge_ratings(book_of_digest(members[0][1].book_digest), [rating for _, rating in members])
    metered = exact_sum(row.amount for row, _ in members)
    if rating.amount != metered:
        raise RuntimeError(f"contract {contract.id}: metered and rated differ by {subtract(metered, rating.amount)}")
    kind = "unused" if rating.unused else "usage"
    return DraftLine(contract, kind, tuple(row for row, _ in members), rating, terms_line(contract, program_digest))
