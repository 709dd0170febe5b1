"""The bell, the mail and the webhook that tell of compiles that have ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client

from apps.accounts.models import Mail, Membership, User
from apps.compilation.models import CompileJob, CompileRequest
from apps.compilation.services import request_create
from apps.ledger.models import OutboxRow
from apps.notifications.models import Notice
from apps.notifications.notices.services import compile_notices_send, notices_sweep
from tests.cast import Cast
from tests.registry.tenancy import bare_version

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
AsUser = Callable[[User], Client]
pytestmark = pytest.mark.django_db


def asked(cast: Cast, *, mail: bool = False) -> CompileRequest:
    return request_create(
        version=bare_version(cast),
        targets=["lpu", "lpu2"],
        precisions=["float32"],
        dims={},
        actor=cast.engineer,
        now=NOW,
        mail=mail,
    )


def end(request: CompileRequest, *states: str) -> None:
    for job, state in zip(request.jobs.order_by("target"), states, strict=True):
        CompileJob.objects.filter(pk=job.pk).update(state=state, finished_at=NOW)


def test_it_tells_once_when_all_have_ended(cast: Cast) -> None:
    request = asked(cast, mail=True)
    end(request, "done", "running")
    assert compile_notices_send(now=NOW) == 0
    end(request, "done", "failed")
    assert (compile_notices_send(now=NOW), compile_notices_send(now=NOW)) == (1, 0)
    (notice,) = Notice.objects.all()
    assert (notice.user, notice.path) == (cast.engineer, f"/compiles/requests/{request.pk}")
    assert notice.text.endswith("1 of 2 compiles succeeded")
    assert Mail.objects.filter(to=cast.engineer.email, subject__startswith="Compiled: ").count() == 1
    (row,) = OutboxRow.objects.filter(topic="compile.finished")
    assert (row.payload["succeeded"], row.payload["failed"], len(row.payload["compiles"])) == (1, 1, 2)


def test_a_mail_is_sent_only_if_asked_for_and_only_to_members(cast: Cast) -> None:
    quiet, left = asked(cast), asked(cast, mail=True)
    end(quiet, "done", "done")
    assert compile_notices_send(now=NOW) == 1
    assert (Mail.objects.count(), Notice.objects.count()) == (0, 1)
    Membership.objects.filter(user=cast.engineer).delete()
    end(left, "done", "done")
    assert compile_notices_send(now=NOW) == 1
    assert (Mail.objects.count(), Notice.objects.count()) == (0, 1)


def test_the_bell_counts_what_is_unread_and_leads_there(cast: Cast, as_user: AsUser) -> None:
    end(asked(cast), "done", "done")
    compile_notices_send(now=NOW)
    client, other = as_user(cast.engineer), as_user(cast.viewer)
    assert "Notifications: 1 unread" in client.get("/models").content.decode()
    assert "unread" not in other.get("/models").content.decode()
    notice = Notice.objects.get()
    assert other.post(f"/notices/{notice.pk}").status_code == 404
    assert client.post(f"/notices/{notice.pk}")["Location"] == notice.path
    assert "unread" not in client.get("/models").content.decode()
    assert "2 of 2 compiles succeeded" in client.get("/notices").content.decode()


def test_old_notices_are_deleted(cast: Cast) -> None:
    end(asked(cast), "done", "done")
    compile_notices_send(now=NOW)
    assert notices_sweep(now=NOW + timedelta(days=89)) == 0
    assert notices_sweep(now=NOW + timedelta(days=91)) == 1
