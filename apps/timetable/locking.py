"""Locks on devices. Locks are always acquired in the order of the device ids."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import Q

from apps.fleet.models import Device, DeviceState, Pool
from apps.timetable.models import Window, WindowState
from apps.timetable.refusals import CapacityBusy

LOCK_TIMEOUT = "30s"

# One round trip; the second statement's rows are the answer.
_LOCK = "SELECT set_config('lock_timeout', %(timeout)s, true); SELECT id FROM fleet_device WHERE id = ANY(%(devices)s::uuid[]) {}"
_ALL = _LOCK.format("ORDER BY id FOR NO KEY UPDATE")
_ACTIVE = _LOCK.format("AND state = 'active' ORDER BY id FOR NO KEY UPDATE")
_FIRST_UNLOCKED = _LOCK.format(
    "AND state = 'active' ORDER BY array_position(%(devices)s::uuid[], id) LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED"
)


def devices_lock(pool: Pool, *others: Pool, windows_of: UUID | None = None) -> list[Device]:
    """Lock the active devices of one or more pools until the transaction ends. Raises CapacityBusy.

    `windows_of`: a reservation whose devices are also locked, even if they are not active.
    """
    if not connection.in_atomic_block:
        raise transaction.TransactionManagementError("devices_lock needs a transaction that holds the locks")
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
    wanted = Q(pool__in=[pool, *others], state=DeviceState.ACTIVE)
    if windows_of is not None:
        held = Window.objects.filter(reservation=windows_of, state=WindowState.ACTIVE)
        wanted |= Q(pk__in=list(held.values_list("device_id", flat=True)))
    rows = Device.objects.filter(wanted).select_for_update(no_key=True).order_by("id")
    try:
        with transaction.atomic():
            return list(rows)
    except OperationalError as error:
        raise CapacityBusy(pool) from error


def some_lock(pool: Pool, devices: Collection[UUID], *, active: bool = True) -> set[UUID]:
    """Lock these devices of a pool and return the ids of the locked devices. Raises CapacityBusy.

    `active`: skip inactive devices. Call this function in its own savepoint, so that a rollback releases the locks.
    """
    return _locked(pool, _ACTIVE if active else _ALL, sorted(devices))


def one_lock(pool: Pool, devices: Sequence[UUID]) -> UUID | None:
    """Lock the first device that nobody else has locked, and return its id. If all are locked, wait for the first.

    Return None if the first device is no longer active.
    """
    locked = _locked(pool, _FIRST_UNLOCKED, devices) if len(devices) > 1 else set()
    return next(iter(locked or some_lock(pool, devices[:1])), None)


def _locked(pool: Pool, statement: str, devices: Sequence[UUID]) -> set[UUID]:
    told: dict[str, Any] = {"timeout": LOCK_TIMEOUT, "devices": list(devices)}
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, told)
            return {row[0] for row in cursor.fetchall()}
    except OperationalError as error:
        raise CapacityBusy(pool) from error
