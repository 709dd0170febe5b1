"""What the invoices that stand hold of each month already: the other half of every amount that a draft asks for."""

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


def standing_of(organisation: Organisation, currency: str, *, since: datetime) -> Standing:
    """What stands of months from the one around `since` on. A period never begins after anything that it asks for."""
    rows = Invoice.objects.filter(organisation=organisation, currency=currency, period_end__gt=month_start(since))
    told = rows.exclude(state=InvoiceState.VOID).order_by("sequence")
    sections: defaultdict[datetime, list[Held]] = defaultdict(list)
    older: defaultdict[datetime, Older] = defaultdict(Older)
    for rules, end, net, parts, lines in told.values_list(
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
class Asked:
    """What all standing invoices in a currency ask for together, and what their rounding carries on."""

    payable: Decimal
    carried: Decimal
    tax: Decimal
    tax_carried: Decimal


def asked_by_all(organisation: Organisation, currency: str) -> Asked:
    """The sums of the invoices that stand. What is carried is what they carried on and none has taken."""
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state=InvoiceState.VOID)
    found = standing.aggregate(
        payable=Sum("payable"), out=Sum("carried_out"), into=Sum("carried_in"), tax=Sum("tax"), more=Sum("tax_carried")
    )
    nothing = Decimal(0)
    return Asked(
        payable=found["payable"] or nothing,
        carried=subtract(found["out"] or nothing, found["into"] or nothing),
        tax=found["tax"] or nothing,
        tax_carried=found["more"] or nothing,
    )


def carried_open(organisation: Organisation, currency: str) -> Decimal:
    """What invoices that stand carried on and none has taken: of a chain that is whole, what the last one carries out."""
    return asked_by_all(organisation, currency).carried
