"""What an administrator sees of customers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Count, QuerySet, Sum

from apps.accounts.models import Organisation
from apps.billing.models import WAITING, CreditGrant, CreditUse, Invoice
from apps.pricing.rating.decimals import subtract


@dataclass(frozen=True)
class Customer:
    """An organisation, what it still has to pay, and what is left of its credits."""

    organisation: Organisation
    invoices: int
    open: Decimal
    credit: Decimal


def organisations_found(words: str) -> QuerySet[Organisation]:
    """Organisations by name; all without words."""
    return Organisation.objects.filter(name__icontains=words.strip()).order_by("name", "pk")


def customers_of(organisations: list[Organisation], *, currency: str) -> list[Customer]:
    """Those organisations with their sums, in a fixed number of queries."""
    invoices = Invoice.objects.filter(organisation__in=organisations, currency=currency).order_by()
    waiting = invoices.filter(state__in=WAITING)
    count = {row["organisation"]: row["n"] for row in invoices.values("organisation").annotate(n=Count("pk"))}
    open_sums = {row["organisation"]: row["s"] for row in waiting.values("organisation").annotate(s=Sum("open"))}
    grants = CreditGrant.objects.filter(organisation__in=organisations, currency=currency).order_by()
    granted = {row["organisation"]: row["s"] for row in grants.values("organisation").annotate(s=Sum("amount"))}
    uses = CreditUse.objects.filter(grant__in=grants).order_by()
    used = {
        row["grant__organisation"]: row["s"] for row in uses.values("grant__organisation").annotate(s=Sum("amount"))
    }
    nothing = Decimal(0)
    return [
        Customer(
            one, count.get(one.pk, 0), open_sums.get(one.pk, nothing),
            subtract(granted.get(one.pk, nothing), used.get(one.pk, nothing)),
        )
        for one in organisations
    ]  # fmt: skip
