"""Changes to the timetable. Every change first locks its devices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from uuid import UUID, uuid4

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.timetable.admission import Piece
from apps.timetable.instants import instant_of, micros_of_seconds
from apps.timetable.locking import LOCK_TIMEOUT, devices_lock, some_lock
from apps.timetable.models import Refusal, Reservation, ReservationState, Window, WindowState
from apps.timetable.refusals import CapacityBusy, CapacityTaken, PoolChanged
from apps.timetable.selectors import Allowed, Demand
from apps.timetable.taking import capacity_take

__all__ = [
    "LOCK_TIMEOUT",
    "CapacityBusy",
    "CapacityTaken",
    "PoolChanged",
    "devices_lock",
    "refusal_record",
    "reservation_release",
    "reservation_replace",
    "reservation_take",
    "reservation_take_each",
]

RELEASE_TRIES = 5
LONGEST_NOTED = 2**63 - 1  # microseconds: what the column of refusals holds, 292,000 years


@transaction.atomic
def reservation_take(
    *,
    contract_id: UUID,
    organisation_id: UUID,
    pool: Pool,
    duration: Fraction,
    not_before: datetime,
    not_after: datetime,
    allowed: Allowed | None = None,
    klass: str,
    now: datetime,
    setup: Fraction = Fraction(0),
    quantum: Fraction | None = None,
    windows_max: int = 1,
    held_until: datetime | None = None,
) -> Reservation:
    """Reserve device time for a contract, at the cheapest possible tariff and with the earliest possible end.

    `duration` and `setup` are exact seconds. `quantum`: the time that is never split; None if the work must not be
    divided. `held_until`: hold the time until this instant instead of selling it. Raises CapacityTaken.
    """
    demand = Demand(duration, not_before, not_after, allowed, setup, quantum, windows_max)
    return reservation_take_each(
        contract_id=contract_id,
        organisation_id=organisation_id,
        pool=pool,
        demands=[demand],
        windows=(windows_max,),
        klass=klass,
        now=now,
        held_until=held_until,
    )


def reservation_take_each(
    *,
    contract_id: UUID,
    organisation_id: UUID,
    pool: Pool,
    demands: Sequence[Demand],
    windows: Sequence[int],
    klass: str,
    now: datetime,
    reservation_id: UUID | None = None,
    held_until: datetime | None = None,
) -> Reservation:
    """Reserve time for all demands, or for none of them, in the caller's transaction.

    `windows`: the numbers of windows to try, in order. `windows_max` of the demands is ignored. `reservation_id`: the
    id for the reservation. Raises CapacityTaken.
    """

    def store(pieces: Sequence[Piece]) -> Reservation:
        reservation = Reservation.objects.create(
            id=reservation_id or uuid4(),
            contract_id=contract_id,
            organisation_id=organisation_id,
            pool=pool,
            klass=klass,
            created_at=now,
            held_until=held_until,
        )
        _windows_add(reservation, pieces)
        return reservation

    return capacity_take(pool=pool, demands=demands, windows=windows, now=now, store=store)


@transaction.atomic
def reservation_replace(
    *,
    reservation_id: UUID,
    duration: Fraction,
    not_before: datetime,
    not_after: datetime,
    allowed: Allowed | None = None,
    now: datetime,
    setup: Fraction = Fraction(0),
    quantum: Fraction | None = None,
    windows_max: int = 1,
) -> list[Window]:
    """Reserve new windows for work whose windows passed unused. Return the new windows.

    `duration`: the seconds of this work. Raises CapacityTaken.
    """
    known = Reservation.objects.select_related("pool").get(pk=reservation_id)
    demand = Demand(duration, not_before, not_after, allowed, setup, quantum, windows_max)

    def store(pieces: Sequence[Piece]) -> list[Window]:
        reservation = Reservation.objects.select_for_update().get(pk=reservation_id)
        if reservation.state != ReservationState.ACTIVE:
            raise Problem(
                409,
                "Reservation released",
                "This contract's capacity was released. Request a new quote.",
                kind="reservation-released",
            )
        return _windows_add(reservation, pieces)

    return capacity_take(pool=known.pool, demands=[demand], windows=(windows_max,), now=now, store=store)


@transaction.atomic
def reservation_release(*, reservation_id: UUID, now: datetime) -> Reservation:
    """Release the future time of a reservation. A running window ends at `now`. Safe to repeat.

    Raises CapacityBusy.
    """
    pool = Reservation.objects.select_related("pool").get(pk=reservation_id).pool
    ahead = Window.objects.filter(reservation=reservation_id, state=WindowState.ACTIVE, period__endswith__gt=now)
    for _ in range(RELEASE_TRIES):
        mark = transaction.savepoint()
        locked = some_lock(pool, set(ahead.values_list("device_id", flat=True)), active=False)
        reservation = Reservation.objects.select_for_update().get(pk=reservation_id)
        windows = list(ahead.select_for_update())
        if all(window.device_id in locked for window in windows):
            transaction.savepoint_commit(mark)
            return _release(reservation, windows, now)
        transaction.savepoint_rollback(mark)  # the fleet changed and moved them: with the locks given up, once more
    raise CapacityBusy(pool)


def _release(reservation: Reservation, windows: Sequence[Window], now: datetime) -> Reservation:
    if reservation.state == ReservationState.RELEASED:
        return reservation
    reservation.state = ReservationState.RELEASED
    reservation.save(update_fields=["state"])
    for window in windows:
        if window.start >= now:
            window.state = WindowState.RELEASED
            window.save(update_fields=["state"])
        else:
            rest = DateTimeTZRange(now, window.end, "[)")
            window.period = DateTimeTZRange(window.start, now, "[)")
            window.save(update_fields=["period"])
            Window.objects.create(
                reservation=reservation, device_id=window.device_id, period=rest, state=WindowState.RELEASED
            )
    return reservation


def refusal_record(
    *, organisation_id: UUID, pool: Pool, klass: str, duration: Fraction, reason: str, now: datetime
) -> Refusal:
    """Record a refused request for capacity. Call this function after the refused transaction has rolled back."""
    return Refusal.objects.create(
        organisation_id=organisation_id,
        pool=pool,
        klass=klass,
        duration_us=min(-int(-micros_of_seconds(duration) // 1), LONGEST_NOTED),
        reason=reason[:400],
        at=now,
    )


def _windows_add(reservation: Reservation, pieces: Sequence[Piece]) -> list[Window]:
    return Window.objects.bulk_create(
        Window(
            reservation=reservation,
            device_id=UUID(piece.device),
            period=DateTimeTZRange(instant_of(piece.start), instant_of(piece.end), "[)"),
        )
        for piece in pieces
    )
