"""What an invoice has beside rated usage: free operations, what commitments lack, the minimum charge of a month, and
credits, each a named line of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation
from apps.billing.models import CreditGrant, GrantKind, Invoice
from apps.billing.models.invoices import amount_field
from apps.ledger.models import AccountKind, UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import (
    PriceBookDocument,
    Rating,
    amount_text,
    decimal_text,
    exact_sum,
    free_tier,
    minimum_topup,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import document_of
from apps.sales.commitments import shortfalls_ended

MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Adjustment:
    """A named line: its amount is signed, and `account` is where it comes from or goes to."""

    kind: str
    title: str
    sentence: str
    amount: Decimal
    account: AccountKind
    basis: dict[str, Any] = field(default_factory=dict)
    grant: CreditGrant | None = None

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
class CreditLeft:
    """A grant and what is left of it."""

    grant: CreditGrant
    left: Decimal

    @property
    def used(self) -> Decimal:
        """What invoices took, or what expired."""
        return subtract(self.grant.amount, self.left)


def credits_left(organisation: Organisation) -> list[CreditLeft]:
    """Every grant with what is left, in whatever currency, the next to expire first."""
    used = Coalesce(Sum("uses__amount"), Value(Decimal(0)), output_field=amount_field())
    rows = CreditGrant.objects.filter(organisation=organisation).select_related("end__ended_by").annotate(used=used)
    ordered = rows.order_by(F("expires_at").asc(nulls_last=True), "granted_at", "id")
    return [CreditLeft(row, subtract(row.amount, row.used)) for row in ordered]


def credits_of(organisation: Organisation, *, currency: str) -> list[CreditLeft]:
    """Those of a currency."""
    return [one for one in credits_left(organisation) if one.grant.currency == currency]


def adjustments_of(
    *,
    organisation: Organisation,
    book: PriceBookDocument,
    ratings: Sequence[Rating],
    carried_in: Decimal,
    until: datetime,
) -> list[Adjustment]:
    """What is added to, and taken off, the usage of `ratings`: the month's free operations, what commitments lack, the
    minimum charge, then credits, never below nought."""
    currency = book.currency.code
    found = _free(organisation, book, ratings, until)
    net = exact_sum([*(one.amount for one in ratings), *(one.amount for one in found)])
    lacking = shortfalls_of(organisation, currency=currency, until=until)
    shortfall = exact_sum(one.amount for one in lacking)
    found += lacking + minimum_of(organisation, currency=currency, net=net, shortfall=shortfall, until=until)
    total = exact_sum([*(one.amount for one in ratings), carried_in, *(one.amount for one in found)])
    return found + _credits(organisation, book, total, until)


def shortfalls_of(organisation: Organisation, *, currency: str, until: datetime) -> list[Adjustment]:
    """What every ended month of a commitment lacks to what was promised, once for each month."""
    ended = shortfalls_ended(organisation, currency=currency, until=until)
    charged = {
        one["basis"]["key"]
        for invoice in Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state="void")
        for one in invoice.document.get("adjustments", [])
        if one["kind"] == "shortfall"
    } if ended else set()  # fmt: skip
    return [
        Adjustment("shortfall", "Commitment shortfall", one.sentence, one.missing, AccountKind.BREAKAGE, one.basis)
        for one in ended
        if one.key not in charged
    ]


def _month_invoices(organisation: Organisation, currency: str, month: datetime, until: datetime) -> list[Invoice]:
    """The invoices of the month up to `until` that stand, one that closed it too."""
    rows = Invoice.objects.filter(
        organisation=organisation, currency=currency, period_end__gt=month, period_end__lte=until
    )
    return list(rows.exclude(state="void"))


def _free(
    organisation: Organisation, book: PriceBookDocument, ratings: Sequence[Rating], until: datetime
) -> list[Adjustment]:
    """The free operations of the month in which the invoice ends, given to its lines in their order."""
    if not book.free_tera_operations:
        return []
    month, _ = month_of(until - MICROSECOND)
    earlier = [
        one
        for invoice in _month_invoices(organisation, book.currency.code, month, until)
        for one in invoice.document.get("adjustments", [])
        if one["kind"] == "free-tier"
    ]
    taken = sum(int(one["basis"]["operations"]) for one in earlier)
    shares = free_tier(book, ratings, taken=taken)
    if not shares:
        return []
    operations, amount = sum(one.operations for one in shares), exact_sum(one.amount for one in shares)
    sentence = (
        f"{decimal_text(book.free_tera_operations)} tera-operations are free in every month; {operations:,} operations of "
        "these lines, in their order, are."
    )
    basis = {"book_digest": book.digest, "taken": taken, "operations": operations}
    return [Adjustment("free-tier", "Free operations", sentence, amount.copy_negate(), AccountKind.PROMOTION, basis)]


def minimum_book(currency: str, *, until: datetime) -> PriceBookDocument | None:
    """The last book in the currency that was in force in the month that ends at `until`, where it asks for a minimum; None
    where it does not, where there was none, and where `until` is not the end of a month."""
    start, _ = month_of(until)
    if until != start:
        return None
    month, _ = month_of(start - MICROSECOND)
    rows = PriceBook.objects.filter(currency=currency, effective__overlap=(month, start)).order_by("-effective")
    book = next((document_of(row) for row in rows[:1]), None)
    return book if book is not None and book.minimum_charge else None


def minimum_of(
    organisation: Organisation, *, currency: str, net: Decimal, shortfall: Decimal, until: datetime
) -> list[Adjustment]:
    """On the invoice that closes a month in which something was used: what all invoices of the month in that currency,
    this one of `net` and of a `shortfall` of commitments too, lack to the book's minimum, credits apart."""
    book = minimum_book(currency, until=until)
    month, _ = month_of(until - MICROSECOND)
    if book is None or not used_in(currency, month, until).filter(organisation=organisation).exists():
        return []
    before = exact_sum(_charged(invoice) for invoice in _month_invoices(organisation, currency, month, until))
    missing = minimum_topup(book, exact_sum([net, shortfall, before]))
    if missing == 0:
        return []
    least = amount_text(book.minimum_charge, exponent=book.currency.exponent)
    sentence = f"Price book {book.version} asks for at least {least} {book.currency.code} a month with usage."
    basis = {
        "book_digest": book.digest,
        "minimum": decimal_text(book.minimum_charge),
        "net": decimal_text(net),
        "shortfall": decimal_text(shortfall),
        "invoiced_before": decimal_text(before),
    }
    return [Adjustment("minimum", "Minimum charge", sentence, missing, AccountKind.BREAKAGE, basis)]


