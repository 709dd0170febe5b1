"""Held time that nobody bought: free from the instant until which it was held, whether or not a sweep has come by."""

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
    """Held reservations whose time is over and whose windows nobody has released yet."""
    return Reservation.objects.filter(state=ReservationState.ACTIVE, held_until__lte=now)


def taken(windows: QuerySet[Window], *, now: datetime) -> QuerySet[Window]:
    """Those of the windows that keep others out at `now`: sold ones, and held ones while they are held."""
    return windows.exclude(reservation__in=expired(now=now))


def sold(windows: QuerySet[Window]) -> QuerySet[Window]:
    """Those of the windows that a contract has: held time is neither sold nor free."""
    return windows.filter(reservation__held_until__isnull=True)


def expired_release(pieces: Sequence[Piece], *, now: datetime) -> int:
    """Release what was held where these pieces are to go and is held no more, in the transaction of whoever takes them.

    Call it under the locks of the pieces' devices: whoever sells or gives up what is held has the locks of all its pool's
    devices, so that nobody does so meanwhile. Another sale of time that was held in the same reservation is waited for.
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
    """The same of whole pools, by slug, for whoever has locked all their devices and stands or moves windows there."""
    rows = expired(now=now).filter(pool__slug__in=pools)
    return windows_release(list(rows.select_for_update(no_key=True, of=("self",)).order_by("id")))


def windows_release(reservations: list[Reservation]) -> int:
    """Release locked reservations that were held and never sold, whole: also windows that have begun meanwhile."""
    if not reservations:
        return 0
    ids = [one.pk for one in reservations]
    Window.objects.filter(reservation__in=ids, state=WindowState.ACTIVE).update(state=WindowState.RELEASED)
    return Reservation.objects.filter(pk__in=ids).update(state=ReservationState.RELEASED)
