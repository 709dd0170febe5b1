"""Rate a month's usage again with another price book."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.models import Organisation, User
from apps.accounts.turns import turn
from apps.ledger.models import UsageRow
from apps.ledger.selectors import executions_of, month_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import NotPriced, Rating, RatingError, book_from_json, decimal_text, exact_sum, rate
from apps.pricing.rating.book import PriceBookDocument
from apps.pricing.rating.decimals import subtract
from apps.reports.models import Rerating
from apps.sales.contract_minimum import minimum_lacking
from apps.sales.models import Contract

CHUNK = 500  # rows between two updates of the progress
GROUPS = ("pool", "class", "customer")


class RatedPart(NamedTuple):
    """The result for one pool, class or customer. `amount` was charged, and `other` is the amount at the other book's
    prices. `unpriced` is the number of rows that the other book does not price; `other` excludes these rows.
    """

    name: str
    executions: int
    amount: Decimal
    other: Decimal
    unpriced: int

    @property
    def difference(self) -> Decimal | None:
        """`other` less `amount`; None if some rows are unpriced."""
        return None if self.unpriced else subtract(self.other, self.amount)

    def to_json(self) -> dict[str, Any]:
        """Return the part in its stored form, with amounts as text."""
        return {**self._asdict(), "amount": decimal_text(self.amount), "other": decimal_text(self.other)}

    @classmethod
    def from_json(cls, stored: dict[str, Any]) -> RatedPart:
        """Read a part from its stored form."""
        amounts = {"amount": Decimal(stored["amount"]), "other": Decimal(stored["other"])}
        return cls(**{**stored, **amounts})


@dataclass
class _Sum:
    executions: int = 0
    amount: Decimal = Decimal(0)
    other: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, row: UsageRow, other: Decimal | None) -> None:
        self.executions += executions_of(row)
        self.amount = exact_sum([self.amount, row.amount])
        if other is None:
            self.unpriced += 1
        else:
            self.other = exact_sum([self.other, other])

    def part(self, name: str) -> RatedPart:
        return RatedPart(name, self.executions, self.amount, self.other, self.unpriced)


def rerating_request(*, book: PriceBook, month: datetime, asked_by: User | None, now: datetime) -> Rerating:
    """Create a re-rating of a calendar month (UTC) for a worker to carry out. `book` may be an unsaved draft."""
    start, end = month_of(month)
    rerating = Rerating(
        asked_by=asked_by,
        version=book.version,
        document=book.document,
        currency=book.currency,
        start=start,
        until=max(start, min(end, now)),
        rows_total=0,
        asked_at=now,
    )
    rerating.rows_total = usage_of(rerating).count()
    rerating.save(force_insert=True)
    return rerating


def rerating_run(*, pk: UUID, now: datetime) -> Rerating:
    """Rate every row and store the result. Safe to repeat."""
    rerating = Rerating.objects.get(pk=pk)
    with turn(f"rerating {pk}") as is_ours:
        if rerating.finished_at is None and is_ours:
            _rate(rerating, now)
    rerating.refresh_from_db()
    return rerating


def _rate(rerating: Rerating, now: datetime) -> None:
    document, whole = book_from_json(rerating.document), _Sum()
    unfinished = Rerating.objects.filter(pk=rerating.pk, finished_at__isnull=True)
    sums: dict[str, dict[str, _Sum]] = {group: {} for group in GROUPS}
    pools, names = _names(rerating)
    done = 0
    for row in usage_of(rerating).iterator(chunk_size=CHUNK):
        other = rated_again(document, row)
        whole.add(row, other)
        for group, name in zip(GROUPS, (pools[row.contract_id], row.klass, str(row.organisation_id)), strict=True):
            sums[group].setdefault(name, _Sum()).add(row, other)
        done += 1
        if done % CHUNK == 0:
            unfinished.update(rows_done=done)
    result: dict[str, Any] = {"whole": whole.part("all").to_json()}
    for group, some in sums.items():
        parts = [one.part(names.get(name, name)) for name, one in some.items()]
        result[group] = [part.to_json() for part in sorted(parts, key=lambda part: (-part.amount, part.name))]
    unfinished.update(rows_done=done, result=result, finished_at=now)


def usage_of(rerating: Rerating) -> QuerySet[UsageRow]:
    """Return the usage rows of a re-rating."""
    rows = UsageRow.objects.filter(
        currency=rerating.currency, created_at__gte=rerating.start, created_at__lt=rerating.until
    )
    return rows.order_by("id")


def _names(rerating: Rerating) -> tuple[dict[UUID, str], dict[str, str]]:
    rows = usage_of(rerating).order_by()
    contracts = Contract.objects.filter(pk__in=rows.values("contract_id"))
    organisations = Organisation.objects.filter(pk__in=rows.values("organisation_id"))
    names = {str(pk): name for pk, name in organisations.values_list("pk", "name")}
    return dict(contracts.values_list("pk", "pool__slug")), names


def parts_of(rerating: Rerating) -> dict[str, list[RatedPart]]:
    """Return the result by group. The lists are empty until the re-rating is finished."""
    result = rerating.result or {}
    whole = [result["whole"]] if "whole" in result else []
    return {
        group: [RatedPart.from_json(one) for one in some]
        for group, some in (("whole", whole), *((group, result.get(group, [])) for group in GROUPS))
    }


def _minimum_again(document: PriceBookDocument, row: UsageRow) -> Decimal | None:
    others = UsageRow.objects.filter(contract_id=row.contract_id).exclude(pk=row.pk)
    amounts = [rated_again(document, one) for one in others]
    known = [amount for amount in amounts if amount is not None]
    return minimum_lacking(document, exact_sum(known)) if len(known) == len(amounts) else None


def rated_again(document: PriceBookDocument, row: UsageRow) -> Decimal | None:
    """Return the amount of a row at another book's prices. None if the other book has no price for the row's terms, or
    uses another currency.
    """
    rating = Rating.from_json(row.rating)
    if document.currency.code != row.currency:
        return None
    if rating.charged is not None:
        return _minimum_again(document, row)
    try:
        if rating.late and document.price_class(rating.terms.klass).late is None:
            return Decimal(0)
        return rate(
            book=document,
            counts=rating.counts,
            executions=rating.executions,
            terms=rating.terms,
            unused=rating.unused,
            missed=rating.missed,
            late=rating.late,
            measured=rating.measured,
            periods=rating.periods,
        ).amount
    except (NotPriced, RatingError):
        return None
