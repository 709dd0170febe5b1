"""What reads usage and invoices: the portal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Count, Max, QuerySet, Sum
from django.db.models.functions import TruncDate

from apps.accounts.models import Organisation
from apps.billing.models import WAITING, Invoice, InvoicedUsage, InvoiceLine
from apps.ledger.models import Cap, UsageRow
from apps.ledger.selectors import Reconciliation, cap_of, month_of, reconcile, spending
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.registry.models import Project
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import ContractUsage, contract_usages

GROUPS = {"model": "model_name", "project": "project_id", "class": "klass"}


@dataclass(frozen=True)
class Slice:
    """Usage of one day, model, project or class."""

    name: str
    executions: int
    operations: int
    billed_operations: int
    amount: Decimal


@dataclass(frozen=True)
class Month:
    """This month so far, beside the last one, the cap, and a straight-line forecast."""

    currency: str
    start: datetime
    end: datetime
    used: Decimal
    held: Decimal
    last_month: Decimal
    forecast: Fraction
    cap: Cap | None
    uninvoiced: Decimal
    updated_at: datetime | None

    @property
    def committed(self) -> Decimal:
        """Used and set aside: what counts against the cap."""
        return exact_sum([self.used, self.held])

    @property
    def share_of_cap(self) -> Fraction | None:
        """0 to 1; None without a cap."""
        if self.cap is None or self.cap.amount == 0:
            return None
        return Fraction(self.committed) / Fraction(self.cap.amount)


def month_so_far(*, organisation: Organisation, currency: str, now: datetime) -> Month:
    """The headline of the portal."""
    start, end = month_of(now)
    spent = spending(organisation_id=organisation.id, currency=currency, now=now)
    rows = UsageRow.objects.filter(organisation=organisation, currency=currency)
    last_start, _ = month_of(start - timedelta(seconds=1))
    last = rows.filter(created_at__gte=last_start, created_at__lt=start).aggregate(sum=Sum("amount"))["sum"]
    uninvoiced = rows.filter(invoiced__isnull=True).aggregate(sum=Sum("amount"))["sum"]
    elapsed = max(now - start, timedelta(seconds=1))
    return Month(
        currency=currency,
        start=start,
        end=end,
        used=spent.used,
        held=spent.held,
        last_month=last or Decimal(0),
        forecast=Fraction(spent.used) * _microseconds(end - start) / _microseconds(elapsed),
        cap=cap_of(organisation.id),
        uninvoiced=uninvoiced or Decimal(0),
        updated_at=rows.aggregate(at=Max("created_at"))["at"],
    )


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def usage_between(*, organisation: Organisation, start: datetime, end: datetime) -> QuerySet[UsageRow]:
    """Usage recorded in [start, end)."""
    return UsageRow.objects.filter(organisation=organisation, created_at__gte=start, created_at__lt=end)


def usage_by_day(*, organisation: Organisation, start: datetime, end: datetime) -> list[tuple[date, Slice]]:
    """One slice for each local day in [start, end), days without usage included."""
    zone = ZoneInfo(organisation.time_zone)
    rows = (
        usage_between(organisation=organisation, start=start, end=end)
        .annotate(day=TruncDate("created_at", tzinfo=zone))
        .values("day")
        .annotate(q=Sum("quantity"), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
        .order_by("day")
    )
    found = {row["day"]: _slice(str(row["day"]), row) for row in rows}
    first, last = start.astimezone(zone).date(), (end - timedelta(microseconds=1)).astimezone(zone).date()
    days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
    return [(day, found.get(day, Slice(str(day), 0, 0, 0, Decimal(0)))) for day in days]


def usage_by(*, organisation: Organisation, group: str, start: datetime, end: datetime) -> list[Slice]:
    """Usage by `model`, `project` or `class`, the largest first."""
    field = GROUPS[group]
    rows = (
        usage_between(organisation=organisation, start=start, end=end)
        .values(field)
        .annotate(q=Sum("quantity"), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
        .order_by("-a", field)
    )
    names = (
        dict(Project.objects.filter(organisation=organisation).values_list("id", "name")) if group == "project" else {}
    )
    return [_slice(_name(row[field], names), row) for row in rows]


def _name(value: Any, names: dict[UUID, str]) -> str:
    if isinstance(value, UUID):
        return names.get(value, str(value))
    return str(value) if value else "-"


def _slice(name: str, row: Mapping[str, Any]) -> Slice:
    return Slice(name, int(row["q"]), int(row["o"]), int(row["b"]), row["a"])


def contracts_compared(*, organisation: Organisation, limit: int = 20) -> list[tuple[Contract, ContractUsage]]:
    """The newest contracts, quoted against actual."""
    rows = list(Contract.objects.filter(organisation=organisation).select_related("pool")[:limit])
    usages = contract_usages(rows)
    return [(contract, usages[contract.id]) for contract in rows]


def invoices_of(organisation: Organisation) -> QuerySet[Invoice]:
    """The organisation's invoices, newest first."""
    return Invoice.objects.filter(organisation=organisation)


def invoices_unpaid() -> QuerySet[Invoice]:
    """Every invoice that waits for money, the oldest first; for administrators."""
    return Invoice.objects.filter(state__in=WAITING).select_related("organisation").order_by("due_at")


@dataclass(frozen=True)
class FullReconciliation:
    """The ledger's reconciliation, and what invoices and contracts say."""

    ledger: Reconciliation
    invoiced: Decimal
    open: Decimal
    differences: list[str]


def reconcile_all(organisation: Organisation) -> FullReconciliation:
    """Metered, rated, posted, invoiced: counts and sums. Every difference in a sentence; none is the normal answer."""
    ledger = reconcile(organisation.id)
    differences = list(ledger.differences)
    rows = UsageRow.objects.filter(organisation=organisation)
    invoiced = exact_sum(
        InvoiceLine.objects.filter(invoice__organisation=organisation).values_list("amount", flat=True)
    )
    waiting = rows.filter(invoiced__isnull=True).aggregate(sum=Sum("amount"))["sum"] or Decimal(0)
    if exact_sum([invoiced, waiting]) != ledger.metered:
        differences.append(
            f"metered minus invoiced and open is {subtract(ledger.metered, exact_sum([invoiced, waiting]))}"
        )
    claimed = InvoicedUsage.objects.filter(usage__organisation=organisation).aggregate(n=Count("pk"))["n"]
    if claimed + rows.filter(invoiced__isnull=True).count() != ledger.rows:
        differences.append("some usage is neither invoiced nor open")
    known = set(Contract.objects.filter(organisation=organisation).values_list("pk", flat=True))
    unknown = set(rows.values_list("contract_id", flat=True)) - known
    differences += [f"usage names contract {contract}, which does not exist" for contract in sorted(map(str, unknown))]
    return FullReconciliation(ledger, invoiced, waiting, differences)


def contracts_active(organisation: Organisation) -> int:
    """How many contracts are active."""
    return Contract.objects.filter(organisation=organisation, state=ContractState.ACTIVE).count()


def days_back(*, organisation: Organisation, days: int, now: datetime) -> tuple[datetime, datetime]:
    """The last `days` local days, today included, as [start, end) in UTC."""
    zone = ZoneInfo(organisation.time_zone)
    today = now.astimezone(zone).date()
    first = datetime.combine(today - timedelta(days=days - 1), datetime.min.time(), zone)
    after = datetime.combine(today + timedelta(days=1), datetime.min.time(), zone)
    return first.astimezone(UTC), after.astimezone(UTC)
