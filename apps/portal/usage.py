"""Usage by day, grouped by project, model, class, API token or tariff hours. Amounts are exact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import F, QuerySet, Sum
from django.db.models.functions import TruncDate, TruncHour

from apps.accounts.models import ApiToken, Organisation
from apps.ledger.models import UsageSum
from apps.ledger.selectors import executions_sum
from apps.pricing.rating import PriceBookDocument, exact_sum
from apps.registry.models import Project

# The groups of the usage page and the usage column of each; tariff hours are computed from the instant.
COLUMNS = {"project": "project_id", "model": "model_name", "class": "klass", "key": "token_id", "hours": "hour"}
NO_KEY = "in the browser"
SERIES_MAX = 7  # groups with a colour of their own; the others are drawn as one series
OTHERS = "other"


@dataclass(frozen=True)
class UsageQuery:
    """A usage query: the local days, the column to group by, and the filters. An empty filter matches everything."""

    first: date
    last: date
    currency: str
    group: str = "model"
    project: UUID | None = None
    model: str = ""
    klass: str = ""
    key: UUID | None = None
    without_key: bool = False

    def interval(self, zone: str) -> tuple[datetime, datetime]:
        """Return the queried days as a period [start, end) in UTC."""
        tz = ZoneInfo(zone)
        after = self.last + timedelta(days=1)
        start, end = (datetime.combine(day, time.min, tz).astimezone(UTC) for day in (self.first, after))
        return start, end


@dataclass
class Total:
    """The usage of one group. `operations` were counted, and `billed` operations were charged."""

    name: str
    executions: int = 0
    operations: int = 0
    billed: int = 0
    amount: Decimal = Decimal(0)

    def add(self, other: Total) -> None:
        self.executions += other.executions
        self.operations += other.operations
        self.billed += other.billed
        self.amount = exact_sum([self.amount, other.amount])

    @property
    def raised(self) -> int:
        """The number of operations that were billed only because of the minimum per cycle."""
        return max(self.billed - self.operations, 0)


@dataclass
class UsageReport:
    """The result of a usage query. `groups` are sorted by amount, largest first. `days` includes days without usage."""

    query: UsageQuery
    groups: list[Total] = field(default_factory=list)
    days: list[tuple[date, dict[str, Total], Total]] = field(default_factory=list)
    total: Total = field(default_factory=lambda: Total("all"))

    @property
    def days_with_usage(self) -> list[tuple[date, list[Decimal], Total]]:
        """The rows (day, amounts by series, total) for the days with usage."""
        return [
            (day, [self.amount(groups, name) for name in self.series], total)
            for day, groups, total in self.days
            if groups
        ]

    @property
    def series(self) -> list[str]:
        """The names of the chart's series: the largest groups, then `OTHERS`."""
        names = [one.name for one in self.groups]
        return names if len(names) <= SERIES_MAX + 1 else [*names[:SERIES_MAX], OTHERS]

    def amount(self, groups: Mapping[str, Total], name: str) -> Decimal:
        """Return a day's amount for a name in `series`."""
        if name != OTHERS or name in {one.name for one in self.groups}:
            return groups[name].amount if name in groups else Decimal(0)
        named = set(self.series)
        return exact_sum(one.amount for one in groups.values() if one.name not in named)


def usage_report(*, organisation: Organisation, query: UsageQuery, book: PriceBookDocument) -> UsageReport:
    """Sum usage by day and group. `book` determines the peak and off-peak hours."""
    rows = usage_filtered(organisation, query).filter(currency=query.currency)
    rows = rows.annotate(day=TruncDate("recorded_at", tzinfo=ZoneInfo(organisation.time_zone)))
    if query.group == "hours":
        rows = rows.annotate(hour=TruncHour("occurred_at", tzinfo=book.tariff.tzinfo))
    sums = (
        rows.order_by()
        .values("day", part=F(COLUMNS[query.group]))
        .annotate(q=executions_sum(), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
    )
    name_of = group_names(organisation, query.group, book)
    report, groups = UsageReport(query), dict[str, Total]()
    by_day: dict[date, dict[str, Total]] = {}
    for row in sums:
        one = Total(name_of(row["part"]), int(row["q"]), int(row["o"]), int(row["b"]), row["a"])
        for totals in (by_day.setdefault(row["day"], {}), groups):
            totals.setdefault(one.name, Total(one.name)).add(one)
        report.total.add(one)
    report.groups = sorted(groups.values(), key=lambda one: (one.amount.copy_negate(), one.name))
    for number in range((query.last - query.first).days + 1):
        day = query.first + timedelta(days=number)
        total = Total(str(day))
        for one in by_day.get(day, {}).values():
            total.add(one)
        report.days.append((day, by_day.get(day, {}), total))
    return report


def usage_filtered(organisation: Organisation, query: UsageQuery) -> QuerySet[UsageSum]:
    """Return the usage sums that match the query, in every currency."""
    start, end = query.interval(organisation.time_zone)
    rows = UsageSum.objects.filter(organisation=organisation, recorded_at__gte=start, recorded_at__lt=end)
    chosen = {"project_id": query.project, "model_name": query.model, "klass": query.klass, "token_id": query.key}
    rows = rows.filter(**{name: value for name, value in chosen.items() if value})
    return rows.filter(token_id=None) if query.without_key else rows


def group_names(organisation: Organisation, group: str, book: PriceBookDocument) -> Callable[[Any], str]:
    """Return a function that maps each value of the group's column to a unique name."""
    if group == "hours":
        return lambda hour: "no tariff hour" if hour is None else f"{book.tariff.period_at(hour).name} hours"
    if group == "project":
        projects = {one.pk: one.name for one in Project.objects.filter(organisation=organisation)}
        return lambda pk: "no project" if pk is None else _unique_name(projects, pk)
    if group == "key":
        keys = {one.pk: one.name for one in ApiToken.objects.filter(organisation=organisation)}
        return lambda pk: NO_KEY if pk is None else _unique_name(keys, pk)
    return lambda value: str(value) if value else "-"


def _unique_name(names: Mapping[UUID, str], pk: UUID) -> str:
    name = names.get(pk, "")
    is_unique = name and list(names.values()).count(name) == 1
    return name if is_unique else f"{name} {str(pk)[:8]}".strip()
