"""Free device time, computed by the database. Each function runs one statement."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection

from apps.timetable.admission import Interval, Piece
from apps.timetable.instants import instant_of

FITS_MOST = 64  # devices of which the first fit is told

# What keeps others out: time that is sold, and time that is still held (apps/timetable/expiry.py).
_IS_TAKEN = """one.state = 'active' AND one.reservation_id NOT IN (
    SELECT id FROM timetable_reservation WHERE held_until <= %(now)s AND state = 'active'
)"""

_BESIDE = "{} AND one.reservation_id NOT IN (SELECT id FROM timetable_reservation WHERE contract_id = %(without)s)"

# Windows of a device never overlap, so their ends are in the order of their starts: the walk begins at the last window that
# starts by then, and ends at the first gap that is long enough.
_FITS = """
SELECT device.id, (extract(epoch FROM min(fit.start)) * 1000000)::bigint AS micros, pool.processor_id, pool.power_percent
FROM fleet_device AS device
JOIN fleet_pool AS pool ON pool.id = device.pool_id
CROSS JOIN unnest(%(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS span (start, till)
LEFT JOIN LATERAL (
    SELECT one.period FROM timetable_window AS one
    WHERE one.device_id = device.id AND {taken} AND one.period < tstzrange(span.start, NULL)
    ORDER BY one.period DESC LIMIT 1
) AS last ON true
CROSS JOIN LATERAL (
    SELECT COALESCE(
        (
            SELECT span.start WHERE last.period IS NULL AND least(span.till, (
                SELECT lower(one.period) FROM timetable_window AS one
                WHERE one.device_id = device.id AND {taken} ORDER BY one.period LIMIT 1
            )) - span.start >= %(length)s
        ),
        (
            SELECT gap.start FROM (
                SELECT greatest(span.start, upper(one.period)) AS start,
                    least(span.till, lead(lower(one.period)) OVER (ORDER BY one.period)) AS till
                FROM timetable_window AS one
                WHERE one.device_id = device.id AND {taken}
                    AND one.period >= COALESCE(last.period, 'empty') AND one.period < tstzrange(span.till, NULL)
                ORDER BY one.period  -- in here: outside it would want all rows before the first
            ) AS gap WHERE gap.till - gap.start >= %(length)s LIMIT 1
        )
    ) AS start OFFSET 0  -- else the walk is made once more for the condition below
) AS fit
WHERE device.state = 'active' AND fit.start IS NOT NULL AND {}
GROUP BY device.id, pool.id ORDER BY micros, device.id LIMIT %(most)s
"""
_FITS_POOL = _FITS.format("device.pool_id = %(pool)s", taken=_IS_TAKEN)
_FITS_DEVICE = _FITS.format("device.id = %(device)s", taken=_IS_TAKEN)

_GAPS = """
SELECT device.id, (extract(epoch FROM lower(gap)) * 1000000)::bigint, (extract(epoch FROM upper(gap)) * 1000000)::bigint
FROM fleet_device AS device
CROSS JOIN LATERAL unnest(
    tstzmultirange(tstzrange(%(start)s, %(end)s)) - COALESCE((
        SELECT range_agg(one.period) FROM timetable_window AS one
        WHERE one.device_id = device.id AND {taken} AND one.period && tstzrange(%(start)s, %(end)s)
    ), tstzmultirange())
) AS gap
WHERE {} ORDER BY device.id, gap
"""
_GAPS_POOL = _GAPS.format("device.pool_id = %(pool)s AND device.state = 'active'", taken=_IS_TAKEN)
_GAPS_DEVICES = _GAPS.format("device.id = ANY(%(devices)s::uuid[])", taken=_IS_TAKEN)
_GAPS_BESIDE = _GAPS.format("device.id = ANY(%(devices)s::uuid[])", taken=_BESIDE.format(_IS_TAKEN))

_MEETS = """
SELECT pool.processor_id, pool.power_percent, EXISTS (
    SELECT FROM unnest(%(devices)s::uuid[], %(starts)s::timestamptz[], %(ends)s::timestamptz[]) AS piece (device, start, till)
    JOIN timetable_window AS one ON one.device_id = piece.device AND {taken}
        AND one.period && tstzrange(piece.start, piece.till)
) FROM fleet_pool AS pool WHERE pool.id = %(pool)s
"""
_TAKEN = _MEETS.format(taken=_IS_TAKEN)


class RunsOn(NamedTuple):
    """The processor and the power setting of a pool."""

    processor_id: UUID | None
    power_percent: int


class Fit(NamedTuple):
    """The first fit on a device: the start in microseconds, and the pool's processor and power setting."""

    start: int
    runs_on: RunsOn


def first_fits(pool_id: UUID, spans: Sequence[Interval], length: int, *, now: datetime) -> dict[UUID, Fit]:
    """Return the earliest start of `length` free microseconds on each active device of the pool.

    `spans`: disjoint intervals in which the work may run. Devices without such a start are left out. At most
    `FITS_MOST` devices are returned, those with the earliest starts.
    """
    return _fits(_FITS_POOL, spans, length, pool=pool_id, now=now)


def first_fit(device_id: UUID, spans: Sequence[Interval], length: int, *, now: datetime) -> Fit | None:
    """Return the earliest start on one device, as `first_fits` does; None if there is none."""
    return _fits(_FITS_DEVICE, spans, length, device=device_id, now=now).get(device_id)


def _fits(statement: str, spans: Sequence[Interval], length: int, **which: UUID | datetime) -> dict[UUID, Fit]:
    if length > max((span.length for span in spans), default=0):  # may be longer than a date can represent
        return {}
    told: dict[str, Any] = {
        "starts": [instant_of(span.start) for span in spans],
        "ends": [instant_of(span.end) for span in spans],
        "length": timedelta(microseconds=length),
        "most": FITS_MOST,
        **which,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, told)
        return {row[0]: Fit(row[1], RunsOn(row[2], row[3])) for row in cursor.fetchall()}


def gaps_of_pool(pool_id: UUID, start: datetime, end: datetime, *, now: datetime) -> dict[str, list[Interval]]:
    """Return the free time in [start, end) of the pool's active devices, by device id as text.

    Fully booked devices are left out.
    """
    return _gaps(_GAPS_POOL, start, end, pool=pool_id, now=now)


def gaps_of_devices(
    devices: Collection[UUID], start: datetime, end: datetime, *, now: datetime, without: UUID | None = None
) -> dict[str, list[Interval]]:
    """Return the free time in [start, end) of these devices, by device id as text.

    Fully booked devices are left out. Time reserved by the contract with id `without` counts as free.
    """
    if without is not None:
        return _gaps(_GAPS_BESIDE, start, end, devices=list(devices), now=now, without=without)
    return _gaps(_GAPS_DEVICES, start, end, devices=list(devices), now=now)


def _gaps(statement: str, start: datetime, end: datetime, **which: Any) -> dict[str, list[Interval]]:
    found: dict[str, list[Interval]] = defaultdict(list)
    if start >= end:
        return found
    with connection.cursor() as cursor:
        cursor.execute(statement, {"start": start, "end": end, **which})
        for device, begin, till in cursor.fetchall():
            found[str(device)].append(Interval(begin, till))
    return found


def taken_since(pool_id: UUID, pieces: Iterable[Piece], *, now: datetime) -> tuple[RunsOn, bool]:
    """Return the pool's processor and power setting, and whether any part of these pieces is sold or held.

    The caller must hold the locks of the pieces' devices.
    """
    told = list(pieces)
    with connection.cursor() as cursor:
        cursor.execute(
            _TAKEN,
            {
                "pool": pool_id,
                "now": now,
                "devices": [UUID(one.device) for one in told],
                "starts": [instant_of(one.start) for one in told],
                "ends": [instant_of(one.end) for one in told],
            },
        )
        processor_id, power_percent, is_taken = cursor.fetchone()
    return RunsOn(processor_id, power_percent), is_taken
