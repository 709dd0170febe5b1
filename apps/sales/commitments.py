"""Queries for commitments."""

from __future__ import annotations

import calendar
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.figures import money_format
from apps.pricing.limits import Window
from apps.pricing.models import PriceBook
from apps.pricing.rating import PriceBookDocument, decimal_text, exact_sum, multiply
from apps.pricing.rating.decimals import subtract
from apps.sales.amendments import rest_of
from apps.sales.models import Commitment, Contract, ContractState
from apps.sales.selectors import contract_usages

MONTHS = {"month": 1, "year": 12, "three_years": 36}
TITLES = {"month": "One month", "year": "One year", "three_years": "Three years"}


@dataclass(frozen=True)
class Month:
    """One month [start, end) of a commitment.

    `priced` is True if a price book in the commitment's currency was in force for the whole month. Otherwise, the month
    has no shortfall.
    """

    commitment: Commitment
    number: int
    start: datetime
    end: datetime
    minimum: Decimal
    used: Decimal
    priced: bool

    @property
    def missing(self) -> Decimal:
        if not self.priced:
            return Decimal(0)
        return max(subtract(self.minimum, self.used), Decimal(0))

    @property
    def key(self) -> str:
        return f"commitment:{self.commitment.id}:{self.start:%Y-%m-%d}"

    @property
    def share(self) -> Fraction:
        return Fraction(self.used) / Fraction(self.minimum)

    @property
    def sentence(self) -> str:
        used, least = (money_format(value, self.commitment.currency) for value in (self.used, self.minimum))
        return f"{TITLES[self.commitment.kind]}: minimum {least} from {self.start:%Y-%m-%d} to {self.end:%Y-%m-%d}, used {used}."

    @property
    def basis(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "commitment": str(self.commitment.id),
            "start": self.start.isoformat().replace("+00:00", "Z"),
            "end": self.end.isoformat().replace("+00:00", "Z"),
            "minimum": decimal_text(self.minimum),
            "used": decimal_text(self.used),
        }


