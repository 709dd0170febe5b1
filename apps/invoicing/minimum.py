"""The minimum charge of a month: which months of whom are asked for one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, time

from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.ledger.models import Spend, UsageRow
from apps.pricing.models import PriceBook
from apps.pricing.rating import PriceBookDocument, month_end, month_start
from apps.pricing.selectors import document_of


def currencies_asking() -> list[str]:
    """The currencies of which a book ever asked for a minimum."""
    asking = PriceBook.objects.filter(document__has_key="minimum_charge").order_by()
    return sorted(asking.values_list("currency", flat=True).distinct())


def minimum_book(currency: str, month: datetime) -> PriceBookDocument | None:
    """The last book in the currency that was in force in the calendar month, where it asks for a minimum; None where it
    does not, and where there was none."""
    rows = PriceBook.objects.filter(currency=currency, effective__overlap=(month, month_end(month)))
    book = next((document_of(row) for row in rows.order_by("-effective")[:1]), None)
    return book if book is not None and book.minimum_charge else None


def months_asking(
    organisation: Organisation, currency: str, *, until: datetime, more: Iterable[datetime] = ()
) -> dict[datetime, PriceBookDocument]:
    """The months over by `until` in which the organisation used something and whose book asks for a minimum; `more` are
    months in which something is known to wait."""
    if currency not in currencies_asking():
        return {}
    spent = Spend.objects.filter(organisation=organisation, currency=currency, month__lt=month_start(until).date())
    days = spent.order_by().values_list("month", flat=True).distinct()
    months = {datetime.combine(day, time(), tzinfo=UTC) for day in days} | set(more)
    found = {}
    for month in sorted(one for one in months if month_end(one) <= until):
        book = minimum_book(currency, month)
        if book is not None and used_in(organisation, currency, month).exists():
            found[month] = book
    return found


def used_in(organisation: Organisation, currency: str, month: datetime) -> QuerySet[UsageRow]:
    """What was used in a currency and recorded in the calendar month."""
    rows = UsageRow.objects.filter(organisation=organisation, currency=currency, created_at__gte=month)
    return rows.filter(created_at__lt=month_end(month))
