"""How an invoice is put together from usage rows; stores nothing, so that a draft can be looked at any day."""

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
from apps.invoicing.adjusting import Adjustment, Reckoning, Used, reckon
from apps.invoicing.minimum import currencies_asking, minimum_book
from apps.invoicing.models import BillingProfile, Invoice, InvoiceState, TaxScheme
from apps.invoicing.standing import Asked, asked_by_all, carried_open
from apps.invoicing.wallet import wallet_of
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
    "months_lacking",
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
    """Usage of one program under one contract: the rows, and the one rating of their sum."""

    section: datetime
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
    reckoned: Reckoning
    shares: tuple[Decimal, ...]
    net: Decimal
    asked: Asked
    carried_share: Decimal
    rounded: Payable
    tax_rate: Decimal
    tax_note: str
    taxed: Payable
    previous: Invoice | None
    contracts: tuple[tuple[Contract, ContractUsage], ...]

    @property
    def adjustments(self) -> tuple[Adjustment, ...]:
        """The named lines beside usage."""
        return self.reckoned.adjustments

    @property
    def carried_in(self) -> Decimal:
        """What the rounding of earlier invoices left to be asked for; less than nothing where they asked too much."""
        return self.asked.carried

    @property
    def tax(self) -> Decimal:
        """The tax, in smallest units."""
        return self.taxed.payable

    @property
    def due(self) -> Decimal:
        """What is to be paid, with tax."""
        return exact_sum([self.rounded.payable, self.tax])

    @property
    def unit(self) -> dict[str, Any]:
        """The currency as the document has it, with the places that it is rounded to."""
        return {"code": self.currency, "exponent": self.exponent}


def usage_open(organisation: Organisation, *, until: datetime) -> QuerySet[UsageRow]:
    """Usage recorded before `until` that is on no invoice, in the order in which it was recorded."""
    rows = UsageRow.objects.filter(organisation=organisation, created_at__lt=until, invoiced__isnull=True)
    return rows.order_by("created_at", "occurred_from", "program_digest", "id")


def currencies_open(organisation: Organisation, *, until: datetime) -> list[str]:
    """The currencies in which something waits for an invoice: usage, what a commitment lacks, or what a month that is over
    lacks to its minimum charge. Each has one of its own."""
    used = usage_open(organisation, until=until).order_by().values_list("currency", flat=True).distinct()
    promised = Commitment.objects.filter(organisation=organisation, period__startswith__lt=until)
    asking = Spend.objects.filter(organisation=organisation, currency__in=currencies_asking())
    waiting = set(used)
    others = {
        row for rows in (promised, asking) for row in rows.order_by().values_list("currency", flat=True).distinct()
    }
    return sorted(waiting | {code for code in others - waiting if _draft(organisation, code, until) is not None})


def months_lacking(*, until: datetime) -> QuerySet[Organisation]:
    """Those who used something before `until` in a currency whose books ask, or asked, for a minimum charge."""
    spent = Spend.objects.filter(currency__in=currencies_asking(), month__lt=until.date())
    return Organisation.objects.filter(pk__in=spent.values("organisation"))


def _until(organisation: Organisation, currency: str, until: datetime) -> datetime:
    """Where an invoice asked for at `until` ends: where a month with a minimum charge did, while usage of it waits, so that
    the month is closed by itself."""
    start = month_start(until)
    month = month_start(start - MICROSECOND)
    waiting = usage_open(organisation, until=start).filter(currency=currency, created_at__gte=month)
    return start if waiting.exists() and minimum_book(currency, month) else until


def invoice_draft(*, organisation: Organisation, until: datetime, currency: str | None = None) -> Draft | None:
    """The invoice in a currency over everything that was used before `until` and not invoiced, and what commitments and
    months lack; without one in the first currency in which something waits. It ends earlier where a month with a minimum
    charge is not closed yet. None when there is nothing."""
    currency = currency or next(iter(currencies_open(organisation, until=until)), None)
    if currency is None:
        return None
    return _draft(organisation, currency, _until(organisation, currency, until))


def credits_waiting(organisation: Organisation, *, currency: str, until: datetime) -> dict[str, Decimal]:
    """What of each credit pays for what was used before `until` and is not invoiced yet: it is kept for that."""
    draft = _draft(organisation, currency, until)
    lines = draft.adjustments if draft else ()
    return {str(one.grant.id): one.amount.copy_negate() for one in lines if one.grant is not None}