def months_after(start: datetime, months: int) -> datetime:
    """Add months to an instant. If the target month is too short, use its last day."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    day = min(start.day, calendar.monthrange(year, month + 1)[1])
    return start.replace(year=year, month=month + 1, day=day)


def commitments_of(organisation: Organisation) -> QuerySet[Commitment]:
    """Return the commitments of an organisation, newest first."""
    return Commitment.objects.filter(organisation=organisation).select_related("accepted_by")


def commitment_at(organisation: Organisation, *, at: datetime, currency: str) -> Commitment | None:
    """Return the commitment in this currency that applies at an instant; None if there is none."""
    return Commitment.objects.filter(organisation=organisation, currency=currency, period__contains=at).first()


def commitments_paused(organisation: Organisation, *, at: datetime) -> list[Commitment]:
    """Return the commitments that are paused at an instant, newest first.

    A commitment is paused if no price book in its currency is in force.
    """
    priced = PriceBook.objects.filter(effective__contains=at).values("currency")
    return list(commitments_of(organisation).filter(period__contains=at).exclude(currency__in=priced))


def commitment_months(commitment: Commitment, *, until: datetime | None = None) -> list[Month]:
    """Return the months that begin before `until`, in order."""
    return commitments_months([commitment], until=until)


def commitments_months(commitments: Sequence[Commitment], *, until: datetime | None = None) -> list[Month]:
    """Return the months of several commitments, in order, with one query for all usage."""
    bounds = [
        (one, number + 1, months_after(one.starts_at, number), months_after(one.starts_at, number + 1))
        for one in commitments
        for number in range(MONTHS[one.kind])
    ]
    shown = [bound for bound in bounds if until is None or bound[2] < until]
    used = _used([(one, start, end) for one, _, start, end in shown])
    books = {code: books_in(code) for code in {one.currency for one in commitments}}
    return [
        Month(one, number, start, end, one.minimum, amount, is_priced(books[one.currency], start, end))
        for (one, number, start, end), amount in zip(shown, used, strict=True)
    ]


def books_in(currency: str) -> list[tuple[datetime, datetime | None]]:
    """Return the periods in which price books in this currency are in force. An end of None means no end."""
    books = PriceBook.objects.filter(currency=currency).order_by("effective")
    return [(book.effective_from, book.effective_until) for book in books]


def is_priced(books: list[tuple[datetime, datetime | None]], start: datetime, end: datetime) -> bool:
    """Return True if the price books cover [start, end) without a gap."""
    for first, last in books:
        if first <= start < (last or end):
            start = last or end
    return start >= end


# Usage is stored as sums for whole quarters of an hour; the ends of a month are added from rows.
_USED = """
WITH month AS (
    SELECT *, date_bin('15 minutes', first + interval '15 minutes' - interval '1 microsecond', 'epoch') AS whole_from,
        date_bin('15 minutes', last, 'epoch') AS whole_to
    FROM unnest(%(commitments)s::uuid[], %(codes)s::text[], %(starts)s::timestamptz[], %(ends)s::timestamptz[])
        WITH ORDINALITY AS one (commitment_id, currency, first, last, place)
)
SELECT place, sum(amount) FROM (
    SELECT place, kept.amount FROM month JOIN sales_contract AS contract USING (commitment_id)
    JOIN ledger_usagesum AS kept ON kept.contract_id = contract.id AND kept.currency = month.currency
        AND kept.recorded_at >= whole_from AND kept.recorded_at < whole_to
    UNION ALL
    SELECT place, used.amount FROM month JOIN sales_contract AS contract USING (commitment_id)
    CROSS JOIN LATERAL (VALUES (first, whole_from), (whole_to, last)) AS edge (since, till)
    JOIN ledger_usagerow AS used ON used.contract_id = contract.id AND used.currency = month.currency
        AND used.created_at >= since AND used.created_at < till
) AS used GROUP BY place
"""


def _used(months: Sequence[tuple[Commitment, datetime, datetime]]) -> list[Decimal]:
    if not months:
        return []
    told: dict[str, Any] = {
        "commitments": [one.pk for one, _, _ in months],
        "codes": [one.currency for one, _, _ in months],
        "starts": [start for _, start, _ in months],
        "ends": [end for _, _, end in months],
    }
    with connection.cursor() as cursor:
        cursor.execute(_USED, told)
        found = dict(cursor.fetchall())
    return [found.get(place, Decimal(0)) for place in range(1, len(months) + 1)]


def shortfalls_ended(organisation: Organisation, *, currency: str, until: datetime) -> list[Month]:
    """Return the months that ended by `until` and have a shortfall, oldest first."""
    began = Commitment.objects.filter(organisation=organisation, currency=currency, period__startswith__lt=until)
    found = commitments_months(list(began), until=until)
    return sorted((month for month in found if month.end <= until and month.missing), key=lambda month: month.start)


def commitment_left(commitment: Commitment) -> Decimal:
    """Return the amount that can still be bought at the commitment's factor."""
    contracts = list(Contract.objects.filter(commitment=commitment))
    over = [contract for contract in contracts if contract.state != ContractState.ACTIVE]
    usages = contract_usages(over) if over else {}
    bought = [usages[one.id].actual if one.id in usages else one.net for one in contracts]
    return subtract(promised(commitment), exact_sum(bought))


def promised(commitment: Commitment) -> Decimal:
    """Return the sum of all monthly minimums."""
    return multiply(commitment.minimum, MONTHS[commitment.kind])


def commitment_covers(
    commitment: Commitment,
    net: Decimal,
    window: Window,
    book: PriceBookDocument,
    *,
    amends: Contract | None = None,
    late: Mapping[str, int] | None = None,
) -> bool:
    """Return True if work at the price `net` can be bought under the commitment.

    `amends`: the contract that the purchase amends. `late`: the number of executions released late, by program digest.
    """
    left = commitment_left(commitment)
    if amends is not None and amends.commitment_id == commitment.id:
        rest = rest_of(amends, late=late)
        left = exact_sum([left, rest.worth, rest.charge.copy_negate()])
    return net <= left and window.end <= commitment.ends_at and commitment.currency == book.currency.code


def commitment_ends(kind: str, starts_at: datetime) -> datetime:
    """Return the end of a commitment that begins at `starts_at`."""
    return months_after(starts_at, MONTHS[kind])


def whole_second(now: datetime) -> datetime:
    """Round an instant down to a whole second."""
    return now - timedelta(microseconds=now.microsecond)
