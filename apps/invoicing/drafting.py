"""Computes the next invoice from usage rows. Stores nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, TextField
from django.db.models.functions import Cast

from apps.accounts.models import Organisation
from apps.currencies import places_of
from apps.invoicing.adjustments import Adjustment, DraftAdjustments, RatedUsage, draft_adjustments
from apps.invoicing.credit_funds import credit_funds_of
from apps.invoicing.issued_totals import IssuedTotals, carried_open, issued_totals
from apps.invoicing.minimum import currencies_with_minimum, minimum_book
from apps.invoicing.models import BillingProfile, Invoice, InvoiceState, TaxScheme
from apps.ledger.models import Spend, UsageRow
from apps.pricing.rating import (
    RULES,
    Payable,
    PriceBookDocument,
    Rating,
    asked_of,
    decimal_text,
    exact_sum,
    group_key,
    merge_ratings,
    month_start,
    multiply,
    rate_bought,
    section_of,
    shares_of,
    tax_of,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.months import MICROSECOND
from apps.pricing.selectors import book_of_digest, books_of_digests
from apps.sales.differences import differences_listed
from apps.sales.documents import stamp
from apps.sales.models import Commitment, Contract
from apps.sales.selectors import ContractUsage, contract_usages, terms_line

__all__ = [
    "Draft",
    "carried_open",
    "credits_waiting",
    "currencies_open",
    "document_of_draft",
    "invoice_draft",
    "organisations_with_minimum",
    "usage_open",
]
FORMAT = "takt-invoice/1"
ROWS_AT_ONCE = 2_000
TAX_NOTES: dict[str, str] = {
    TaxScheme.REVERSE_CHARGE: "Reverse charge: the customer owes the tax.",
    TaxScheme.EXEMPT: "Exempt from tax.",
}


@dataclass(frozen=True)
class DraftLine:
    """A line of a draft: usage rows of one program under one contract, and the rating of their sum."""

    section: datetime
    contract: Contract
    kind: str
    rows: tuple[UsageRow, ...]
    rating: Rating
    terms: dict[str, Any]


@dataclass(frozen=True)
class Draft:
    """An invoice that has not been issued: its lines, exact totals and the payable amount."""

    organisation: Organisation
    period_start: datetime
    period_end: datetime
    currency: str
    exponent: int
    lines: tuple[DraftLine, ...]
    computed: DraftAdjustments
    shares: tuple[Decimal, ...]
    net: Decimal
    asked: IssuedTotals
    carried_share: Decimal
    rounded: Payable
    tax_rate: Decimal
    tax_note: str
    taxed: Payable
    previous: Invoice | None
    contracts: tuple[tuple[Contract, ContractUsage], ...]

    @property
    def adjustments(self) -> tuple[Adjustment, ...]:
        return self.computed.adjustments

    @property
    def carried_in(self) -> Decimal:
        """The rounding remainder of earlier invoices. The remainder is negative if the invoices charged too much."""
        return self.asked.carried

    @property
    def tax(self) -> Decimal:
        """The tax, rounded to the currency's smallest unit."""
        return self.taxed.payable

    @property
    def due(self) -> Decimal:
        """The amount to pay, including tax."""
        return exact_sum([self.rounded.payable, self.tax])

    @property
    def unit(self) -> dict[str, Any]:
        """The currency as stated in the document, with the number of decimal places of the total."""
        return {"code": self.currency, "exponent": self.exponent}


def usage_open(organisation: Organisation, *, until: datetime) -> QuerySet[UsageRow]:
    """Return the usage that was recorded before `until` and is on no invoice, in the order of recording."""
    rows = UsageRow.objects.filter(organisation=organisation, created_at__lt=until, invoiced__isnull=True)
    return rows.order_by("created_at", "occurred_from", "program_digest", "id")


def currencies_open(organisation: Organisation, *, until: datetime) -> list[str]:
    """Return the currencies with something to invoice: usage, commitment shortfalls or minimum charges."""
    used = usage_open(organisation, until=until).order_by().values_list("currency", flat=True).distinct()
    promised = Commitment.objects.filter(organisation=organisation, period__startswith__lt=until)
    asking = Spend.objects.filter(organisation=organisation, currency__in=currencies_with_minimum())
    waiting = set(used)
    others = {
        row for rows in (promised, asking) for row in rows.order_by().values_list("currency", flat=True).distinct()
    }
    return sorted(waiting | {code for code in others - waiting if _draft(organisation, code, until) is not None})


def organisations_with_minimum(*, until: datetime) -> QuerySet[Organisation]:
    """Return the organisations that had usage before the month of `until` in a currency with a past or present minimum
    charge.
    """
    spent = Spend.objects.filter(currency__in=currencies_with_minimum(), month__lt=until.date())
    return Organisation.objects.filter(pk__in=spent.values("organisation"))


def _draft_end(organisation: Organisation, currency: str, until: datetime) -> datetime:
    # A month with a minimum charge gets its own invoice.
    start = month_start(until)
    month = month_start(start - MICROSECOND)
    waiting = usage_open(organisation, until=start).filter(currency=currency, created_at__gte=month)
    return start if waiting.exists() and minimum_book(currency, month) else until