def _draft(organisation: Organisation, currency: str, until: datetime) -> Draft | None:
    rows = _rows(organisation, currency, until)
    wallet = wallet_of(organisation, currency=currency)
    books = books_of_digests({rating.book_digest for _, rating in rows})
    lines = _lines(rows, wallet.purse.cuts, books)
    used = [Used(line.section, books[line.rating.book_digest], line.rating) for line in lines]
    reckoned = reckon(organisation=organisation, currency=currency, used=used, until=until, wallet=wallet)
    if not lines and not reckoned.adjustments:
        return None
    exponent, asked = places_of(currency), asked_by_all(organisation, currency)
    amounts = [*(line.rating.amount for line in lines), *(one.amount for one in reckoned.adjustments)]
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
        period_start=_period_start(organisation, [row.created_at for row, _ in rows], reckoned.begins, until),
        period_end=until,
        currency=currency,
        exponent=exponent,
        lines=lines,
        reckoned=reckoned,
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
    """Open usage in a currency with its ratings; rows that were rated alike share one, which is read once."""
    known: dict[str, Rating] = {}
    found: list[tuple[UsageRow, Rating]] = []
    rows = usage_open(organisation, until=until).filter(currency=currency).defer("rating")
    for row in rows.annotate(text=Cast("rating", TextField())).iterator(chunk_size=ROWS_AT_ONCE):
        text = row.__dict__.pop("text")  # not kept: a thousand rows may have one
        if text not in known:
            known[text] = Rating.from_json(json.loads(text))
        found.append((row, known[text]))
    return found


def _period_start(
    organisation: Organisation, used: Sequence[datetime], lacked: Sequence[datetime], until: datetime
) -> datetime:
    """Where the last invoice that stands ended before `until`, or earlier, where something before that is asked for: usage
    of a void one, what a month lacks."""
    standing = Invoice.objects.filter(organisation=organisation, period_end__lt=until).exclude(state=InvoiceState.VOID)
    last = standing.order_by("-sequence").values_list("period_end", flat=True).first()
    begins = [*used, *([last] if last else [])]
    return min([*(begins or [organisation.created_at]), *lacked])


def document_of_draft(draft: Draft, *, identity: dict[str, Any]) -> dict[str, Any]:
    """The self-contained document: with the model and the price book it can be verified offline (T1)."""
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
        "sections": [held.to_json(section) for section, held in sorted(draft.reckoned.own.items())],
        **({"credits": draft.reckoned.credits} if draft.reckoned.credits else {}),
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
    """That usage of the invoice is sample data, which nobody owes; no key where none is."""
    is_sample = any(draft.organisation.is_sample_at(row.created_at) for line in draft.lines for row in line.rows)
    until = draft.organisation.sample_until
    return {"sample": {"until": stamp(until)}} if is_sample and until else {}


def _adjustments_json(draft: Draft) -> dict[str, Any]:
    """The named lines beside usage, numbered on; no key when there is none."""
    shares = draft.shares[len(draft.lines) :]
    rows = [
        one.to_json(number, share)
        for number, (one, share) in enumerate(zip(draft.adjustments, shares, strict=True), len(draft.lines) + 1)
    ]
    return {"adjustments": rows} if rows else {}


def line_json(line: DraftLine, share: Decimal, number: int) -> dict[str, Any]:
    """A line with everything that its amount follows from, the pool that ran it, and the usage rows that it sums."""
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
    """Quoted against actual for one contract, with every difference `named`."""
    return {
        "contract": str(contract.id),
        "state": contract.state,
        "quoted": decimal_text(usage.quoted),
        "actual": decimal_text(usage.actual),
        "difference": decimal_text(usage.difference),
        "named": named,
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


def _lines(
    rows: Sequence[tuple[UsageRow, Rating]], cuts: Sequence[datetime], books: Mapping[str, PriceBookDocument]
) -> tuple[DraftLine, ...]:
    """Rows whose ratings can stand on one line: the same program under the same terms in one section, used or unused; in the
    order in which each was first used."""
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
    """Rating is linear, so the rating of the sum is the sum of the ratings; if it were not, nothing is invoiced."""
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
