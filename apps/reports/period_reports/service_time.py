"""Compute when devices were in service, and find the time in service without a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import Q

from apps.fleet.current import document_now
from apps.fleet.models import Device, DeviceState, FleetChange
from apps.reports.costs import seconds_of

_MICROS = Fraction(1, 10**6)


class Span(NamedTuple):
    """The time [start, end) during which a device was active in a pool at one power setting (a percentage)."""

    device: UUID
    pool: UUID
    start: datetime
    end: datetime
    power: int


@dataclass
class Service:
    """The service of all devices in a period. `spans` holds the times in service. The other fields are seconds by pool;
    `saved` is the time lost to reduced power settings.
    """

    spans: list[Span] = field(default_factory=list)
    owned: dict[UUID, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    out: dict[UUID, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    saved: dict[UUID, Fraction] = field(default_factory=lambda: defaultdict(Fraction))


class Gap(NamedTuple):
    """A period in which a device is in service but has no window."""

    device: UUID
    pool: UUID
    start: datetime
    end: datetime


def service(*, start: datetime, end: datetime) -> Service:
    """Return the service of all devices in [start, end). At a power setting of p %, (100 - p) % of the time in service
    counts as `saved`.
    """
    found = Service()
    if start >= end:
        return found
    pieces = _pieces(start, end)
    for device in Device.objects.select_related("pool").order_by("pool__slug", "name", "id"):
        born = max(start, device.owned_from or device.pool.created_at)
        gone = min(end, device.owned_until or end)
        if born >= gone:
            continue
        found.owned[device.pool_id] += seconds_of(gone - born)
        for first, last, states, power in pieces:
            begin, until = max(born, first), min(gone, last)
            if begin >= until:
                continue
            length, pool = seconds_of(until - begin), device.pool.slug
            if states.get((pool, device.name)) == DeviceState.ACTIVE:
                _add(found.spans, Span(device.pk, device.pool_id, begin, until, power.get(pool, 100)))
                found.saved[device.pool_id] += length * (100 - power.get(pool, 100)) / 100
            else:
                found.out[device.pool_id] += length
    return found


def _add(spans: list[Span], one: Span) -> None:
    if spans and spans[-1].end == one.start and spans[-1]._replace(start=one.start, end=one.end) == one:
        spans[-1] = spans[-1]._replace(end=one.end)
    else:
        spans.append(one)


_Piece = tuple[datetime, datetime, Mapping[tuple[str, str], str], Mapping[str, int]]


def _pieces(start: datetime, end: datetime) -> list[_Piece]:
    rows = FleetChange.objects.filter(Q(at__gt=start) | Q(undone_at__gt=start)).order_by("id")
    events: list[tuple[datetime, int, Any, Any]] = []
    for pk, at, undone, before, after in rows.values_list("id", "at", "undone_at", "before", "after"):
        if at > start:
            events.append((at, pk, before, after))
        if undone is not None and undone > start:
            events.append((undone, pk, after, before))
    events.sort(key=lambda one: one[:2])
    first = events[0][2] if events else document_now().to_json()
    documents = [first, *(after for _, _, _, after in events)]
    cuts = [start, *(at for at, _, _, _ in events)]
    return [
        (max(begin, start), min(until, end), *_states(raw))
        for (begin, until), raw in zip(pairwise([*cuts, end]), documents, strict=True)
        if begin < min(until, end)
    ]


def _states(raw: Any) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
    states = {(slug, one["name"]): one["state"] for slug, pool in raw["pools"].items() for one in pool["devices"]}
    return states, {slug: int(pool.get("power_percent", 100)) for slug, pool in raw["pools"].items()}


# Time in service without windows: one row for each gap.
_GAPS = """
WITH life AS (
    SELECT device, range_agg(tstzrange(first, last)) AS held
    FROM unnest(%(devices)s::uuid[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS span (device, first, last) GROUP BY 1
),
sold AS (
    SELECT win.device_id AS device, range_agg(win.period) AS held FROM timetable_window AS win
    WHERE win.state = 'active' AND win.device_id = ANY(%(devices)s::uuid[])
        AND win.period && tstzrange(%(start)s, %(end)s) GROUP BY 1
),
gap AS (
    SELECT life.device, gap FROM life LEFT JOIN sold USING (device)
    CROSS JOIN LATERAL unnest(life.held - coalesce(sold.held, '{}'::tstzmultirange)) AS gap
)
"""
_EACH = "SELECT device, lower(gap), upper(gap) FROM gap ORDER BY 1, 2"
_SUMMED = """
SELECT owner.pool_id, count(*), sum(length), count(*) FILTER (WHERE length < least),
    coalesce(sum(length) FILTER (WHERE length < least), 0)
FROM gap
CROSS JOIN LATERAL (SELECT (1000000 * extract(epoch FROM upper(gap) - lower(gap)))::bigint AS length) AS long
JOIN fleet_device AS owner ON owner.id = gap.device
LEFT JOIN unnest(%(pools)s::uuid[], %(least)s::bigint[]) AS usual (pool, least) ON usual.pool = owner.pool_id
GROUP BY 1
"""

_USUAL = """
SELECT owner.pool_id, percentile_disc(0.1) WITHIN GROUP (
    ORDER BY (1000000 * extract(epoch FROM upper(win.period) - lower(win.period)))::bigint
)
FROM timetable_window AS win JOIN fleet_device AS owner ON owner.id = win.device_id
WHERE win.state = 'active' AND win.period && tstzrange(%(start)s, %(end)s) GROUP BY 1
"""


def usual_work(*, start: datetime, end: datetime) -> dict[UUID, int]:
    """Return, for each pool, the 10th percentile of the lengths of the windows sold in [start, end), in microseconds."""
    with connection.cursor() as cursor:
        cursor.execute(_USUAL, {"start": start, "end": end})
        return {pool: int(least) for pool, least in cursor.fetchall()}


class Gaps(NamedTuple):
    """The gaps of a pool: the number and total seconds of all gaps, and of the gaps that are too short."""

    number: int
    seconds: Fraction
    short_number: int
    short: Fraction


def gaps_summed(
    spans: Iterable[Span], least: Mapping[UUID, int], *, start: datetime, end: datetime
) -> dict[UUID, Gaps]:
    """Return the totals of gaps by pool. `least` is the shortest useful gap of each pool, in microseconds."""
    params = _params(spans, start, end) | {"pools": list(least), "least": list(least.values())}
    with connection.cursor() as cursor:
        cursor.execute(_GAPS + _SUMMED, params)
        return {
            pool: Gaps(count, int(total) * _MICROS, short_count, int(short) * _MICROS)
            for pool, count, total, short_count, short in cursor.fetchall()
        }


def gaps(spans: Iterable[Span], *, start: datetime, end: datetime) -> list[Gap]:
    """Return all gaps, ordered by device and start."""
    spans = list(spans)
    pools = {one.device: one.pool for one in spans}
    with connection.cursor() as cursor:
        cursor.execute(_GAPS + _EACH, _params(spans, start, end))
        return [Gap(device, pools[device], first, last) for device, first, last in cursor.fetchall()]


def _params(spans: Iterable[Span], start: datetime, end: datetime) -> dict[str, Any]:
    some = list(spans)
    return {
        "devices": [one.device for one in some],
        "starts": [one.start for one in some],
        "ends": [one.end for one in some],
        "start": start,
        "end": end,
    }


_SOLD = """
SELECT place, owner.pool_id, reservation.organisation_id,
    sum((1000000 * extract(epoch FROM least(upper(win.period), last) - greatest(lower(win.period), first)))::bigint)
FROM unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) WITH ORDINALITY AS part (first, last, place)
JOIN timetable_window AS win ON win.state = 'active' AND win.period && tstzrange(first, last)
JOIN fleet_device AS owner ON owner.id = win.device_id
JOIN timetable_reservation AS reservation ON reservation.id = win.reservation_id
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
"""


class Sold(NamedTuple):
    """The device time of one pool that is sold to one organisation in one part of a period."""

    place: int
    pool: UUID
    organisation: UUID
    seconds: Fraction


def sold(parts: Iterable[tuple[datetime, datetime]]) -> list[Sold]:
    """Return the device time sold in each part, by pool and organisation. `place` is the index of the part."""
    some = list(parts)
    with connection.cursor() as cursor:
        cursor.execute(_SOLD, {"starts": [one[0] for one in some], "ends": [one[1] for one in some]})
        return [Sold(place - 1, pool, owner, int(total) * _MICROS) for place, pool, owner, total in cursor.fetchall()]
