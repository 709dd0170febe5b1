"""Record the failure of a device, and credit the lost windows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from fractions import Fraction
from math import ceil
from typing import Any
from uuid import UUID

from apps.accounts.files import file_transaction
from apps.accounts.models import User
from apps.dispatch.fleet import edits, fleet_edit
from apps.dispatch.models import LIVE, Lease
from apps.dispatch.services.missed import windows_fail
from apps.fleet.models import Device, FleetChange
from apps.invoicing.models import CreditGrant, GrantKind
from apps.invoicing.services.granting import grant_create, guarantee_credit
from apps.pricing.rating import Counts, Terms, rate
from apps.pricing.selectors import book_of_digest
from apps.sales.models import Contract, FormName
from apps.sales.selectors import contract_duration, contract_usage
from apps.sales.snapshots import snapshot_of_line
from apps.timetable.instants import seconds_between
from apps.timetable.models import Window

NOTE = "failure"


@file_transaction()
def failure_record(*, device: Device, expected: str = "", actor: User | None, now: datetime) -> FleetChange | None:
    """Record that a device failed; return None if the failure was already recorded. Raises Problem if the change of the
    fleet is refused.
    """
    edit = edits.device_set(device.pool.slug, device.name, "failed")
    return fleet_edit(
        edit=edit, expected=expected, actor=actor, now=now, note=NOTE, lose=_credited(device.name, actor=actor, now=now)
    )


def _credited(name: str, *, actor: User | None, now: datetime) -> Callable[[FleetChange, list[UUID]], None]:
    def lose(change: FleetChange, lost: list[UUID]) -> None:
        free = _free_seconds(lost, now)
        left = {pk: _left(contract) for pk, contract in _contracts(free).items()}
        reason = f"Device {name} failed, and no other device was free for this job. The lost executions are credited."
        for lease in windows_fail(windows=lost, reason=reason, now=now):
            guarantee_credit(lease, now=now)
        for pk, (contract, lines) in left.items():
            _time_credit(contract, lines, free[pk], change=change, device=name, actor=actor, now=now)

    return lose


_Line = tuple[dict[str, Any], int, int]  # the frozen line, its executions, and those without a job


def _contracts(free: dict[UUID, Fraction]) -> dict[UUID, Contract]:
    rows = (
        Contract.objects.filter(pk__in=list(free))
        .select_related("organisation", "pool")
        .order_by("organisation_id", "id")
    )
    return {contract.pk: contract for contract in rows}


def _free_seconds(windows: list[UUID], now: datetime) -> dict[UUID, Fraction]:
    found: dict[UUID, Fraction] = {}
    for window in Window.objects.filter(pk__in=windows).select_related("reservation"):
        pk = window.reservation.contract_id
        found[pk] = found.get(pk, Fraction(0)) + seconds_between(max(window.start, now), window.end)
    live = Lease.objects.filter(window__in=windows, state__in=LIVE).select_related("stage__job")
    for lease in live:
        busy = Fraction(lease.next_cycle - lease.first_cycle, lease.stage.clock_hz)
        found[lease.stage.job.contract_id] -= busy
    return {pk: seconds for pk, seconds in found.items() if seconds > 0}


def _left(contract: Contract) -> tuple[Contract, list[_Line]]:
    lines = zip(contract.terms["lines"], contract_usage(contract).lines, strict=True)
    return contract, [(line, one.executions, max(0, one.executions - max(one.taken, one.used))) for line, one in lines]


def _time_credit(
    contract: Contract,
    lines: list[_Line],
    seconds: Fraction,
    *,
    change: FleetChange,
    device: str,
    actor: User | None,
    now: datetime,
) -> None:
    weights = [
        Fraction(1) if contract.pool.is_host else snapshot_of_line(line).seconds or Fraction(1) for line, _, _ in lines
    ]
    bought = sum((weight * count for weight, (_, count, _) in zip(weights, lines, strict=True)), Fraction(0))
    waiting = sum((weight * left for weight, (_, _, left) in zip(weights, lines, strict=True)), Fraction(0))
    if not waiting:
        return
    share = min(Fraction(1), seconds / (contract_duration(contract) * waiting / bought))
    for number, (line, _, left) in enumerate(lines, 1):
        count = min(left, ceil(left * share))
        if count:
            _grant(contract, line, number, count, change=change, device=device, actor=actor, now=now)


def _grant(
    contract: Contract,
    line: dict[str, Any],
    number: int,
    count: int,
    *,
    change: FleetChange,
    device: str,
    actor: User | None,
    now: datetime,
) -> CreditGrant | None:
    snapshot, stated = snapshot_of_line(line), line["rating"]
    is_quota = contract.form == FormName.QUOTA
    rating = rate(
        book=book_of_digest(stated["book_digest"]),
        counts=Counts(count, 0) if is_quota else snapshot.counts,
        executions=1 if is_quota else count,
        terms=Terms.from_json(stated["terms"]),
        missed=True,
    )
    if not rating.amount:
        return None
    what = f"{count:,} operations of a quota" if is_quota else f"{count:,} executions of {snapshot.model}"
    return grant_create(
        organisation=contract.organisation,
        amount=rating.amount,
        currency=rating.currency,
        kind=GrantKind.GUARANTEE,
        reason=f"{what} lost their reserved time because device {device} failed.",
        basis={"change": change.pk, "contract": str(contract.pk), "rating": rating.to_json()},
        expires_at=None,
        idempotency_key=f"lost:{change.pk}:{contract.pk}:{number}",
        actor=actor,
        now=now,
    )
