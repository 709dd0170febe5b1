"""What-ifs: comparisons of the present pools with the pools after a change."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.accounts.turns import turn
from apps.fleet.selectors import pools
from apps.ledger.selectors import month_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_in_force
from apps.reports.changes import Change, change_check
from apps.reports.costs import rounded, segments
from apps.reports.demand import DEVICE_TIME, Demand, demands, hour_of
from apps.reports.demand_traces import hours_of, seconds_of
from apps.reports.models import DemandTrace, WhatIf
from apps.reports.projection import Projection, ProjectionInput, project
from apps.reports.rerating import rerating_request

TASK = "apps.reports.tasks.what_if"
RERATE = "apps.reports.tasks.rerate"


def what_if_request(*, change: Change, trace: DemandTrace | None, asked_by: User | None, now: datetime) -> WhatIf:
    """Create a what-if and queue the computation. Raises Problem."""
    rows = list(pools())
    change_check(
        change,
        pools={pool.slug: len(pool.devices.all()) for pool in rows},
        sites={pool.site.slug for pool in rows},
        has_trace=trace is not None,
    )
    with transaction.atomic():
        rerating = None
        if change.book is not None:
            book = PriceBook.objects.filter(version=change.book).first() if 0 < change.book < 2**31 else None
            if book is None:
                detail = "Choose the version of a published price book."
                raise Problem(422, "No such price book", detail, kind="price-book-unknown")
            start, _ = month_of(now)
            month = start - timedelta(days=1)
            rerating = rerating_request(book=book, month=month, asked_by=asked_by, now=now)
            task_send_on_commit(RERATE, queue="books", pk=str(rerating.pk))
        what_if = WhatIf.objects.create(
            asked_by=asked_by,
            asked_at=now,
            change=change.to_json(),
            currency=book_in_force(at=now).currency,
            trace=trace,
            rerating=rerating,
            steps_total=len(rows),
        )
        audit_record(action="what-if.ask", subject=f"what-if {what_if.pk}", actor=asked_by, now=now)
        task_send_on_commit(TASK, queue="books", pk=str(what_if.pk))
    return what_if


def what_if_cancel(*, pk: UUID, actor: User | None, now: datetime) -> WhatIf:
    """Cancel a what-if that has not finished. Raises WhatIf.DoesNotExist."""
    with transaction.atomic():
        open_rows = WhatIf.objects.filter(pk=pk, finished_at=None, cancelled_at=None)
        if open_rows.update(cancelled_at=now):
            audit_record(action="what-if.cancel", subject=f"what-if {pk}", actor=actor, now=now)
    return WhatIf.objects.get(pk=pk)


def what_if_run(*, pk: UUID, now: datetime) -> WhatIf:
    """Compute a what-if and store the result. Safe to repeat."""
    what_if = WhatIf.objects.select_related("trace").get(pk=pk)
    with turn(f"what-if {pk}") as is_ours:
        if what_if.finished_at is None and what_if.cancelled_at is None and is_ours:
            _answer(what_if, now)
    what_if.refresh_from_db()
    return what_if


def _answer(what_if: WhatIf, now: datetime) -> None:
    change = Change(**what_if.change)
    wanted = [one for one in demands(until=hour_of(what_if.asked_at)) if one.dimension == DEVICE_TIME]
    end = what_if.asked_at + timedelta(days=1)
    parts = segments(start=what_if.asked_at, end=end, currency=what_if.currency)
    unfinished = WhatIf.objects.filter(pk=what_if.pk, finished_at=None, cancelled_at=None)
    result = []
    for done, one in enumerate(wanted, 1):
        before, after = projection_inputs(one, change, what_if.trace)
        rate = parts[0].rate(one.pool.processor_class, one.pool.pk) if parts else None
        result.append(
            {
                "pool": one.pool.slug,
                "now": projection_json(project(before), rate),
                "then": projection_json(project(after), rate),
            }
        )
        if not unfinished.update(steps_done=done, steps_total=len(wanted)):
            return  # it was cancelled
    unfinished.update(result=result, finished_at=now)


def projection_inputs(
    one: Demand, change: Change, trace: DemandTrace | None
) -> tuple[ProjectionInput, ProjectionInput]:
    """Return the projection inputs for the present pool and for the pool after the change."""
    devices = len(one.pool.devices.all())
    mean = 0.0
    if one.used is not None and one.leases:
        mean = float(one.used.values.sum()) / one.leases
    before = ProjectionInput(devices=devices, power=1.0, used=one.used, request_seconds=mean)
    left = 0 if one.pool.site.slug in change.failed_sites else max(0, devices + change.devices.get(one.pool.slug, 0))
    after = replace(before, devices=left, power=change.power_percent / 100, factor=change.demand_factor)
    if trace is not None and change.trace_pool == one.pool.slug:
        after = replace(
            after,
            used=hours_of(trace).scaled(change.request_seconds),
            request_seconds=change.request_seconds,
            seconds=seconds_of(trace),
        )
    return before, after


def projection_json(side: Projection, rate: Fraction | None) -> dict[str, Any]:
    """Return the stored form of a projection. `rate`: the hourly cost of one device; None if unknown."""
    cost = rounded(None if rate is None else rate * side.devices)
    return {**side.to_json(), "cost_per_hour": None if cost is None else decimal_text(cost)}
