"""Credits as funds for the pricing rules, with the amounts already used by section."""

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
    """A credit grant with the amount left."""

    grant: CreditGrant
    left: Decimal

    @property
    def used(self) -> Decimal:
        """The total amount used by invoices, expired or withdrawn."""
        return subtract(self.grant.amount, self.left)


def credits_left(organisation: Organisation) -> list[CreditLeft]:
    """Return every grant with the amount left, in all currencies. The earliest expiry comes first."""
    used = Coalesce(Sum("uses__amount"), Value(Decimal(0)), output_field=amount_field())
    rows = CreditGrant.objects.filter(organisation=organisation).select_related("end__ended_by").annotate(used=used)
    ordered = rows.order_by(F("expires_at").asc(nulls_last=True), "granted_at", "id")
    return [CreditLeft(row, subtract(row.amount, row.used)) for row in ordered]


def credits_of(organisation: Organisation, *, currency: str) -> list[CreditLeft]:
    """Return the grants in one currency with the amounts left."""
    return [one for one in credits_left(organisation) if one.grant.currency == currency]


@dataclass(frozen=True)
class CreditFunds:
    """The credits in one currency. `credits` maps ids to credits, the earliest expiry first. `purse` holds the same
    credits for the pricing rules.
    """

    credits: Mapping[str, CreditLeft]
    purse: Purse


def credit_funds_of(organisation: Organisation, *, currency: str) -> CreditFunds:
    """Return the credits in one currency.

    A credit pays for usage between its grant and its expiry or end. An amount restored by a credit note pays only for
    usage after the credit note.
    """
    known = {str(one.grant.id): one for one in credits_of(organisation, currency=currency)}
    if not known:
        return CreditFunds({}, Purse())
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
    return CreditFunds(known, Purse((*funds.values(), *returned), left, used, older))
