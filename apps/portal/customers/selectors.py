"""Read customers with their invoices and credits, for administrators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Count, QuerySet, Sum

from apps.accounts.models import Organisation
from apps.invoicing.models import WAITING, CreditGrant, CreditUse, Invoice
from apps.ledger.models import AccountKind
from apps.ledger.selectors import balances
from apps.pricing.amounts import currency_of
from apps.pricing.rating import Currency
from apps.pricing.rating.decimals import subtract


class Money(NamedTuple):
    """A customer's totals in one currency: the number of invoices, the open amount, and the remaining credits."""

    currency: str
    invoices: int
    open: Decimal
    credit: Decimal


@dataclass(frozen=True)
class Customer:
    """An organisation with its totals in each currency."""

    organisation: Organisation
    money: list[Money] = field(default_factory=list)


def organisations_found(words: str) -> QuerySet[Organisation]:
    """Return the organisations whose name contains `words`, sorted by name."""
    return Organisation.objects.filter(name__icontains=words.strip()).order_by("name", "pk")


_Sums = dict[tuple[UUID, str], Any]


def customers_of(organisations: list[Organisation]) -> list[Customer]:
    """Return the organisations with their totals by currency, in a fixed number of queries."""
    invoices = Invoice.objects.filter(organisation__in=organisations).order_by()
    grants = CreditGrant.objects.filter(organisation__in=organisations).order_by()
    uses = CreditUse.objects.filter(grant__in=grants).order_by()
    by = ("organisation", "currency")
    count = _sums(invoices.values_list(*by).annotate(n=Count("pk")))
    unpaid = _sums(invoices.filter(state__in=WAITING).values_list(*by).annotate(s=Sum("open")))
    granted = _sums(grants.values_list(*by).annotate(s=Sum("amount")))
    used = _sums(uses.values_list("grant__organisation", "grant__currency").annotate(s=Sum("amount")))
    nothing, found = Decimal(0), {one.pk: Customer(one) for one in organisations}
    for key in sorted(count.keys() | granted.keys(), key=str):
        left = subtract(granted.get(key, nothing), used.get(key, nothing))
        found[key[0]].money.append(Money(key[1], count.get(key, 0), unpaid.get(key, nothing), left))
    return list(found.values())


def _sums(rows: Iterable[tuple[UUID, str, Any]]) -> _Sums:
    return {(organisation, currency): value for organisation, currency, value in rows}


def balances_prepaid(organisation: Organisation) -> list[tuple[str, Decimal]]:
    """Return the balance in each currency: the amount paid or credited beyond the amount due."""
    found = sorted(balances(organisation.id).items())
    return [(code, -amount) for (kind, code), amount in found if kind == AccountKind.PREPAID.value and amount]


def refund_currencies(balances_held: list[tuple[str, Decimal]], offered: Sequence[Currency]) -> list[Currency]:
    """Return the currencies of a refund form. Currencies with a balance come first."""
    has = dict(balances_held)
    return [*(currency_of(code) for code in has), *(one for one in offered if one.code not in has)]
