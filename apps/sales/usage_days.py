"""The usage of a contract by local day."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import Coalesce, TruncDate

from apps.accounts.numbers import FIRST_YEAR, LAST_YEAR
from apps.ledger.models import UsageRow, UsageSum
from apps.ledger.selectors import usage_of
from apps.pricing.rating import exact_sum
from apps.pricing.rating.tariff import zone_of
from apps.sales.models import Contract

CHART_DAYS = 60  # bars that can be told apart
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class UsageDay:
    """The usage of a contract on one local day. `rows`: the number of usage rows."""

    date: date
    executions: int
    billed_operations: int
    amount: Decimal
    rows: int


def usage_days(contract: Contract, *, zone: str) -> list[UsageDay]:
    """Return the local days with usage or other charges, newest first."""
    ran = Q(unused=False, billed_operations__gt=0)
    rows = (
        UsageSum.objects.filter(contract_id=contract.pk)
        .annotate(day=TruncDate("occurred_at", tzinfo=zone_of(zone)))
        .values("day")
        .annotate(
            executions=Coalesce(Sum("quantity", filter=ran), Decimal(0)),
            billed=Coalesce(Sum("billed_operations", filter=ran), Decimal(0)),
            charged=Sum("amount"),
            count=Sum("rows"),
        )
        .order_by("-day")
    )
    return [
        UsageDay(row["day"], int(row["executions"]), int(row["billed"]), row["charged"], int(row["count"]))
        for row in rows
    ]


def usage_day_rows(contract: Contract, day: date, *, zone: str) -> QuerySet[UsageRow]:
    """Return the usage rows that began on this local day."""
    start, end = day_bounds(day, zone)
    return usage_of(contract.pk).filter(occurred_from__gte=start, occurred_from__lt=end)


def day_bounds(day: date, zone: str) -> tuple[datetime, datetime]:
    """Return the start and the end of a local day."""
    local = zone_of(zone)
    following = day + timedelta(days=1)
    return datetime(day.year, day.month, day.day, tzinfo=local), datetime(
        following.year, following.month, following.day, tzinfo=local
    )


def day_read(text: str) -> date | None:
    """Parse a day such as 2026-11-30. Return None if the day is invalid or its year is out of range."""
    if not _DAY.fullmatch(text):
        return None
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return None
    return day if FIRST_YEAR <= day.year <= LAST_YEAR else None


def usage_chart(days: Sequence[UsageDay], currency: str) -> dict[str, Any]:
    """Return the bars of the newest days, in chronological order."""
    drawn = list(reversed(days[:CHART_DAYS]))
    return {
        "unit": currency,
        "categories": [one.date.isoformat() for one in drawn],
        "series": [{"name": "Amount", "values": [float(one.amount) for one in drawn]}],
    }


def usage_total(days: Sequence[UsageDay]) -> Decimal:
    """Return the total amount of all days."""
    return exact_sum(one.amount for one in days)
