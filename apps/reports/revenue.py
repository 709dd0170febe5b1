"""The revenue, cost and margin of a month, by pool, class and customer.

Net revenue is revenue less credit notes for usage. The margin is net revenue less the cost of used and idle device
time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db.models import F, Min, Q, Sum

from apps.accounts.models import Organisation
from apps.invoicing.models import CreditNote, CreditNoteLine, InvoiceState
from apps.invoicing.services.credit_lines import CARRIED
from apps.ledger.models import UsageSum
from apps.ledger.selectors import executions_sum, month_of
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.reports.margin import DeviceTime, PoolTime, Time, device_time, total
from apps.sales.models import Contract

GROUPS = ("pool", "class", "customer")
NOTHING = Decimal(0)
SAMPLE = " (sample data)"


class Part(NamedTuple):
    """The figures of one pool, class or customer. `credited` is the total of the month's credit notes for usage.
    `owned` is None for a class or a customer.
    """

    name: str
    executions: int
    amount: Decimal
    ran: Time
    owned: Time | None = None
    unknown: str = ""
    credited: Decimal = Decimal(0)

    @property
    def net(self) -> Decimal:
        """Revenue less credit notes."""
        return subtract(self.amount, self.credited)

    @property
    def idle(self) -> Fraction:
        """The owned seconds in which nothing ran; 0 for a class or a customer."""
        return self.owned.seconds - self.ran.seconds if self.owned else Fraction(0)

    @property
    def idle_cost(self) -> Fraction | None:
        """The cost of idle time; None for a class or a customer, or if the cost is unknown."""
        if self.owned is None or self.owned.cost is None or self.ran.cost is None:
            return None
        return self.owned.cost - self.ran.cost

    @property
    def margin(self) -> Fraction | None:
        """Net revenue less cost; None if the cost is unknown."""
        cost = (self.owned or self.ran).cost
        return None if cost is None else Fraction(self.net) - cost

    @property
    def share(self) -> Fraction:
        """Used time as a share of owned time."""
        return self.ran.seconds / self.owned.seconds if self.owned and self.owned.seconds else Fraction(0)


@dataclass(frozen=True)
class Revenue:
    """The revenue of a month in one currency. Device time is counted up to `until`. `sample` is the revenue from sample
    data, which nobody pays.
    """

    start: datetime
    end: datetime
    until: datetime
    currency: str
    parts: dict[str, list[Part]]
    whole: Part
    sample: Decimal = NOTHING

    @property
    def real(self) -> Decimal:
        """The revenue without sample data."""
        return subtract(self.whole.amount, self.sample)


def revenue(*, month: datetime, currency: str, now: datetime) -> Revenue:
    """Return the revenue and cost, in one currency, of the calendar month (UTC) that contains `month`."""
    start, end = month_of(month)
    until = max(start, min(end, now))
    time = device_time(start=start, end=until, currency=currency)
    sums, back = _income(start, end, currency), credited(start, end, currency)
    parts = {
        "pool": [
            _pool_part(one, sums["pool"])._replace(credited=back["pool"].get(one.pool.slug, NOTHING))
            for one in time.pools
        ],
        "class": _parts(sums["class"], time.by_class, back["class"]),
        "customer": _customers(sums["customer"], time.by_customer, back["customer"]),
    }
    whole = _whole(parts["pool"], time)._replace(credited=exact_sum(back["customer"].values()))
    return Revenue(start, end, until, currency, parts, whole, _sample(start, end, currency))


def _sample(start: datetime, end: datetime, currency: str) -> Decimal:
    rows = UsageSum.objects.filter(recorded_at__gte=start, recorded_at__lt=end, currency=currency)
    found = rows.filter(recorded_at__lt=F("organisation__sample_until")).aggregate(total=Sum("amount"))["total"]
    return found or NOTHING


def revenues(*, month: datetime, first: str, now: datetime) -> list[Revenue]:
    """Return a report in the currency `first`, and a report in each other currency with usage or credits in the month."""
    start, end = month_of(month)
    rows = UsageSum.objects.filter(recorded_at__gte=start, recorded_at__lt=end).order_by()
    notes = CreditNote.objects.filter(issued_at__gte=start, issued_at__lt=end).order_by()
    others = {code for some in (rows, notes) for code in some.values_list("currency", flat=True).distinct()} - {first}
    return [revenue(month=month, currency=code, now=now) for code in (first, *sorted(others))]


_Income = dict[str, tuple[int, Decimal]]


def _income(start: datetime, end: datetime, currency: str) -> dict[str, _Income]:
    rows = (
        UsageSum.objects.filter(recorded_at__gte=start, recorded_at__lt=end, currency=currency)
        .values("contract_id", "organisation_id", "klass")
        .annotate(executions=executions_sum(), total=Sum("amount"))
        .order_by()
    )
    found = list(rows)
    slugs = dict(Contract.objects.filter(pk__in={row["contract_id"] for row in found}).values_list("pk", "pool__slug"))
    sums: dict[str, _Income] = {group: {} for group in GROUPS}
    for row in found:
        names = (slugs[row["contract_id"]], row["klass"], str(row["organisation_id"]))
        for group, name in zip(GROUPS, names, strict=True):
            executions, amount = sums[group].get(name, (0, Decimal(0)))
            sums[group][name] = (executions + row["executions"], exact_sum([amount, row["total"]]))
    return sums


def credited(start: datetime, end: datetime, currency: str) -> dict[str, dict[str, Decimal]]:
    """Return the usage amounts that were credited in the period, by pool, class and customer. Credit notes for void
    invoices are left out.
    """
    rows = (
        CreditNoteLine.objects.filter(
            Q(line__isnull=False) | Q(number=CARRIED),
            credit_note__issued_at__gte=start,
            credit_note__issued_at__lt=end,
            credit_note__currency=currency,
        )
        .exclude(credit_note__invoice__state=InvoiceState.VOID)
        .annotate(klass=Min("line__usages__usage__klass"))
        .order_by()
        .values_list("line__contract__pool__slug", "klass", "credit_note__organisation_id", "amount")
    )
    sums: dict[str, dict[str, Decimal]] = {group: {} for group in GROUPS}
    for *names, amount in rows:
        for group, name in zip(GROUPS, names, strict=True):
            if name is not None:
                sums[group][str(name)] = exact_sum([sums[group].get(str(name), NOTHING), amount])
    return sums


def _pool_part(one: PoolTime, income: _Income) -> Part:
    executions, amount = income.get(one.pool.slug, (0, Decimal(0)))
    return Part(one.pool.slug, executions, amount, one.ran, one.owned, one.owned.unknown or one.ran.unknown)


def _parts(income: _Income, ran: dict[str, Time], back: dict[str, Decimal]) -> list[Part]:
    parts = []
    for name in sorted(income.keys() | ran.keys() | back.keys()):
        time = ran.get(name, Time(Fraction(0), Fraction(0)))
        took = back.get(name, NOTHING)
        parts.append(Part(name, *income.get(name, (0, NOTHING)), time, unknown=time.unknown, credited=took))
    return sorted(parts, key=lambda part: (-part.amount, part.name))


def _customers(income: _Income, ran: dict[UUID, Time], back: dict[str, Decimal]) -> list[Part]:
    parts = _parts(income, {str(pk): time for pk, time in ran.items()}, back)
    named = Organisation.objects.filter(pk__in=[one.name for one in parts]).values_list("pk", "name", "sample_until")
    names = {str(pk): f"{name}{SAMPLE if until else ''}" for pk, name, until in named}
    return [part._replace(name=names[part.name]) for part in parts]


def _whole(pools: list[Part], time: DeviceTime) -> Part:
    owned, ran = _all(one.owned for one in time.pools), _all(one.ran for one in time.pools)
    reasons = " ".join(dict.fromkeys(one.unknown for one in pools if one.unknown))
    return Part(
        "all", sum(one.executions for one in pools), exact_sum(one.amount for one in pools), ran, owned, reasons
    )


def _all(times: Iterable[Time]) -> Time:
    found = list(times)
    return Time(sum((one.seconds for one in found), Fraction(0)), total(one.cost for one in found))
