"""What a month brought in, by pool, class and customer, beside the capacity that it used; and what another price book
would have made of it. Amounts are the ledger's own, exact."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from apps.accounts.models import Organisation
from apps.dispatch.models import Lease, LeaseState
from apps.fleet.models import Device, Pool
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import NotPriced, Rating, RatingError, exact_sum, rate
from apps.pricing.rating.book import PriceBookDocument
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import document_of
from apps.sales.models import Contract

CHUNK = 500
GROUPS = ("pool", "class", "customer")


class Part(NamedTuple):
    """One pool, class or customer: what was used there, and what it brought in. `other` is the same usage under the
    other book, without what that does not price: `unpriced` rows."""

    name: str
    executions: int
    amount: Decimal
    other: Decimal | None
    unpriced: int

    @property
    def difference(self) -> Decimal | None:
        """More (or less) under the other book; None without one, or when it does not price everything."""
        return None if self.other is None or self.unpriced else subtract(self.other, self.amount)


class PoolUse(NamedTuple):
    """A pool's device time of the month: what there was, and in how much of it leases ran."""

    pool: str
    available: timedelta
    executed: timedelta
    amount: Decimal

    @property
    def share(self) -> Fraction:
        """Used, of what there was."""
        whole = self.available // timedelta(microseconds=1)
        return Fraction(self.executed // timedelta(microseconds=1), whole) if whole else Fraction(0)


@dataclass(frozen=True)
class Revenue:
    """A month in one currency."""

    start: datetime
    end: datetime
    currency: str
    parts: dict[str, list[Part]]
    pools: list[PoolUse]
    whole: Part
    book: PriceBook | None


@dataclass
class _Sum:
    executions: int = 0
    amount: Decimal = Decimal(0)
    other: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, row: UsageRow, other: Decimal | None) -> None:
        self.executions += row.quantity
        self.amount = exact_sum([self.amount, row.amount])
        if other is None:
            self.unpriced += 1
        else:
            self.other = exact_sum([self.other, other])

    def part(self, name: str, *, rated: bool) -> Part:
        return Part(name, self.executions, self.amount, self.other if rated else None, self.unpriced if rated else 0)


def revenue(*, month: datetime, currency: str, book: PriceBook | None = None) -> Revenue:
    """The usage recorded in the calendar month (UTC) that holds `month`; with `book` every row is rated again by it."""
    start, end = month_of(month)
    rows = UsageRow.objects.filter(created_at__gte=start, created_at__lt=end, currency=currency).order_by("id")
    document = None if book is None else document_of(book)
    pools = dict(Contract.objects.filter(pk__in=rows.values("contract_id")).values_list("pk", "pool__slug"))
    names = dict(Organisation.objects.filter(pk__in=rows.values("organisation_id")).values_list("pk", "name"))
    sums: dict[tuple[str, str | UUID], _Sum] = {}
    whole = _Sum()
    for row in rows.iterator(chunk_size=CHUNK):
        other = None if document is None else rated_again(document, row)
        keys = (("pool", pools[row.contract_id]), ("class", row.klass), ("customer", row.organisation_id))
        for key in keys:
            sums.setdefault(key, _Sum()).add(row, other)
        whole.add(row, other)
    is_rated = document is not None
    parts: dict[str, list[Part]] = {group: [] for group in GROUPS}
    for (group, name), total in sums.items():
        parts[group].append(total.part(names[name] if isinstance(name, UUID) else name, rated=is_rated))
    for ordered in parts.values():
        ordered.sort(key=lambda part: (-part.amount, part.name))
    by_pool = {part.name: part.amount for part in parts["pool"]}
    return Revenue(start, end, currency, parts, _pools(start, end, by_pool), whole.part("all", rated=is_rated), book)


def rated_again(document: PriceBookDocument, row: UsageRow) -> Decimal | None:
    """What the row would cost by another book under its own terms; None when the book has no price for them, or in
    another currency."""
    rating = Rating.from_json(row.rating)
    if document.currency.code != row.currency:
        return None
    try:
        return rate(
            book=document, counts=rating.counts, executions=rating.executions, terms=rating.terms, unused=rating.unused,
            missed=rating.missed, measured=rating.measured, periods=rating.periods,
        ).amount  # fmt: skip
    except (NotPriced, RatingError):
        return None


def _pools(start: datetime, end: datetime, income: dict[str, Decimal]) -> list[PoolUse]:
    """Each pool's device time; executed time of leases that began in the month, cut at its end."""
    found: list[PoolUse] = []
    for pool in Pool.objects.order_by("slug"):
        devices = Device.objects.filter(pool=pool, is_active=True).count()
        leases = Lease.objects.filter(
            device__pool=pool, state=LeaseState.DONE, device_from__lt=end, device_to__gt=start
        ).values_list("device_from", "device_to")
        executed = sum((min(last, end) - max(first, start) for first, last in leases.iterator()), timedelta())
        found.append(PoolUse(pool.slug, devices * (end - start), executed, income.get(pool.slug, Decimal(0))))
    return found
