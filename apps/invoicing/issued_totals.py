"""Sums the amounts on issued invoices."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from apps.accounts.models import Organisation
from apps.invoicing.models import GrantKind, Invoice, InvoiceState
from apps.pricing.rating import RULES, Held, Older, Standing, exact_sum, held_of_json, month_start
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.months import MICROSECOND


def issued_months(organisation: Organisation, currency: str, *, since: datetime) -> Standing:
    """Return the amounts on valid invoices for each month, starting with the month of `since`."""
    rows = Invoice.objects.filter(organisation=organisation, currency=currency, period_end__gt=month_start(since))
    valid = rows.exclude(state=InvoiceState.VOID).order_by("sequence")
    sections: defaultdict[datetime, list[Held]] = defaultdict(list)
    older: defaultdict[datetime, Older] = defaultdict(Older)
    for rules, end, net, parts, lines in valid.values_list(
        "rules", "period_end", "net", "document__sections", "document__adjustments"
    ):
        if rules >= RULES:
            for part in parts:
                start, held = held_of_json(part)
                sections[start].append(held)
        else:
            _older_add(older[month_start(end - MICROSECOND)], net, lines or [])
    return Standing(sections, older)


def _older_add(month: Older, net: Decimal, adjustments: list[dict[str, Any]]) -> None:
    given = [Decimal(one["amount"]) for one in adjustments if one["kind"] in GrantKind.values]
    month.charged = exact_sum([month.charged, subtract(net, exact_sum(given))])
    month.free += sum(int(one["basis"]["operations"]) for one in adjustments if one["kind"] == "free-tier")


@dataclass(frozen=True)
class IssuedTotals:
    """The totals of all valid invoices in a currency, and the rounding remainder not yet invoiced."""

    payable: Decimal
    carried: Decimal
    tax: Decimal
    tax_carried: Decimal


def issued_totals(organisation: Organisation, currency: str) -> IssuedTotals:
    """Return the totals of the organisation's valid invoices in the currency."""
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state=InvoiceState.VOID)
    found = standing.aggregate(
        payable=Sum("payable"), out=Sum("carried_out"), into=Sum("carried_in"), tax=Sum("tax"), more=Sum("tax_carried")
    )
    nothing = Decimal(0)
    return IssuedTotals(
        payable=found["payable"] or nothing,
        carried=subtract(found["out"] or nothing, found["into"] or nothing),
        tax=found["tax"] or nothing,
        tax_carried=found["more"] or nothing,
    )


def carried_open(organisation: Organisation, currency: str) -> Decimal:
    """Return the rounding remainder that is not yet on an invoice."""
    return issued_totals(organisation, currency).carried
