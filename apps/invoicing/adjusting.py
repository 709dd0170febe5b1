"""What an invoice has beside rated usage: free operations, what commitments lack, the minimum charge of a month, and
credits, each a named line of its own. The rules are those of `apps.pricing.rating.months`; here they meet what is stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import Organisation
from apps.currencies import places_of
from apps.invoicing.minimum import months_asking
from apps.invoicing.models import CreditGrant, GrantKind, Invoice
from apps.invoicing.standing import standing_of
from apps.invoicing.wallet import CreditLeft, Wallet, credits_left, credits_of, wallet_of
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

__all__ = ["Adjustment", "CreditLeft", "Reckoning", "Used", "credits_left", "credits_of", "reckon", "shortfalls_of"]


@dataclass(frozen=True)
class Adjustment:
    """A named line: its amount is signed, and `account` is where it comes from or goes to. `uses` of a credit, by section."""

    kind: str
    title: str
    sentence: str
    amount: Decimal
    account: AccountKind
    basis: dict[str, Any] = field(default_factory=dict)
    grant: CreditGrant | None = None
    uses: tuple[tuple[datetime, Decimal], ...] = ()

    def to_json(self, number: int, share: Decimal) -> dict[str, Any]:
        """The line of the document."""
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
class Used:
    """Rated usage of a draft: when it was recorded, by section."""

    section: datetime
    book: PriceBookDocument
    rating: Rating


@dataclass(frozen=True)
class Reckoning:
    """The named lines of a draft, what it holds of each section, and what its credits follow from."""

    adjustments: tuple[Adjustment, ...]
    own: dict[datetime, Held]
    credits: dict[str, Any]
    begins: tuple[datetime, ...]


def reckon(
    *, organisation: Organisation, currency: str, used: Iterable[Used], until: datetime, wallet: Wallet | None = None
) -> Reckoning:
    """What is added to, and taken off, the usage of a draft: the free operations of each month, what commitments lack, the
    minimum charge of every month that is over, then credits. `used` is all that was used before `until` and is open."""
    wallet = wallet or wallet_of(organisation, currency=currency)
    cuts = wallet.purse.cuts
    own: defaultdict[datetime, Held] = defaultdict(Held)
    for one in used:
        own[one.section].use(one.rating.amount, eligible_of(one.book, one.rating))
    lacking = shortfalls_of(organisation, currency=currency, until=until)
    begins = [datetime.fromisoformat(line.basis["end"]) - MICROSECOND for line in lacking]
    for line, instant in zip(lacking, begins, strict=True):
        held = own[section_of(instant, cuts)]
        held.shortfall = exact_sum([held.shortfall, line.amount])
    asking = months_asking(organisation, currency, until=until, more=[month_start(section) for section in own])
    standing = Standing({}, {})
    if asking or wallet.purse.funds or any(held.eligible for held in own.values()):  # else nothing depends on it
        standing = standing_of(organisation, currency, since=min([*own, *asking], default=until))
    found = [*map(_free, free_lines(own, standing)), *lacking]
    for month, book in asking.items():
        topup = minimum_line(month, book.minimum_charge, own, standing)
        if topup is None or _is_left(organisation, currency, month, until, own, standing):
            continue
        begins.append(month_end(month) - MICROSECOND)
        own[section_of(begins[-1], cuts)].minimum = topup.amount
        found.append(_minimum(month, book, topup))
    payment = credits_pay(wallet.purse, own, standing)
    found += _credits(wallet, payment.uses, currency)
    return Reckoning(tuple(found), dict(own), payment.basis, tuple(begins))


def shortfalls_of(organisation: Organisation, *, currency: str, until: datetime) -> list[Adjustment]:
    """What every ended month of a commitment lacks to what was promised, once for each month."""
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
    """The free operations of a section: what all its work is given less what other invoices gave."""
    sentence = (
        f"{decimal_text(Decimal(line.most).scaleb(-TERA))} tera-operations are free in {line.section:%B %Y}, the dearest "
        f"first; {line.free.operations:,} operations of these lines are."
    )
    amount = line.free.amount.copy_negate()
    return Adjustment("free-tier", "Free operations", sentence, amount, AccountKind.PROMOTION, line.basis)


def _minimum(month: datetime, book: PriceBookDocument, line: MinimumLine) -> Adjustment:
    least = amount_text(book.minimum_charge, exponent=book.currency.exponent)
    sentence = (
        f"Price book {book.version} asks for at least {least} {book.currency.code} a month with usage: {month:%B %Y}."
    )
    basis = {"book_digest": book.digest, **line.basis}
    return Adjustment("minimum", "Minimum charge", sentence, line.amount, AccountKind.BREAKAGE, basis)


def _is_left(
    organisation: Organisation,
    currency: str,
    month: datetime,
    until: datetime,
    own: Mapping[datetime, Held],
    standing: Standing,
) -> bool:
    """Whether a month was closed by version 1 of the rules and nothing of it changed since: it stays as it was asked for."""
    touched = any(month_start(section) == month for section in own) or standing.of_month(month)
    if month not in standing.older or touched or month_end(month) == month_start(until):
        return False
    invoices = Invoice.objects.filter(organisation=organisation, currency=currency, state="void")
    return not invoices.filter(period_end__gt=month, period_start__lt=month_end(month)).exists()


def _credits(wallet: Wallet, uses: dict[tuple[datetime, str], Decimal], currency: str) -> list[Adjustment]:
    """A line for each credit that pays something, the next to expire first."""
    found = []
    for key, one in wallet.credits.items():
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
    """The grant, what was left of it, what it pays of which section, and for a missed guarantee the rating that it follows
    from."""
    rating = one.grant.basis.get("rating")
    return {
        "grant": str(one.grant.id),
        "granted": decimal_text(one.grant.amount),
        "left": decimal_text(one.left),
        "sections": [{"start": stamp(section), "amount": decimal_text(amount)} for section, amount in parts],
        **({"rating": rating} if rating else {}),
    }
