"""Records promised device time as missed: fails its blocks and releases the remaining windows."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from uuid import UUID

from django.db import OperationalError, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.accounts.problems import Problem
from apps.dispatch.models import LIVE, Job, JobState, Lease, LeaseState
from apps.dispatch.services.ending import job_end
from apps.timetable.models import Window, WindowState


def windows_fail(*, windows: Collection[UUID], reason: str, now: datetime) -> list[Lease]:
    """Fail the live blocks in these windows, end their jobs, and release the future part of the windows. Return the
    failed blocks.

    The caller must hold the locks of the contracts and devices. Raises Problem(503) if a job is locked, because waiting
    for the job could deadlock.
    """
    live = Lease.objects.filter(window__in=windows, state__in=LIVE)
    rows = Job.objects.filter(
        pk__in=live.order_by().values("stage__job"), state__in=[JobState.QUEUED, JobState.RUNNING]
    )
    try:
        with transaction.atomic():
            jobs = list(rows.select_for_update(nowait=True).order_by("id"))
    except OperationalError as error:
        detail = "A worker is finishing work on this device. Nothing was changed. Try again in a minute."
        raise Problem(503, "Busy", detail, kind="capacity-busy") from error
    missed = list(live.values_list("pk", flat=True))
    Lease.objects.filter(pk__in=missed).update(state=LeaseState.FAILED, finished_at=now, is_missed=True)
    for job in jobs:
        job_end(job=job, state=JobState.FAILED, problem=reason, now=now)
    for window in Window.objects.filter(pk__in=windows, state=WindowState.ACTIVE):
        _release(window, now)
    return list(
        Lease.objects.filter(pk__in=missed).select_related("stage__job__contract__organisation", "stage__program")
    )


def _release(window: Window, now: datetime) -> None:
    # The past part of the window stays reserved.
    if window.start >= now:
        window.state = WindowState.RELEASED
        window.save(update_fields=["state"])
        return
    rest = DateTimeTZRange(now, window.end, "[)")
    window.period = DateTimeTZRange(window.start, now, "[)")
    window.save(update_fields=["period"])
    Window.objects.create(
        reservation_id=window.reservation_id, device_id=window.device_id, period=rest, state=WindowState.RELEASED
    )
