"""Applies a fleet document or undoes the last change, in one transaction under locks.

Locking order: the fleet, the organisation, contracts by id, devices by id. All code that allocates capacity uses this
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.dispatch.fleet.planning import Move, Plan, devices_by_name, plan_make, pools_affected
from apps.dispatch.models import LIVE, Lease, LeaseState
from apps.fleet.current import document_check, document_now, document_stored
from apps.fleet.document import Document
from apps.fleet.models import Device, FleetChange
from apps.fleet.storing import document_store, fleet_lock, fleet_write
from apps.sales.models import Contract
from apps.timetable.expiry import expired_release_of, windows_release
from apps.timetable.models import Reservation, ReservationState, Window, WindowState
from apps.timetable.services import LOCK_TIMEOUT

TRIES = 3
SWEEP = "apps.sales.tasks.standing_sweep"  # offers the capacity that a change frees to standing requests

T = TypeVar("T")
Edit = Callable[[dict[str, Any]], None]
Lose = Callable[[FleetChange, list[UUID]], None]  # handles lost windows in the same transaction


class _InUse(Exception):
    """Raised if a contract that was just sold is locked."""


def fleet_apply(
    *, document: Document, expected: str = "", actor: User | None, now: datetime, note: str = ""
) -> FleetChange | None:
    """Apply a document and move windows where necessary. Returns None if the fleet already matches the document.

    `expected` is the digest of the fleet that the caller saw. Raises Problem if the fleet has changed since then, or if
    a contract would lose its time.
    """
    return _retried(lambda: _apply(lambda _: document, expected=expected, actor=actor, now=now, note=note))


def fleet_edit(
    *, edit: Edit, expected: str = "", actor: User | None, now: datetime, note: str = "", lose: Lose | None = None
) -> FleetChange | None:
    """Apply one edit to the current fleet document. Raises the same Problems as `fleet_apply`.

    If no other device has room for the windows of failed devices, `lose` is called with these windows. Without `lose`,
    the edit is refused.
    """

    def edited(before: Document) -> Document:
        raw = before.to_json()
        edit(raw)
        return document_check(raw)

    return _retried(lambda: _apply(edited, expected=expected, actor=actor, now=now, note=note, lose=lose))


def fleet_undo(*, expected: str = "", actor: User | None, now: datetime) -> FleetChange:
    """Undo the last change: restore the fleet, and return windows to their former devices where possible.

    Raises Problem if there is nothing to undo, or if the earlier fleet has no room for newer contracts.
    """
    return _retried(lambda: _undo(expected=expected, actor=actor, now=now))


def change_last() -> FleetChange | None:
    """Return the last change that is not undone; None if there is none."""
    return FleetChange.objects.filter(undone_at__isnull=True).order_by("-id").first()


def _retried(work: Callable[[], T]) -> T:
    for _ in range(TRIES):
        try:
            return work()
        except _InUse:
            continue
    raise _busy()


@transaction.atomic
def _apply(
    make: Callable[[Document], Document],
    *,
    expected: str,
    actor: User | None,
    now: datetime,
    note: str,
    lose: Lose | None = None,
) -> FleetChange | None:
    fleet_lock()
    before = document_now()
    _expected_check(before, expected)
    after = make(before)
    if after == before:
        return None
    plan = _plan_locked(before, after, now=now, may_lose=lose is not None)
    change = fleet_write(
        before=before, after=plan.after, moved=len(plan.moves), actor=actor, now=now, note=note, said=plan.sentence()
    )
    change.moves = _move(plan.moves)
    _holds_end(plan)
    change.lost = [str(pk) for pk in plan.lost]
    change.save(update_fields=["moves", "lost"])
    if lose is not None and plan.lost:
        lose(change, plan.lost)
    task_send_on_commit(SWEEP, queue="default")
    return change


@transaction.atomic
def _undo(*, expected: str, actor: User | None, now: datetime) -> FleetChange:
    fleet_lock()
    change = change_last()
    if change is None:
        raise Problem(409, "Nothing to undo", "There is no change to the fleet to undo.", kind="fleet-nothing-to-undo")
    if change.lost:
        stays = (
            "The last change recorded a failure. The lost windows were credited, so the change cannot be undone. Set the "
            "device to "
            "active when it works again."
        )
        raise Problem(409, "A recorded failure cannot be undone", stays, kind="fleet-failure-recorded")
    before, after = document_now(), document_stored(change.before)
    _expected_check(before, expected)
    names = dict(Device.objects.filter(pk__in=[one["from"] for one in change.moves]).values_list("pk", "name"))
    wanted = {UUID(one["window"]): names[UUID(one["from"])] for one in change.moves if UUID(one["from"]) in names}
    plan = _plan_locked(before, after, now=now, wanted=wanted)
    document_store(before=before, after=after, now=now, revive=change.retired)
    moves = _move(plan.moves)
    _holds_end(plan)
    task_send_on_commit(SWEEP, queue="default")
    change.undone_at, change.undone_by = now, actor
    change.save(update_fields=["undone_at", "undone_by"])
    detail = {"summary": plan.sentence(), "after": after.digest, "windows_moved": len(moves)}
    audit_record(action="fleet.undo", subject=f"fleet change {change.pk}", actor=actor, now=now, detail=detail)
    return change


def _expected_check(before: Document, expected: str) -> None:
    # An empty `expected` accepts any fleet.
    if expected and expected != before.digest:
        raise Problem(
            409,
            "The fleet has changed",
            "Somebody changed the fleet after you opened this page. Check the changes again, then apply them.",
            kind="fleet-changed",
        )


def _plan_locked(
    before: Document,
    after: Document,
    *,
    now: datetime,
    wanted: dict[UUID, str] | None = None,
    may_lose: bool = False,
) -> Plan:
    """Make the plan under locks, so that nobody can sell, place or release time on the affected pools. Raises Problem."""
    slugs = pools_affected(before, after)
    locked = _contracts_lock(slugs, now)
    _devices_lock(slugs)
    expired_release_of(slugs, now=now)  # windows may move to their places
    newer = [pk for pk in _contracts(slugs, now) if pk not in locked]
    _newer_lock(newer)
    plan = plan_make(before=before, after=after, now=now, in_use=_in_use(slugs, now), wanted=wanted)
    plan.check(may_lose=may_lose)
    return plan


def _windows(slugs: Collection[str], now: datetime) -> QuerySet[Window]:
    return Window.objects.filter(
        device__pool__slug__in=slugs, state=WindowState.ACTIVE, period__endswith__gt=now
    ).order_by()


def _contracts(slugs: Collection[str], now: datetime) -> list[UUID]:
    found = _windows(slugs, now).values_list("reservation__contract_id", flat=True).distinct()
    return sorted(found)


def _contracts_lock(slugs: Collection[str], now: datetime) -> set[UUID]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [LOCK_TIMEOUT])
    rows = Contract.objects.filter(pk__in=_contracts(slugs, now)).select_for_update(no_key=True).order_by("id")
    try:
        with transaction.atomic():
            return set(rows.values_list("pk", flat=True))
    except OperationalError as error:
        raise _busy() from error


def _devices_lock(slugs: Collection[str]) -> None:
    owned = Device.objects.filter(pool__slug__in=slugs, owned_until__isnull=True)
    try:
        with transaction.atomic():
            list(owned.select_for_update(no_key=True).order_by("id").values_list("pk", flat=True))
    except OperationalError as error:
        raise _busy() from error


def _newer_lock(contracts: list[UUID]) -> None:
    # Raises _InUse instead of waiting, because the devices are already locked.
    rows = Contract.objects.filter(pk__in=contracts).select_for_update(no_key=True, nowait=True).order_by("id")
    try:
        with transaction.atomic():
            list(rows.values_list("pk", flat=True))
    except OperationalError as error:
        raise _InUse from error


def _in_use(slugs: Collection[str], now: datetime) -> set[UUID]:
    """Lock the leases of the pools' windows without waiting. Return the windows with a lease that another transaction locks."""
    live = Lease.objects.filter(window__in=_windows(slugs, now), state__in=LIVE).order_by()
    locked = set(live.select_for_update(skip_locked=True, of=("self",), no_key=True).values_list("pk", flat=True))
    return {window for pk, window in live.values_list("pk", "window_id") if pk not in locked}