def invoice_draft(*, organisation: Organisation, until: datetime, currency: str | None = None) -> Draft | None:
    """Return the draft for all open usage before `until`, with commitment shortfalls and minimum charges; None if the
    draft is empty.

    The draft may end before `until`, because a month with a minimum charge gets its own invoice. By default, `currency`
    is the first currency with something to invoice.
    """
    currency = currency or next(iter(currencies_open(organisation, until=until)), None)
    if currency is None:
        return None
    return _draft(organisation, currency, _draft_end(organisation, currency, until))


def credits_waiting(organisation: Organisation, *, currency: str, until: datetime) -> dict[str, Decimal]:
    """Return the amounts reserved for uninvoiced usage before `until`, by the id of the credit grant."""
    draft = _draft(organisation, currency, until)
    lines = draft.adjustments if draft else ()
    return {str(one.grant.id): one.amount.copy_negate() for one in lines if one.grant is not None}


def _draft(organisation: Organisation, currency: str, until: datetime) -> Draft | None:
    rows = _rows(organisation, currency, until)
    funds = credit_funds_of(organisation, currency=currency)
    books = books_of_digests({rating.book_digest for _, rating in rows})
    lines = _lines(rows, funds.purse.cuts, books)
    used = [RatedUsage(line.section, books[line.rating.book_digest], line.rating) for line in lines]
    computed = draft_adjustments(organisation=organisation, currency=currency, used=used, until=until, funds=funds)
    if not lines and not computed.adjustments:
        return None
    exponent, asked = places_of(currency), issued_totals(organisation, currency)
    amounts = [*(line.rating.amount for line in lines), *(one.amount for one in computed.adjustments)]
    net = exact_sum(amounts)
    rounded = asked_of(exact_sum([net, asked.carried]), before=asked.payable, exponent=exponent)
    *shares, carried_share = shares_of(rounded.payable, [*amounts, asked.carried], exponent=exponent)
    profile = BillingProfile.objects.filter(organisation=organisation).first()
    tax_rate = profile.tax_rate if profile else Decimal(0)
    taxed = multiply(rounded.payable, tax_rate)
    contracts = list({line.contract.id: line.contract for line in lines}.values())
    usages = contract_usages(contracts)
    return Draft(
        organisation=organisation,
        period_start=_period_start(organisation, [row.created_at for row, _ in rows], computed.begins, until),
        period_end=until,
        currency=currency,
        exponent=exponent,
        lines=lines,
        computed=computed,
        shares=tuple(shares),
        net=net,
        asked=asked,
        carried_share=carried_share,
        rounded=rounded,
        tax_rate=tax_rate,
        tax_note=TAX_NOTES.get(profile.tax_scheme, "") if profile else "",
        taxed=tax_of(taxed, carried_in=asked.tax_carried, before=asked.tax, exponent=exponent),
        previous=Invoice.objects.filter(organisation=organisation).order_by("-sequence").first(),
        contracts=tuple((contract, usages[contract.id]) for contract in contracts),
    )


def _rows(organisation: Organisation, currency: str, until: datetime) -> list[tuple[UsageRow, Rating]]:
    # Rows with equal ratings share one object.
    known: dict[str, Rating] = {}
    found: list[tuple[UsageRow, Rating]] = []
    rows = usage_open(organisation, until=until).filter(currency=currency).defer("rating")
    for row in rows.annotate(text=Cast("rating", TextField())).iterator(chunk_size=ROWS_AT_ONCE):
        text = row.__dict__.pop("text")  # shared by up to a thousand rows, so not kept with each
        if text not in known:
            known[text] = Rating.from_json(json.loads(text))
        found.append((row, known[text]))
    return found


def _period_start(
    organisation: Organisation, used: Sequence[datetime], lacked: Sequence[datetime], until: datetime
) -> datetime:
    # The period starts at the end of the last valid invoice, or earlier if older usage or charges are open.
    standing = Invoice.objects.filter(organisation=organisation, period_end__lt=until).exclude(state=InvoiceState.VOID)
    last = standing.order_by("-sequence").values_list("period_end", flat=True).first()
    begins = [*used, *([last] if last else [])]
    return min([*(begins or [organisation.created_at]), *lacked])