def used_in(currency: str, month: datetime, until: datetime) -> QuerySet[UsageRow]:
    """What was used in a currency and recorded in [month, until)."""
    return UsageRow.objects.filter(currency=currency, created_at__gte=month, created_at__lt=until)


def _charged(invoice: Invoice) -> Decimal:
    """What an invoice charged before credits: money that a customer was given is no less spent."""
    rows = invoice.document.get("adjustments", [])
    given = [Decimal(one["amount"]) for one in rows if one["kind"] in GrantKind.values]
    return subtract(invoice.net, exact_sum(given))


def _credits(organisation: Organisation, book: PriceBookDocument, total: Decimal, until: datetime) -> list[Adjustment]:
    found: list[Adjustment] = []
    for one in credits_of(organisation, currency=book.currency.code):
        grant = one.grant
        amount = min(one.left, total)
        if amount <= 0 or grant.granted_at >= until or (grant.expires_at is not None and grant.expires_at <= until):
            continue
        total = subtract(total, amount)
        left = amount_text(subtract(one.left, amount), exponent=book.currency.exponent)
        title = "Credit for a missed guarantee" if grant.kind == GrantKind.GUARANTEE else "Credit"
        found.append(
            Adjustment(
                grant.kind, title, f"{grant.reason} ({left} {grant.currency} of it are left.)", amount.copy_negate(),
                AccountKind.CREDIT, _grant_basis(one), grant,
            )
        )  # fmt: skip
    return found


def _grant_basis(one: CreditLeft) -> dict[str, Any]:
    """The grant, what was left of it, and for a missed guarantee the rating that it follows from."""
    rating = one.grant.basis.get("rating")
    return {
        "grant": str(one.grant.id),
        "granted": decimal_text(one.grant.amount),
        "left": decimal_text(one.left),
        **({"rating": rating} if rating else {}),
    }
