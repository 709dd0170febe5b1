"""Held time that nobody bought. Expired holds count as free time even before they are released."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import reduce
from operator import or_

from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.db.models import Q, QuerySet

from apps.timetable.admission import Piece
from apps.timetable.instants import instant_of
from apps.timetable.models import Reservation, ReservationState, Window, WindowState


def expired(*, now: datetime) -> QuerySet[Reservation]:
    """Return the reservations whose hold has expired but is not yet released."""
    return Reservation.objects.filter(state=ReservationState.ACTIVE, held_until__lte=now)


def taken(windows: QuerySet[Window], *, now: datetime) -> QuerySet[Window]:
    """Return the windows that block others at `now`: sold windows, and windows of unexpired holds."""
    return windows.exclude(reservation__in=expired(now=now))


def sold(windows: QuerySet[Window]) -> QuerySet[Window]:
    """Return the windows that are sold. Held windows are excluded."""
    return windows.filter(reservation__held_until__isnull=True)


def expired_release(pieces: Sequence[Piece], *, now: datetime) -> int:
    """Release the expired holds that overlap these pieces. Return the number of holds released.

    The caller must hold the locks of the pieces' devices.
    """
    known = list(expired(now=now).order_by().values_list("pk", flat=True))  # rarely any, and an index has them
    if not known:
        return 0
    spans = [(one.device, DateTimeTZRange(instant_of(one.start), instant_of(one.end), "[)")) for one in pieces]
    meeting = Window.objects.filter(
        reduce(or_, (Q(device=device, period__overlap=period) for device, period in spans)), reservation__in=known
    )
    rows = expired(now=now).filter(pk__in=list(meeting.values_list("reservation", flat=True)))
    return windows_release(list(rows.select_for_update(no_key=True).order_by("id")))


def expired_release_of(pools: Collection[str], *, now: datetime) -> int:
    """Release all expired holds in the pools with these slugs. Return the number of holds released.

    The caller must hold the locks of all devices of the pools.
    """
    rows = expired(now=now).filter(pool__slug__in=pools)
    return windows_release(list(rows.select_for_update(no_key=True, of=("self",)).order_by("id")))


def windows_release(reservations: list[Reservation]) -> int:
    """Release locked reservations that were held but never sold. Return the number of reservations released."""
    if not reservations:
        return 0
    ids = [one.pk for one in reservations]
    Window.objects.filter(reservation__in=ids, state=WindowState.ACTIVE).update(state=WindowState.RELEASED)
    return Reservation.objects.filter(pk__in=ids).update(state=ReservationState.RELEASED)
