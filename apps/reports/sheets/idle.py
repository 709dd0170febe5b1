"""What idle device time cost, by whose it was: sold to somebody and not used, or sold to nobody."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from apps.accounts.models import Organisation
from apps.fleet.models import Pool
from apps.reports.costs import Segment, segments
from apps.reports.margin import device_time, ran_within, total
from apps.reports.sheets.core import Asked, Column, Metric, Sheet, Value, hours, ratio
from apps.reports.sheets.spans import sold

NOBODY = "nobody"
CHARTED = 20  # owners that the drawing shows, the dearest
COLUMNS = (
    Column("owner", "Owner"),
    Column("pool", "Pool"),
    Column("sold", "Sold", "seconds"),
    Column("ran", "Ran", "seconds"),
    Column("idle", "Idle", "seconds"),
    Column("share", "Idle of sold", "share"),
    Column("cost", "Cost of idle", "money"),
)


@dataclass
class _Line:
    """Device time that an owner bought of a pool, and what of it ran; `costs` are those of what did not."""

    sold: Fraction
    ran: Fraction
    costs: list[Fraction | None]


def idle(asked: Asked) -> Sheet:
    """A row for each owner and pool, the dearest first; what nobody bought stands last for each pool."""
    start, until = asked.period.start, asked.until
    parts = segments(start=start, end=until, currency=asked.currency)
    pools = {pool.pk: pool for pool in Pool.objects.order_by("slug")}
    lines = _lines(parts, pools)
    names = dict(Organisation.objects.filter(pk__in={owner for owner, _ in lines}).values_list("pk", "name"))
    rows = [_row(names[owner], pools[pool].slug, line) for (owner, pool), line in lines.items()]
    rows.sort(key=lambda row: (-Fraction(row[6] or 0), -Fraction(row[4] or 0), str(row[0]), str(row[1])))  # type: ignore[arg-type]
    nobody = _nobody(asked, lines)
    cost = total(c for line in lines.values() for c in line.costs)
    seconds = sum((line.sold - line.ran for line in lines.values()), Fraction(0))
    bought = sum((line.sold for line in lines.values()), Fraction(0))
    return Sheet(
        COLUMNS,
        [*rows, *nobody] if rows else [],
        metrics=[
            Metric("Sold and idle", seconds, "seconds"),
            Metric("Idle of sold", ratio(seconds, bought), "share"),
            Metric("Cost of it", cost, "money", "not known where no cost is stated" if cost is None else ""),
        ],
        notes=[
            "What customers paid for idle time stands under Revenue; this is what owning the devices cost meanwhile."
        ],
        chart=_chart(rows, asked.currency),
        currency=asked.currency,
    )


def _lines(parts: list[Segment], pools: dict[UUID, Pool]) -> dict[tuple[UUID, UUID], _Line]:
    """By owner and pool: sold, ran within it, and the cost of the rest in every part of the period."""
    bought: dict[tuple[int, UUID, UUID], Fraction] = {}
    for one in sold((part.start, part.end) for part in parts):
        bought[one.place, one.organisation, one.pool] = one.seconds
    used: dict[tuple[int, UUID, UUID], Fraction] = defaultdict(Fraction)
    for place, some in enumerate(ran_within(parts)):
        for row in some:
            used[place, row.organisation_id, row.pool_id] += row.seconds
    lines: dict[tuple[UUID, UUID], _Line] = {}
    for (place, owner, pool), seconds in bought.items():
        line = lines.setdefault((owner, pool), _Line(Fraction(0), Fraction(0), []))
        ran = min(seconds, used[place, owner, pool])
        line.sold += seconds
        line.ran += ran
        line.costs.append(parts[place].cost(pools[pool].processor_class, seconds - ran, pool))
    return lines


def _row(owner: str, pool: str, line: _Line) -> tuple[Value, ...]:
    left = line.sold - line.ran
    return owner, pool, line.sold, line.ran, left, ratio(left, line.sold), total(line.costs)


def _nobody(asked: Asked, lines: dict[tuple[UUID, UUID], _Line]) -> list[tuple[Value, ...]]:
    """What is owned and was sold to nobody, at the mean cost of what is owned."""
    bought: dict[UUID, Fraction] = defaultdict(Fraction)
    for (_, pool), line in lines.items():
        bought[pool] += line.sold
    found: list[tuple[Value, ...]] = []
    for one in device_time(start=asked.period.start, end=asked.until, currency=asked.currency).pools:
        left = max(Fraction(0), one.owned.seconds - bought[one.pool.pk])
        if left:
            cost = None if one.owned.cost is None else one.owned.cost * left / one.owned.seconds
            found.append((NOBODY, one.pool.slug, None, None, left, None, cost))
    return found


def _chart(rows: list[tuple[Value, ...]], currency: str) -> dict[str, object]:
    """The dearest owners, in money where it is known for all of them, else in time."""
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
