"""Beside `benchmarks.admission`: how device time was taken before, and what must hold after all is accepted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from apps.fleet.models import Pool


@contextmanager
def as_it_was() -> Iterator[None]:
    """Every device of the pool locked, all that is sold of them read and placed in this process."""
    from apps.sales.services import accepting

    kept, accepting.reservation_take_each = accepting.reservation_take_each, _all_locked  # type: ignore[attr-defined]
    try:
        yield
    finally:
        accepting.reservation_take_each = kept  # type: ignore[attr-defined]


def _all_locked(*, pool: Any, demands: Any, windows: Any, now: datetime, reservation_id: UUID, **more: Any) -> Any:
    from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

    from apps.timetable.admission import Interval, Placement, free_between, place
    from apps.timetable.instants import instant_of, micros_of
    from apps.timetable.models import Reservation, Window
    from apps.timetable.services import devices_lock

    (demand,), devices = demands, devices_lock(pool)
    limits = demand.limits(now=now)
    rows = Window.objects.filter(
        device__in=devices,
        state="active",
        period__overlap=DateTimeTZRange(instant_of(limits.not_before), demand.not_after),
    ).values_list("device_id", "period")
    busy: dict[UUID, list[Interval]] = {device.pk: [] for device in devices}
    for device_id, period in rows:
        busy[device_id].append(Interval(micros_of(period.lower), micros_of(period.upper)))
    free = {str(key): free_between(one, limits.not_before, limits.not_after) for key, one in busy.items()}
    placed = place(demand._replace(windows_max=windows[0]).work(), free, limits)
    assert isinstance(placed, Placement)
    reservation = Reservation.objects.create(id=reservation_id, pool=pool, created_at=now, **more)
    Window.objects.bulk_create(
        Window(
            reservation=reservation,
            device_id=UUID(one.device),
            period=DateTimeTZRange(instant_of(one.start), instant_of(one.end), "[)"),
        )
        for one in placed.windows
    )
    return reservation


_TWICE = """
SELECT count(*) FROM timetable_window AS one JOIN timetable_window AS two
    ON two.device_id = one.device_id AND two.id > one.id AND two.period && one.period
JOIN fleet_device AS device ON device.id = one.device_id
WHERE device.pool_id = %s AND one.state = 'active' AND two.state = 'active'
"""


def faults(pool: Pool, work: Sequence[tuple[UUID, UUID]]) -> list[str]:
    """What does not hold on a pool after all of it."""
    from fractions import Fraction

    from django.db import connection

    from apps.ledger.models import Hold
    from apps.sales.models import Contract
    from apps.timetable.instants import seconds_between
    from apps.timetable.selectors import windows_of

    with connection.cursor() as cursor:
        cursor.execute(_TWICE, [pool.pk])
        (twice,) = cursor.fetchone()
    wrong = [f"{twice} pairs of windows overlap"] if twice else []
    contracts = list(Contract.objects.filter(pool=pool).select_related("quote"))
    if {one.quote_id for one in contracts} != {quote for quote, _ in work}:
        wrong.append(f"{len(work)} quotes became {len(contracts)} contracts")
    holds = dict(
        Hold.objects.filter(contract_id__in=[one.pk for one in contracts]).values_list("contract_id", "amount")
    )
    for contract in contracts:
        (window,) = windows_of(contract.pk)
        more = seconds_between(window.start, window.end) - Fraction(contract.quote.document["device_seconds"])
        if holds.get(contract.pk) != contract.net or not 0 <= more < Fraction(1, 10**6):
            wrong.append(f"contract {contract.pk} has not what its quote says")
    return wrong
