"""What an invoice has beside rated usage: the minimum charge of a month, and credits, each a named line of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import F, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation
from apps.billing.models import CreditGrant, GrantKind, Invoice
from apps.billing.models.invoices import amount_field
from apps.ledger.models import AccountKind
from apps.ledger.selectors import month_of
from apps.pricing.rating import PriceBookDocument, amount_text, decimal_text, exact_sum, minimum_topup
from apps.pricing.rating.decimals import subtract


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


def credits_of(organisation: Organisation, *, currency: str) -> list[CreditLeft]:
    """Every grant with what is left, the next to expire first."""
    used = Coalesce(Sum("uses__amount"), Value(Decimal(0)), output_field=amount_field())
    rows = CreditGrant.objects.filter(organisation=organisation, currency=currency).annotate(used=used)
    ordered = rows.order_by(F("expires_at").asc(nulls_last=True), "granted_at", "id")
    return [CreditLeft(row, subtract(row.amount, row.used)) for row in ordered]


def adjustments_of(
    *, organisation: Organisation, book: PriceBookDocument, net: Decimal, carried_in: Decimal, until: datetime
) -> list[Adjustment]:
    """What is added to, and taken off, usage of `net`: first the minimum charge, then credits, never below nought."""
    found = _minimum(organisation, book, net, until)
    total = exact_sum([net, carried_in, *(one.amount for one in found)])
    return found + _credits(organisation, book, total, until)


def _minimum(organisation: Organisation, book: PriceBookDocument, net: Decimal, until: datetime) -> list[Adjustment]:
    """On the invoice that closes a month: what all invoices of the month lack to the book's minimum."""
    start, _ = month_of(until)
    if book.minimum_charge == 0 or until != start:
        return []
    month, _ = month_of(start - timedelta(seconds=1))
    earlier = Invoice.objects.filter(
        organisation=organisation, currency=book.currency.code, period_end__gt=month, period_end__lt=until
    ).exclude(state="void")
    before = exact_sum(earlier.values_list("net", flat=True))
    missing = minimum_topup(book, exact_sum([net, before]))
    if missing == 0:
        return []
    least = amount_text(book.minimum_charge, exponent=book.currency.exponent)
    sentence = f"Price book {book.version} asks for at least {least} {book.currency.code} a month with usage."
    basis = {
        "book_digest": book.digest,
        "minimum": decimal_text(book.minimum_charge),
        "net": decimal_text(net),
        "invoiced_before": decimal_text(before),
    }
    return [Adjustment("minimum", "Minimum charge", sentence, missing, AccountKind.BREAKAGE, basis)]


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
                AccountKind.CREDIT, {"grant": str(grant.id)}, grant,
            )
        )  # fmt: skip
    return found
