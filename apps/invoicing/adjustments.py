"""The lines of an invoice that are not usage: free operations, commitment shortfalls, minimum charges and credits.

A section is a calendar month (UTC), or the part of a month in which the same credits are valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import Organisation
from apps.currencies import places_of
from apps.invoicing.credit_funds import CreditFunds, CreditLeft, credit_funds_of, credits_left, credits_of
from apps.invoicing.issued_totals import issued_months
from apps.invoicing.minimum import months_with_minimum
from apps.invoicing.models import CreditGrant, GrantKind, Invoice
from apps.ledger.models import AccountKind
from apps.pricing.rating import (
    FreeLine,
    Held,
    MinimumLine,
    PriceBookDocument,
    Rating,
    Standing,
    amount_text,
    credits_pay,
    decimal_text,
    eligible_of,
    exact_sum,
    free_lines,
    minimum_line,
    month_end,
    month_start,
    section_of,
)
from apps.pricing.rating.decimals import TERA, subtract
from apps.pricing.rating.months import MICROSECOND
from apps.sales.commitments import shortfalls_ended
from apps.sales.documents import stamp

__all__ = [
    "Adjustment",
    "CreditLeft",
    "DraftAdjustments",
    "RatedUsage",
    "credits_left",
    "credits_of",
    "draft_adjustments",
    "shortfalls_of",
]


@dataclass(frozen=True)
class Adjustment:
    """An invoice line that is not usage. The amount may be negative. `account` is the line's counterpart in the ledger.

    For a credit, `uses` holds the amounts that the credit pays, by section.
    """

    kind: str
    title: str
    sentence: str
    amount: Decimal
    account: AccountKind
    basis: dict[str, Any] = field(default_factory=dict)
    grant: CreditGrant | None = None
    uses: tuple[tuple[datetime, Decimal], ...] = ()

    def to_json(self, number: int, share: Decimal) -> dict[str, Any]:
        """Return the line as stored in the document."""
        return {
            "number": number,
            "kind": self.kind,
            "title": self.title,
            "sentence": self.sentence,
            "amount": decimal_text(self.amount),
            "share": decimal_text(share),
            "basis": self.basis,
        }


@dataclass(frozen=True)
class RatedUsage:
    """A rated usage of a draft, with its section."""

    section: datetime
    book: PriceBookDocument
    rating: Rating


@dataclass(frozen=True)
class DraftAdjustments:
    """The lines of a draft that are not usage, the draft's amounts by section, and the basis of its credits."""

    adjustments: tuple[Adjustment, ...]
    own: dict[datetime, Held]
    credits: dict[str, Any]
    begins: tuple[datetime, ...]


def draft_adjustments(
    *,
    organisation: Organisation,
    currency: str,
    used: Iterable[RatedUsage],
    until: datetime,
    funds: CreditFunds | None = None,
) -> DraftAdjustments:
    """Compute the lines of a draft that are not usage. `used` is all open usage before `until`.

    Order: the free operations of each month, commitment shortfalls, the minimum charge of every ended month, and
    credits.
    """
    funds = funds or credit_funds_of(organisation, currency=currency)
    cuts = funds.purse.cuts
    shortfalls = shortfalls_of(organisation, currency=currency, until=until)
    own, begins = _own_sections(used, shortfalls, cuts)
    months = months_with_minimum(organisation, currency, until=until, more=[month_start(section) for section in own])
    standing = Standing({}, {})
    if months or funds.purse.funds or any(held.eligible for held in own.values()):  # otherwise it has no effect
        standing = issued_months(organisation, currency, since=min([*own, *months], default=until))
    lines = [*map(_free, free_lines(own, standing)), *shortfalls]
    for month, book in months.items():
        topup = minimum_line(month, book.minimum_charge, own, standing)
        if topup is not None and not _is_closed(organisation, currency, month, until, own, standing):
            begins.append(month_end(month) - MICROSECOND)
            own[section_of(begins[-1], cuts)].minimum = topup.amount
            lines.append(_minimum(month, book, topup))
    payment = credits_pay(funds.purse, own, standing)
    lines += _credits(funds, payment.uses, currency)
    return DraftAdjustments(tuple(lines), dict(own), payment.basis, tuple(begins))