def _move(moves: list[Move]) -> list[dict[str, str]]:
    # Windows may swap devices, so all of them are first released within the transaction.
    devices = devices_by_name({move.pool for move in moves})
    before = dict(Window.objects.filter(pk__in=[move.window for move in moves]).values_list("pk", "device_id"))
    by_device: dict[UUID, list[UUID]] = defaultdict(list)
    for move in moves:
        by_device[devices[move.pool, move.after]].append(move.window)
    Window.objects.filter(pk__in=list(before)).update(state=WindowState.RELEASED)
    for device, windows in by_device.items():
        Window.objects.filter(pk__in=windows).update(device=device, state=WindowState.ACTIVE)
        Lease.objects.filter(window__in=windows, state=LeaseState.PLANNED).update(device=device)
    return [
        {"window": str(move.window), "from": str(before[move.window]), "to": str(devices[move.pool, move.after])}
        for move in moves
    ]


def _holds_end(plan: Plan) -> None:
    held = Reservation.objects.filter(pk__in=plan.holds, state=ReservationState.ACTIVE, held_until__isnull=False)
    windows_release(list(held.select_for_update(no_key=True).order_by("id")))


def _busy() -> Problem:
    detail = "Orders are being placed on these pools. Nothing was changed. Try again in a minute."
    return Problem(503, "Busy", detail, kind="capacity-busy")