def document_of_draft(draft: Draft, *, identity: dict[str, Any]) -> dict[str, Any]:
    """Return the complete document, which can be verified offline with the model and the price book."""
    return {
        "format": FORMAT,
        "rules": RULES,
        **identity,
        "organisation": {"id": str(draft.organisation.id), "name": draft.organisation.name},
        **_sample_json(draft),
        "period": {"start": stamp(draft.period_start), "end": stamp(draft.period_end)},
        "currency": draft.unit,
        "lines": [
            line_json(line, share, number)
            for number, (line, share) in enumerate(zip(draft.lines, draft.shares, strict=False), 1)
        ],
        **_adjustments_json(draft),
        "sections": [held.to_json(section) for section, held in sorted(draft.computed.own.items())],
        **({"credits": draft.computed.credits} if draft.computed.credits else {}),
        "asked_before": decimal_text(draft.asked.payable),
        "net": decimal_text(draft.net),
        "carried_in": decimal_text(draft.carried_in),
        "carried_in_share": decimal_text(draft.carried_share),
        "total": decimal_text(draft.rounded.exact),
        "correction": decimal_text(draft.rounded.correction),
        "carried_out": decimal_text(draft.rounded.carried),
        "payable": decimal_text(draft.rounded.payable),
        "tax_rate": decimal_text(draft.tax_rate),
        **({"tax_note": draft.tax_note} if draft.tax_note else {}),
        "tax_asked_before": decimal_text(draft.asked.tax),
        "tax_carried_in": decimal_text(draft.asked.tax_carried),
        "tax": decimal_text(draft.tax),
        "tax_carried_out": decimal_text(draft.taxed.carried),
        "due": decimal_text(draft.due),
        "quoted_against_actual": [
            comparison_json(contract, usage, named)
            for (contract, usage), named in zip(draft.contracts, differences_listed(draft.contracts), strict=True)
        ],
        "previous": None
        if draft.previous is None
        else {"number": draft.previous.number, "digest": draft.previous.digest},
    }


def _sample_json(draft: Draft) -> dict[str, Any]:
    # Nobody owes anything for sample data.
    is_sample = any(draft.organisation.is_sample_at(row.created_at) for line in draft.lines for row in line.rows)
    until = draft.organisation.sample_until
    return {"sample": {"until": stamp(until)}} if is_sample and until else {}


def _adjustments_json(draft: Draft) -> dict[str, Any]:
    # These lines are numbered after the usage lines.
    shares = draft.shares[len(draft.lines) :]
    rows = [
        one.to_json(number, share)
        for number, (one, share) in enumerate(zip(draft.adjustments, shares, strict=True), len(draft.lines) + 1)
    ]
    return {"adjustments": rows} if rows else {}


def line_json(line: DraftLine, share: Decimal, number: int) -> dict[str, Any]:
    """Return a line as stored in the document, with its usage rows."""
    pool = line.contract.pool
    return {
        "number": number,
        "kind": line.kind,
        "section": stamp(line.section),
        "contract": str(line.contract.id),
        "terms_digest": line.contract.terms_digest,
        "pool": {"slug": pool.slug, "name": pool.name, "processor_class": pool.processor_class},
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


def comparison_json(contract: Contract, usage: ContractUsage, named: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the comparison "quoted against actual" of one contract. `named` explains every difference."""
    return {
        "contract": str(contract.id),
        "state": contract.state,
        "quoted": decimal_text(usage.quoted),
        "actual": decimal_text(usage.actual),
        "difference": decimal_text(usage.difference),
        "named": named,
    }


def _downgrade_json(line: DraftLine) -> dict[str, Any]:
    served = line.rating.terms.served
    if not served or line.rating.unused:
        return {}
    bought = rate_bought(book_of_digest(line.rating.book_digest), line.rating).amount
    saved = subtract(bought, line.rating.amount)
    sentence = f"Bought as {line.rating.terms.klass} but served as {served}, so billed as {served}."
    return {"downgrade": {"bought": decimal_text(bought), "saved": decimal_text(saved), "sentence": sentence}}


def _lines(
    rows: Sequence[tuple[UsageRow, Rating]], cuts: Sequence[datetime], books: Mapping[str, PriceBookDocument]
) -> tuple[DraftLine, ...]:
    # A line covers one program under the same terms in one section. Charges for unused volume have their own lines.
    groups: dict[tuple[datetime, UUID, str, str], list[tuple[UsageRow, Rating]]] = {}
    keys: dict[int, str] = {}
    for row, rating in rows:
        section, key = section_of(row.created_at, cuts), keys.get(id(rating))
        if key is None:
            key = keys[id(rating)] = group_key(rating)
        groups.setdefault((section, row.contract_id, row.program_digest, key), []).append((row, rating))
    contracts = Contract.objects.select_related("pool").in_bulk({contract for _, contract, _, _ in groups})
    return tuple(
        _line(section, contracts[contract], digest, members, books[members[0][1].book_digest])
        for (section, contract, digest, _), members in groups.items()
    )


def _line(
    section: datetime,
    contract: Contract,
    program_digest: str,
    members: list[tuple[UsageRow, Rating]],
    book: PriceBookDocument,
) -> DraftLine:
    # Rating is linear, so the amount must equal the sum of the rows' amounts.
    rating = merge_ratings(book, [rating for _, rating in members])
    metered = exact_sum(row.amount for row, _ in members)
    if rating.amount != metered:
        raise RuntimeError(f"contract {contract.id}: metered and rated differ by {subtract(metered, rating.amount)}")
    rows = tuple(row for row, _ in members)
    if rating.charged is not None:
        quoted = {"program": None, "executions": 1, "amount": decimal_text(contract.minimum)}
        return DraftLine(section, contract, "minimum", rows, rating, quoted)
    kind = "late" if rating.late else "unused" if rating.unused else "usage"
    return DraftLine(section, contract, kind, rows, rating, terms_line(contract, program_digest))