def _own_sections(
    used: Iterable[RatedUsage], shortfalls: Sequence[Adjustment], cuts: Sequence[datetime]
) -> tuple[defaultdict[datetime, Held], list[datetime]]:
    """Return the amounts of usage and shortfalls by section, and the last instant of each shortfall."""
    own: defaultdict[datetime, Held] = defaultdict(Held)
    for one in used:
        own[one.section].use(one.rating.amount, eligible_of(one.book, one.rating))
    ends = [datetime.fromisoformat(line.basis["end"]) - MICROSECOND for line in shortfalls]
    for line, instant in zip(shortfalls, ends, strict=True):
        held = own[section_of(instant, cuts)]
        held.shortfall = exact_sum([held.shortfall, line.amount])
    return own, ends


def shortfalls_of(organisation: Organisation, *, currency: str, until: datetime) -> list[Adjustment]:
    """Return the commitment shortfalls of ended months. Shortfalls on a valid invoice are excluded."""
    ended = shortfalls_ended(organisation, currency=currency, until=until)
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state="void")
    charged = (
        {
            one["basis"]["key"]
            for adjustments in standing.values_list("document__adjustments", flat=True)
            for one in adjustments or []
            if one["kind"] == "shortfall"
        }
        if ended
        else set()
    )
    return [
        Adjustment("shortfall", "Commitment shortfall", one.sentence, one.missing, AccountKind.BREAKAGE, one.basis)
        for one in ended
        if one.key not in charged
    ]


def _free(line: FreeLine) -> Adjustment:
    # Operations granted on other invoices are excluded.
    sentence = (
        f"{decimal_text(Decimal(line.most).scaleb(-TERA))} tera-operations are free in {line.section:%B %Y}, the dearest "
        f"first; {line.free.operations:,} operations of these lines are."
    )
    amount = line.free.amount.copy_negate()
    return Adjustment("free-tier", "Free operations", sentence, amount, AccountKind.PROMOTION, line.basis)


def _minimum(month: datetime, book: PriceBookDocument, line: MinimumLine) -> Adjustment:
    least = amount_text(book.minimum_charge, exponent=book.currency.exponent)
    sentence = (
        f"Price book {book.version} has a minimum charge of {least} {book.currency.code} for a month with usage "
        f"({month:%B %Y})."
    )
    basis = {"book_digest": book.digest, **line.basis}
    return Adjustment("minimum", "Minimum charge", sentence, line.amount, AccountKind.BREAKAGE, basis)


def _is_closed(
    organisation: Organisation,
    currency: str,
    month: datetime,
    until: datetime,
    own: Mapping[datetime, Held],
    standing: Standing,
) -> bool:
    # A month that was closed under version 1 of the rules and has not changed since then is not invoiced again.
    touched = any(month_start(section) == month for section in own) or standing.of_month(month)
    if month not in standing.older or touched or month_end(month) == month_start(until):
        return False
    invoices = Invoice.objects.filter(organisation=organisation, currency=currency, state="void")
    return not invoices.filter(period_end__gt=month, period_start__lt=month_end(month)).exists()


def _credits(funds: CreditFunds, uses: dict[tuple[datetime, str], Decimal], currency: str) -> list[Adjustment]:
    found = []
    for key, one in funds.credits.items():
        parts = tuple(sorted((section, amount) for (section, credit), amount in uses.items() if credit == key))
        if not parts:
            continue
        grant, amount = one.grant, exact_sum(amount for _, amount in parts)
        left = amount_text(subtract(one.left, amount), exponent=places_of(currency))
        title = "Credit for a missed guarantee" if grant.kind == GrantKind.GUARANTEE else "Credit"
        found.append(
            Adjustment(
                grant.kind,
                title,
                f"{grant.reason} ({left} {grant.currency} left)",
                amount.copy_negate(),
                AccountKind.CREDIT,
                _grant_basis(one, parts),
                grant,
                parts,
            )
        )
    return found


def _grant_basis(one: CreditLeft, parts: Sequence[tuple[datetime, Decimal]]) -> dict[str, Any]:
    # If the credit compensates for a missed guarantee, the basis also has the rating.
    rating = one.grant.basis.get("rating")
    return {
        "grant": str(one.grant.id),
        "granted": decimal_text(one.grant.amount),
        "left": decimal_text(one.left),
        "sections": [{"start": stamp(section), "amount": decimal_text(amount)} for section, amount in parts],
        **({"rating": rating} if rating else {}),
    }
