"""Time held for a possible contract."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.timetable.expiry import windows_release
from apps.timetable.models import Reservation, ReservationState
from apps.timetable.services import devices_lock


@transaction.atomic
def reservation_claim(*, reservation_id: UUID, now: datetime) -> Reservation | None:
    """Turn held time into sold time. Return None if the hold has ended at `now`."""
    reservation = _locked(reservation_id)
    if not _is_held(reservation) or reservation.held_until is None or now >= reservation.held_until:
        return None
    reservation.held_until = None
    reservation.save(update_fields=["held_until"])
    return reservation


@transaction.atomic
def reservation_give_up(*, reservation_id: UUID) -> bool:
    """Release held time. Return False if the time was already sold or released. Safe to repeat."""
    reservation = _locked(reservation_id)
    return bool(_is_held(reservation) and windows_release([reservation]))


def _is_held(reservation: Reservation) -> bool:
    return reservation.state == ReservationState.ACTIVE and reservation.held_until is not None


def _locked(reservation_id: UUID) -> Reservation:
    # Every sale and release locks in this order.
    known = Reservation.objects.select_related("pool").get(pk=reservation_id)
    devices_lock(known.pool, windows_of=reservation_id)  # also those that drain
    return Reservation.objects.select_for_update(no_key=True).get(pk=reservation_id)
