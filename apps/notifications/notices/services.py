"""Creates notices, marks them as read, and deletes old ones."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef
from django.urls import reverse

from apps.accounts.mails import mail_queue
from apps.accounts.models import Membership, Organisation, User
from apps.compilation.models import CompileJob, CompileRequest, CompileState
from apps.invoicing.outbox import outbox_write
from apps.notifications.models import Notice

BATCH = 50
RETENTION = timedelta(days=90)
UNFINISHED = (CompileState.QUEUED, CompileState.RUNNING)


def compile_notices_send(*, now: datetime) -> int:
    """Notify the requester of each compile request whose compiles have all ended. Return the number of requests."""
    jobs = CompileJob.objects.filter(request=OuterRef("pk"))
    waiting = CompileRequest.objects.filter(Exists(jobs), ~Exists(jobs.filter(state__in=UNFINISHED)), told_at=None)
    return sum(
        _compile_notice_send(pk, now)
        for pk in list(waiting.order_by("created_at").values_list("pk", flat=True)[:BATCH])
    )


@transaction.atomic
def _compile_notice_send(request_id: UUID, now: datetime) -> bool:
    rows = CompileRequest.objects.select_for_update(skip_locked=True, of=("self",)).filter(pk=request_id, told_at=None)
    request = rows.select_related("model_version__model", "organisation", "created_by").first()
    if request is None:
        return False
    states = list(request.jobs.values_list("state", flat=True))
    done = states.count(CompileState.DONE)
    text = f"{request.model_version}: {done} of {len(states)} compile{'' if len(states) == 1 else 's'} succeeded"
    path = reverse("compilation:request_detail", args=[request.pk])
    if Membership.objects.filter(organisation=request.organisation, user=request.created_by).exists():
        notice_create(organisation=request.organisation, user=request.created_by, text=text, path=path, now=now)
        if request.mail:
            mail_queue(
                to=request.created_by.email,
                subject=f"Compiled: {request.model_version}",
                text=f"{text}.\n\n{settings.SITE_URL}{path}\n",
                now=now,
            )
    payload = {
        "request": str(request.pk),
        "version": str(request.model_version_id),
        "compiles": [str(pk) for pk in request.jobs.order_by("target", "precision", "id").values_list("pk", flat=True)],
        "succeeded": done,
        "failed": len(states) - done,
    }
    outbox_write(organisation_id=request.organisation_id, topic="compile.finished", payload=payload, now=now)
    request.told_at = now
    request.save(update_fields=["told_at"])
    return True


def notice_create(*, organisation: Organisation, user: User, text: str, path: str, now: datetime) -> Notice:
    """Create a notice for one person. `path` is the page to link to."""
    return Notice.objects.create(organisation=organisation, user=user, text=text[:300], path=path, created_at=now)


def notices_read(*, organisation: Organisation, user: User, now: datetime, pk: UUID | None = None) -> int:
    """Mark one or all of a person's notices as read. Return the number of notices that were unread."""
    rows = Notice.objects.filter(organisation=organisation, user=user, read_at=None)
    return (rows if pk is None else rows.filter(pk=pk)).update(read_at=now)


def notices_sweep(*, now: datetime) -> int:
    """Delete notices older than RETENTION. Return the number deleted."""
    return Notice.objects.filter(created_at__lt=now - RETENTION).delete()[0]
