"""Device time that was promised and is gone: its blocks fail as missed, and what is left of its windows is given back."""

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


def windows_lose(*, windows: Collection[UUID], reason: str, now: datetime) -> list[Lease]:
    """The live blocks in these windows have failed on our side and their jobs end, saying `reason`; what is still to come of
    the windows is released. Returns the blocks. Called within a transaction that holds contracts and devices; jobs come
    before those elsewhere, so they are not waited for. Raises Problem(503) where somebody is at work on one."""
    live = Lease.objects.filter(window__in=windows, state__in=LIVE)
    rows = Job.objects.filter(
        pk__in=live.order_by().values("stage__job"), state__in=[JobState.QUEUED, JobState.RUNNING]
    )
    try:
        with transaction.atomic():
            jobs = list(rows.select_for_update(nowait=True).order_by("id"))
    except OperationalError as error:
        detail = "A worker is finishing work of this device at this moment; nothing was changed. Try again in a minute."
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
    """What is to come of a window is released; what has passed of it was held."""
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
