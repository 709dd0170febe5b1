"""Finds the months in which a minimum charge applies to an organisation."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.ledger.models import Spend, UsageRow
from apps.pricing.models import PriceBook
from apps.pricing.rating import PriceBookDocument, month_end, month_start
from apps.pricing.selectors import document_of


def currencies_with_minimum() -> list[str]:
    """Return the currencies in which any price book has a minimum charge."""
    asking = PriceBook.objects.filter(document__has_key="minimum_charge").order_by()
    return sorted(asking.values_list("currency", flat=True).distinct())


def minimum_book(currency: str, month: datetime) -> PriceBookDocument | None:
    """Return the last price book in force in a calendar month; None if that price book has no minimum charge."""
    rows = PriceBook.objects.filter(currency=currency, effective__overlap=(month, month_end(month)))
    book = next((document_of(row) for row in rows.order_by("-effective")[:1]), None)
    return book if book is not None and book.minimum_charge else None


def months_with_minimum(
    organisation: Organisation, currency: str, *, until: datetime, more: Iterable[datetime] = ()
) -> dict[datetime, PriceBookDocument]:
    """Map each month that has usage and a minimum charge to its price book.

    Only months that ended by `until` count. `more` lists further months to consider.
    """
    if currency not in currencies_with_minimum():
        return {}
    spent = Spend.objects.filter(organisation=organisation, currency=currency, month__lt=month_start(until).date())
    days = spent.order_by().values_list("month", flat=True).distinct()
    months = {datetime.combine(day, time(), tzinfo=UTC) for day in days} | set(more)
    found = {}
    for month in sorted(one for one in months if month_end(one) <= until):
        book = minimum_book(currency, month)
        if book is not None and usage_of_month(organisation, currency, month).exists():
            found[month] = book
    return found


def usage_of_month(organisation: Organisation, currency: str, month: datetime) -> QuerySet[UsageRow]:
    """Return the usage rows recorded in a calendar month in one currency."""
    rows = UsageRow.objects.filter(organisation=organisation, currency=currency, created_at__gte=month)
    return rows.filter(created_at__lt=month_end(month))
