"""What changes the timetable. Whoever takes capacity locks the pool's devices in the order of their ids first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.accounts.problems import Problem
from apps.fleet.models import Device, DeviceState, Pool
from apps.timetable import admission
from apps.timetable.admission import Placement
from apps.timetable.instants import instant_of, micros_of_seconds
from apps.timetable.models import Refusal, Reservation, ReservationState, Window, WindowState
from apps.timetable.selectors import Allowed, Alternative, Demand, alternatives_find, demand_place

LOCK_TIMEOUT = "30s"


class CapacityTaken(Problem):
    """The demand does not fit any more; `alternatives` says where it would."""

    def __init__(self, *, pool: Pool, refusal: admission.Refusal, alternatives: Sequence[Alternative]) -> None:
        self.alternatives = list(alternatives)
        super().__init__(
            409,
            "Capacity is taken",
            _refusal_sentence(pool, refusal, self.alternatives),
            kind="capacity-taken",
            errors=[
                {"pool": one.pool, "start": one.start.isoformat(), "end": one.end.isoformat()}
                for one in self.alternatives
            ],
        )


class PoolChanged(Problem):
    """The pool runs at another pace, or another processor, than the demand was made for."""

    def __init__(self, pool: Pool) -> None:
        detail = f"Pool {pool.slug} has another processor or power setting by now; ask for a new quote. Nothing was taken."
        super().__init__(409, "The pool has changed", detail, kind="pool-changed")


class CapacityBusy(Problem):
    """Others hold the devices' locks for too long."""

    def __init__(self, pool: Pool) -> None:
        detail = f"Many orders for pool {pool.slug} are being placed at this moment; try again in a minute."
        super().__init__(503, "Busy", detail, kind="capacity-busy")


def devices_lock(pool: Pool, *others: Pool) -> list[Device]:
    """The active devices of one or several pools, locked in the order of their ids until the transaction ends."""
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("devices_lock needs a transaction that holds the locks")
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
    active = Device.objects.filter(pool__in=[pool, *others], state=DeviceState.ACTIVE)
    rows = active.select_for_update(no_key=True).order_by("id")
    try:
        with transaction.atomic():
            return list(rows)
    except OperationalError as error:
        raise CapacityBusy(pool) from error


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
) -> Reservation:
    """Takes device time for a contract: the placement that ends first at the cheapest tariff (T4).

    `duration` and `setup` are exact seconds, windows are rounded up to whole microseconds and lie inside
    [not_before, not_after), not before `now`, and inside `allowed` when that is given. With `windows_max` above 1 and a
    `quantum`, the work may be split over several windows, none of which cuts a quantum. Raises CapacityTaken.
    """
    demand = Demand(duration, not_before, not_after, allowed, setup, quantum, windows_max)
    placement = _place_locked(pool, demand, now=now)
    reservation = Reservation.objects.create(
        contract_id=contract_id, organisation_id=organisation_id, pool=pool, klass=klass, created_at=now
    )
    _windows_add(reservation, placement)
    return reservation


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
    """Takes new windows for `duration` seconds of a reservation's work whose windows have passed unused.

    What has passed stays in the books as sold and idle; the new windows are returned. Raises CapacityTaken.
    """
    known = Reservation.objects.select_related("pool").get(pk=reservation_id)
    demand = Demand(duration, not_before, not_after, allowed, setup, quantum, windows_max)
    placement = _place_locked(known.pool, demand, now=now)
    reservation = Reservation.objects.select_for_update().get(pk=reservation_id)
    if reservation.state != ReservationState.ACTIVE:
        raise Problem(
            409,
            "Reservation given back",
            "This contract's capacity was given back; ask for a new quote.",
            kind="reservation-released",
        )
    return _windows_add(reservation, placement)


@transaction.atomic
def reservation_release(*, reservation_id: UUID, now: datetime) -> Reservation:
    """Releases what is still to come: later windows, and what is left of one that is running, which ends now. What was
    reserved stays readable, as windows that are released. Safe to repeat."""
    known = Reservation.objects.select_related("pool").get(pk=reservation_id)
    devices_lock(known.pool)
    reservation = Reservation.objects.select_for_update().get(pk=reservation_id)
    if reservation.state == ReservationState.RELEASED:
        return reservation
    reservation.state = ReservationState.RELEASED
    reservation.save(update_fields=["state"])
    active = Window.objects.select_for_update().filter(reservation=reservation, state=WindowState.ACTIVE)
    for window in active:
        if window.start >= now:
            window.state = WindowState.RELEASED
            window.save(update_fields=["state"])
        elif window.end > now:
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
    """Remembers that capacity was asked for and not given; call it after the refused transaction has rolled back."""
    return Refusal.objects.create(
        organisation_id=organisation_id,
        pool=pool,
        klass=klass,
        duration_us=-int(-micros_of_seconds(duration) // 1),
        reason=reason[:400],
        at=now,
    )


def _place_locked(pool: Pool, demand: Demand, *, now: datetime) -> Placement:
    """The placement under the devices' locks, so that nobody can take it before we do."""
    if demand.duration <= 0:
        raise ValueError("a reservation takes more than no time")
    devices = devices_lock(pool)
    runs_on = Pool.objects.values_list("processor_id", "power_percent").get(pk=pool.pk)  # whoever changes it has the locks
    if runs_on != (pool.processor_id, pool.power_percent):
        raise PoolChanged(pool)
    found = demand_place(devices, demand, now=now)
    if isinstance(found, admission.Refusal):
        raise CapacityTaken(pool=pool, refusal=found, alternatives=alternatives_find(pool=pool, demand=demand, now=now))
    return found


def _windows_add(reservation: Reservation, placement: Placement) -> list[Window]:
    return Window.objects.bulk_create(
        Window(
            reservation=reservation,
            device_id=UUID(piece.device),
            period=DateTimeTZRange(instant_of(piece.start), instant_of(piece.end), "[)"),
        )
        for piece in placement.windows
    )


def _refusal_sentence(pool: Pool, refusal: admission.Refusal, alternatives: Sequence[Alternative]) -> str:
    """What is missing, in seconds, and where it would fit."""
    needed, largest = _seconds(refusal.needed), _seconds(refusal.largest)
    said = f"Pool {pool.slug} has no free window of {needed} left in the time asked for; the longest is {largest}."
    if not alternatives:
        return f"{said} Ask for less, or for a later time."
    one = min(alternatives, key=lambda each: each.start)
    return f"{said} The same work fits on {one.pool} from {one.start:%Y-%m-%d %H:%M:%S} UTC."


def _seconds(micros: int) -> str:
    if micros < 1000:
        return f"{micros} us"
    return f"{micros / 1000:,.3f} ms" if micros < 1_000_000 else f"{micros / 1_000_000:,.3f} s"
