"""The credits of an organisation as funds: from when to when each can pay, and what invoices used of it for which time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from django.db.models import F, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation
from apps.invoicing.models import CreditGrant, CreditUse, InvoiceState
from apps.invoicing.models.invoices import amount_field
from apps.pricing.rating import Fund, Purse, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.months import Uses


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


@dataclass(frozen=True)
class Wallet:
    """The credits in one currency by their ids, the next to expire first, and as the rules see them."""

    credits: Mapping[str, CreditLeft]
    purse: Purse


def wallet_of(organisation: Organisation, *, currency: str) -> Wallet:
    """The credits in a currency. One pays for what is used from its grant until it expires or is ended; what a credit note
    gives back of it, from that note on. What was ended or has expired of it is no part of it any more."""
    known = {str(one.grant.id): one for one in credits_of(organisation, currency=currency)}
    if not known:
        return Wallet({}, Purse())
    rows = CreditUse.objects.filter(grant__organisation=organisation, grant__currency=currency).order_by("at", "id")
    over = dict(rows.filter(invoice=None).order_by().values_list("grant_id").annotate(sum=Sum("amount")))
    funds = {
        key: Fund(
            key,
            one.grant.granted_at,
            one.grant.expires_at,
            subtract(one.grant.amount, over.get(one.grant.id, Decimal(0))),
            ended=one.grant.ended.ended_at if one.grant.ended else None,
        )
        for key, one in known.items()
    }
    returned: list[Fund] = []
    used: Uses = {}
    older: dict[str, Decimal] = {}
    standing = rows.exclude(invoice=None).exclude(invoice__state=InvoiceState.VOID)
    for grant, section, amount, at in standing.values_list("grant_id", "section", "amount", "at"):
        key = str(grant)
        if amount < 0:
            returned.append(replace(funds[key], start=at, amount=amount.copy_negate()))
        elif section is None:
            older[key] = exact_sum([older.get(key, Decimal(0)), amount])
        else:
            used[section, key] = exact_sum([used.get((section, key), Decimal(0)), amount])
    left = {key: one.left for key, one in known.items()}
    return Wallet(known, Purse((*funds.values(), *returned), left, used, older))
