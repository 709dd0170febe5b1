"""How an invoice is put together from usage rows; stores nothing, so that a draft can be looked at any day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.billing.models import BillingProfile, Invoice
from apps.ledger.models import UsageRow
from apps.pricing.rating import (
    Payable,
    Rating,
    decimal_text,
    exact_sum,
    multiply,
    payable_of,
    rate,
    shares_of,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_of_digest
from apps.sales.documents import stamp
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import ContractUsage, contract_usages, terms_line

FORMAT = "takt-invoice/1"


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
    shares: tuple[Decimal, ...]
    net: Decimal
    carried_in: Decimal
    carried_share: Decimal
    rounded: Payable
    tax_rate: Decimal
    tax: Decimal
    previous: Invoice | None
    contracts: tuple[tuple[Contract, ContractUsage], ...]

    @property
    def due(self) -> Decimal:
        """What is to be paid, with tax."""
        return exact_sum([self.rounded.payable, self.tax])


def usage_open(organisation: Organisation, *, until: datetime) -> QuerySet[UsageRow]:
    """Usage recorded before `until` that is on no invoice."""
    rows = UsageRow.objects.filter(organisation=organisation, created_at__lt=until, invoiced__isnull=True)
    return rows.order_by("contract_id", "program_digest", "occurred_from", "id")


def invoice_draft(*, organisation: Organisation, until: datetime) -> Draft | None:
    """The invoice over everything that was used before `until` and not invoiced; None when there is nothing."""
    rows = list(usage_open(organisation, until=until))
    if not rows:
        return None
    # One invoice has one currency; usage in another one is on the next.
    rows = [row for row in rows if row.currency == rows[0].currency]
    invoices = Invoice.objects.filter(organisation=organisation).order_by("-sequence")
    previous, last = invoices.first(), invoices.filter(currency=rows[0].currency).first()
    lines = _lines(rows)
    document = book_of_digest(lines[0].contract.terms["book"]["digest"])
    exponent, currency = document.currency.exponent, document.currency.code
    carried_in = last.carried_out if last else Decimal(0)
    net = exact_sum(line.rating.amount for line in lines)
    rounded = payable_of(exact_sum([net, carried_in]), exponent=exponent)
    *shares, carried_share = shares_of(
        rounded.payable, [*(line.rating.amount for line in lines), carried_in], exponent=exponent
    )
    profile = BillingProfile.objects.filter(organisation=organisation).first()
    tax_rate = profile.tax_rate if profile else Decimal(0)
    contracts = list({line.contract.id: line.contract for line in lines}.values())
    usages = contract_usages(contracts)
    return Draft(
        organisation=organisation,
        period_start=previous.period_end if previous else min(row.created_at for row in rows),
        period_end=until,
        currency=currency,
        exponent=exponent,
        lines=lines,
        shares=tuple(shares),
        net=net,
        carried_in=carried_in,
        carried_share=carried_share,
        rounded=rounded,
        tax_rate=tax_rate,
        tax=payable_of(multiply(rounded.payable, tax_rate), exponent=exponent).payable,
        previous=previous,
        contracts=tuple((contract, usages[contract.id]) for contract in contracts),
    )


def document_of_draft(draft: Draft, *, identity: dict[str, Any]) -> dict[str, Any]:
    """The self-contained document: with the model and the price book it can be verified offline (T1)."""
    return {
        "format": FORMAT,
        **identity,
        "organisation": {"id": str(draft.organisation.id), "name": draft.organisation.name},
        "period": {"start": stamp(draft.period_start), "end": stamp(draft.period_end)},
        "currency": {"code": draft.currency, "exponent": draft.exponent},
        "lines": [
            line_json(line, share, number)
            for number, (line, share) in enumerate(zip(draft.lines, draft.shares, strict=True), 1)
        ],
        "net": decimal_text(draft.net),
        "carried_in": decimal_text(draft.carried_in),
        "carried_in_share": decimal_text(draft.carried_share),
        "total": decimal_text(draft.rounded.exact),
        "correction": decimal_text(draft.rounded.correction),
        "carried_out": decimal_text(draft.rounded.carried),
        "payable": decimal_text(draft.rounded.payable),
        "tax_rate": decimal_text(draft.tax_rate),
        "tax": decimal_text(draft.tax),
        "due": decimal_text(draft.due),
        "quoted_against_actual": [comparison_json(contract, usage) for contract, usage in draft.contracts],
        "previous": None
        if draft.previous is None
        else {"number": draft.previous.number, "digest": draft.previous.digest},
    }


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
        "named": named_differences(contract, usage),
    }


def named_differences(contract: Contract, usage: ContractUsage) -> list[dict[str, Any]]:
    """Every reason why a contract's actual differs from its quote; their amounts sum to the difference."""
    word = "not used yet" if contract.state == ContractState.ACTIVE else "unused"
    named = [
        {
            "name": word,
            "program": line.facts.model,
            "executions": line.unused,
            "amount": decimal_text(line.difference),
            "sentence": f"{line.unused:,} of {line.executions:,} executions of {line.facts.model} {word}: not charged.",
        }
        for line in usage.lines
        if line.unused
    ]
    if usage.breakage:
        named.append({
            "name": "charged for unused",
            "program": "",
            "executions": sum(line.unused for line in usage.lines),
            "amount": decimal_text(usage.breakage),
            "sentence": "The contract's class charges a share of what was reserved and not used.",
        })  # fmt: skip
    return named


def _lines(rows: Sequence[UsageRow]) -> tuple[DraftLine, ...]:
    groups: dict[tuple[UUID, str, bool], list[UsageRow]] = {}
    for row in rows:
        groups.setdefault((row.contract_id, row.program_digest, bool(row.rating["unused"])), []).append(row)
    contracts = Contract.objects.select_related("pool").in_bulk({contract for contract, _, _ in groups})
    return tuple(
        _line(contracts[contract], digest, unused, members) for (contract, digest, unused), members in groups.items()
    )


def _line(contract: Contract, program_digest: str, unused: bool, rows: list[UsageRow]) -> DraftLine:
    """Rating is linear, so the rating of the sum is the sum of the ratings; if it were not, nothing is invoiced."""
    first = Rating.from_json(rows[0].rating)
    rating = rate(
        book=book_of_digest(first.book_digest),
        counts=first.counts,
        executions=sum(row.quantity for row in rows),
        terms=first.terms,
        unused=unused,
    )
    metered = exact_sum(row.amount for row in rows)
    if rating.amount != metered:
        raise RuntimeError(f"contract {contract.id}: metered and rated differ by {subtract(metered, rating.amount)}")
    return DraftLine(
        contract, "unused" if unused else "usage", tuple(rows), rating, terms_line(contract, program_digest)
    )
