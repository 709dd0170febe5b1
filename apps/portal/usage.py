"""Usage day by day, parted by project, model, class, API token or hours of the tariff. Amounts are the ledger's, exact."""

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

# What a page parts usage by, and the column of a usage row that holds it; hours are found by the tariff.
COLUMNS = {"project": "project_id", "model": "model_name", "class": "klass", "key": "token_id", "hours": "hour"}
NO_KEY = "in the browser"
SHOWN = 7  # parts with a colour of their own; the others are drawn together
OTHERS = "others"


@dataclass(frozen=True)
class Ask:
    """What a person wants to see: local days [first, last], parted by `group`, narrowed by the other fields."""

    first: date
    last: date
    currency: str
    group: str = "model"
    project: UUID | None = None
    model: str = ""
    klass: str = ""
    key: UUID | None = None
    without_key: bool = False

    def instants(self, zone: str) -> tuple[datetime, datetime]:
        """The days as [start, end) in UTC."""
        tz = ZoneInfo(zone)
        after = self.last + timedelta(days=1)
        start, end = (datetime.combine(day, time.min, tz).astimezone(UTC) for day in (self.first, after))
        return start, end


@dataclass
class Total:
    """Usage of a part: `operations` were counted, `billed` is what is charged for."""

    name: str
    executions: int = 0
    operations: int = 0
    billed: int = 0
    amount: Decimal = Decimal(0)

    def add(self, other: Total) -> None:
        """Take another part into this one."""
        self.executions += other.executions
        self.operations += other.operations
        self.billed += other.billed
        self.amount = exact_sum([self.amount, other.amount])

    @property
    def raised(self) -> int:
        """Operations billed beyond those counted: the minimum of the cycles that a device was taken for."""
        return max(self.billed - self.operations, 0)


@dataclass
class Report:
    """Usage of the days asked for. `parts` are in order of their amount; `days` has every day, used or not."""

    ask: Ask
    parts: list[Total] = field(default_factory=list)
    days: list[tuple[date, dict[str, Total], Total]] = field(default_factory=list)
    whole: Total = field(default_factory=lambda: Total("all"))

    @property
    def used(self) -> list[tuple[date, list[Decimal], Total]]:
        """Days with usage: the day, an amount for each of `names`, and the day's sum."""
        return [(day, [self.amount(parts, name) for name in self.names], one) for day, parts, one in self.days if parts]

    @property
    def names(self) -> list[str]:
        """Parts that are drawn apart, then what is left."""
        names = [one.name for one in self.parts]
        return names if len(names) <= SHOWN + 1 else [*names[:SHOWN], OTHERS]

    def amount(self, parts: Mapping[str, Total], name: str) -> Decimal:
        """What a day's parts say for one of `names`."""
        if name != OTHERS or name in {one.name for one in self.parts}:
            return parts[name].amount if name in parts else Decimal(0)
        drawn = set(self.names)
        return exact_sum(one.amount for one in parts.values() if one.name not in drawn)


def usage_report(*, organisation: Organisation, ask: Ask, book: PriceBookDocument) -> Report:
    """Every day asked for and every part of it; `book` tells which hours are which."""
    column = COLUMNS[ask.group]
    rows = narrowed(organisation, ask).filter(currency=ask.currency)
    rows = rows.annotate(day=TruncDate("recorded_at", tzinfo=ZoneInfo(organisation.time_zone)))
    if ask.group == "hours":
        rows = rows.annotate(hour=TruncHour("occurred_at", tzinfo=book.tariff.tzinfo))
    summed = (
        rows.order_by()
        .values("day", part=F(column))
        .annotate(q=executions_sum(), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
    )
    name_of = names_of(organisation, ask.group, book)
    report, parts = Report(ask), dict[str, Total]()
    by_day: dict[date, dict[str, Total]] = {}
    for row in summed:
        one = Total(name_of(row["part"]), int(row["q"]), int(row["o"]), int(row["b"]), row["a"])
        for place in (by_day.setdefault(row["day"], {}), parts):
            place.setdefault(one.name, Total(one.name)).add(one)
        report.whole.add(one)
    report.parts = sorted(parts.values(), key=lambda one: (one.amount.copy_negate(), one.name))
    for number in range((ask.last - ask.first).days + 1):
        day = ask.first + timedelta(days=number)
        total = Total(str(day))
        for one in by_day.get(day, {}).values():
            total.add(one)
        report.days.append((day, by_day.get(day, {}), total))
    return report


def narrowed(organisation: Organisation, ask: Ask) -> QuerySet[UsageSum]:
    """The sums of usage asked for, in every currency."""
    start, end = ask.instants(organisation.time_zone)
    rows = UsageSum.objects.filter(organisation=organisation, recorded_at__gte=start, recorded_at__lt=end)
    chosen = {"project_id": ask.project, "model_name": ask.model, "klass": ask.klass, "token_id": ask.key}
    rows = rows.filter(**{name: value for name, value in chosen.items() if value})
    return rows.filter(token_id=None) if ask.without_key else rows


def names_of(organisation: Organisation, group: str, book: PriceBookDocument) -> Callable[[Any], str]:
    """What a group's values are called: unlike things never share a name."""
    if group == "hours":
        return lambda hour: "without hours" if hour is None else f"{book.tariff.period_at(hour).name} hours"
    if group == "project":
        known = {one.pk: one.name for one in Project.objects.filter(organisation=organisation)}
        return lambda pk: "without a project" if pk is None else _apart(known, pk)
    if group == "key":
        keys = {one.pk: one.name for one in ApiToken.objects.filter(organisation=organisation)}
        return lambda pk: NO_KEY if pk is None else _apart(keys, pk)
    return lambda value: str(value) if value else "-"


def _apart(names: Mapping[UUID, str], pk: UUID) -> str:
    name = names.get(pk, "")
    alone = name and list(names.values()).count(name) == 1
    return name if alone else f"{name} {str(pk)[:8]}".strip()
