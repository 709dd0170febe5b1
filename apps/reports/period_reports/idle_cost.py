"""Report the cost of idle device time by owner. Idle time is reserved but unused, or unallocated."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from apps.accounts.models import Organisation
from apps.fleet.models import Pool
from apps.reports.costs import Segment, segments
from apps.reports.margin import device_time, ran_within, total
from apps.reports.period_reports.core import Column, Metric, ReportData, ReportRequest, Value, hours, ratio
from apps.reports.period_reports.service_time import sold

UNALLOCATED = "unallocated"
CHARTED = 20  # owners in the chart, those with the highest cost
COLUMNS = (
    Column("owner", "Owner"),
    Column("pool", "Pool"),
    Column("sold", "Sold", "seconds"),
    Column("ran", "Used", "seconds"),
    Column("idle", "Idle", "seconds"),
    Column("share", "Share unused", "share"),
    Column("cost", "Idle cost", "money"),
)


@dataclass
class _Line:
    sold: Fraction
    ran: Fraction
    costs: list[Fraction | None]


def idle(request: ReportRequest) -> ReportData:
    """Return a row for each owner and pool, highest cost first. The rows for unallocated time come last."""
    start, until = request.period.start, request.until
    parts = segments(start=start, end=until, currency=request.currency)
    pools = {pool.pk: pool for pool in Pool.objects.order_by("slug")}
    lines = _lines(parts, pools)
    rows = _rows(lines, pools)
    unallocated = _unallocated(request, lines)
    cost = total(c for line in lines.values() for c in line.costs)
    seconds = sum((line.sold - line.ran for line in lines.values()), Fraction(0))
    sold_seconds = sum((line.sold for line in lines.values()), Fraction(0))
    return ReportData(
        COLUMNS,
        [*rows, *unallocated] if rows else [],
        metrics=[
            Metric("Reserved but unused", seconds, "seconds"),
            Metric("Share unused", ratio(seconds, sold_seconds), "share", "of what was sold"),
            Metric(
                "Idle cost",
                cost,
                "money",
                "enter what a device-hour costs" if cost is None else "of reserved but unused time",
            ),
        ],
        notes=[
            (
                "The idle cost in this report is that of reserved but unused time. The revenue report shows what customers paid "
                "for that time."
            )
        ],
        chart=_chart(rows, request.currency),
        currency=request.currency,
    )


def _rows(lines: dict[tuple[UUID, UUID], _Line], pools: dict[UUID, Pool]) -> list[tuple[Value, ...]]:
    names = dict(Organisation.objects.filter(pk__in={owner for owner, _ in lines}).values_list("pk", "name"))
    rows = [_row(names[owner], pools[pool].slug, line) for (owner, pool), line in lines.items()]
    return sorted(rows, key=lambda row: (-Fraction(row[6] or 0), -Fraction(row[4] or 0), str(row[0]), str(row[1])))  # type: ignore[arg-type]


def _lines(parts: list[Segment], pools: dict[UUID, Pool]) -> dict[tuple[UUID, UUID], _Line]:
    sold_seconds: dict[tuple[int, UUID, UUID], Fraction] = {}
    for one in sold((part.start, part.end) for part in parts):
        sold_seconds[one.place, one.organisation, one.pool] = one.seconds
    used: dict[tuple[int, UUID, UUID], Fraction] = defaultdict(Fraction)
    for place, some in enumerate(ran_within(parts)):
        for row in some:
            used[place, row.organisation_id, row.pool_id] += row.seconds
    lines: dict[tuple[UUID, UUID], _Line] = {}
    for (place, owner, pool), seconds in sold_seconds.items():
        line = lines.setdefault((owner, pool), _Line(Fraction(0), Fraction(0), []))
        ran = min(seconds, used[place, owner, pool])
        line.sold += seconds
        line.ran += ran
        line.costs.append(parts[place].cost(pools[pool].processor_class, seconds - ran, pool))
    return lines


def _row(owner: str, pool: str, line: _Line) -> tuple[Value, ...]:
    left = line.sold - line.ran
    return owner, pool, line.sold, line.ran, left, ratio(left, line.sold), total(line.costs)


def _unallocated(request: ReportRequest, lines: dict[tuple[UUID, UUID], _Line]) -> list[tuple[Value, ...]]:
    sold_seconds: dict[UUID, Fraction] = defaultdict(Fraction)
    for (_, pool), line in lines.items():
        sold_seconds[pool] += line.sold
    found: list[tuple[Value, ...]] = []
    for one in device_time(start=request.period.start, end=request.until, currency=request.currency).pools:
        left = max(Fraction(0), one.owned.seconds - sold_seconds[one.pool.pk])
        if left:
            cost = None if one.owned.cost is None else one.owned.cost * left / one.owned.seconds
            found.append((UNALLOCATED, one.pool.slug, None, None, left, None, cost))
    return found


def _chart(rows: list[tuple[Value, ...]], currency: str) -> dict[str, object]:
    sums: dict[str, list[Value]] = {}
    for row in rows:
        sums.setdefault(str(row[0]), []).append(row[6])
    known = all(one is not None for some in sums.values() for one in some)
    at, unit = (6, currency) if known else (4, "h")
    by_owner: dict[str, Fraction] = defaultdict(Fraction)
    for row in rows:
        by_owner[str(row[0])] += Fraction(row[at] or 0)  # type: ignore[arg-type]
    dearest = sorted(by_owner, key=lambda name: (-by_owner[name], name))[:CHARTED]
    return {
        "unit": unit,
        "horizontal": True,
        "categories": dearest,
        "series": [
            {"name": "Idle", "values": [float(by_owner[name]) if known else hours(by_owner[name]) for name in dearest]}
        ],
    }
