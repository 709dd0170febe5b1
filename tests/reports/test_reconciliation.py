"""The comparison of everything, stored for ever: no difference, or an alarm that names the rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.accounts.models import Organisation, User
from apps.accounts.roles import Scope
from apps.dispatch.models import Lease
from apps.invoicing.services import invoice_issue
from apps.ledger.models import OutboxRow, UsageRow
from apps.pricing.rating import decimal_text, exact_sum
from apps.reports.models import ReconciliationRow, ReconciliationRun
from apps.reports.reconciling import TOPIC, reconciliation_daily, reconciliation_request, reconciliation_run
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db


def dear(book: dict[str, Any]) -> None:
    book["prices"]["lpu"]["float32"] = "8000"


@pytest.fixture
def worked(cast: Cast) -> Scene:
    """Two executions of three that were contracted, invoiced."""
    scene = Scene(open_market(devices=2, change=dear), cast, timezone.now())
    scene.run(scene.job(scene.contract((scene.program(), 3)), 2))
    invoice_issue(organisation=cast.organisation, actor=None, now=scene.now + timedelta(seconds=1))
    return scene


def made(now: datetime) -> ReconciliationRun:
    return reconciliation_run(run_id=reconciliation_request(asked_by=None, now=now).id, now=now)


def behind_its_back(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(sql)
        cursor.execute("SET session_replication_role = origin")


def test_what_ran_is_what_was_invoiced(worked: Scene) -> None:
    run = made(worked.now)
    row = run.rows.get(organisation=worked.cast.organisation)
    n = UsageRow.objects.count()
    money = {"EUR": decimal_text(exact_sum(UsageRow.objects.values_list("amount", flat=True)))}
    assert [(one["name"], one["rows"], one["executions"], one["amounts"]) for one in row.stages] == [
        ("executed", n, 2, None),
        ("metered", n, 2, None),
        ("unused", 0, 0, None),
        ("used and unused", n, None, money),
        ("rated", n, None, money),
        ("posted", n, None, money),
        ("invoiced", n, None, money),
        ("not yet invoiced", 0, None, {"EUR": "0"}),
    ]
    assert (run.organisations, run.differences) == (Organisation.objects.count(), 0)
    assert not OutboxRow.objects.filter(topic=TOPIC).exists()


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("UPDATE dispatch_lease SET state = 'revoked'", "its lease did not finish"),
        (
            "UPDATE dispatch_lease SET count = count + 1 WHERE from_item = (SELECT max(from_item) FROM dispatch_lease)",
            "but its lease",
        ),
        ("UPDATE ledger_usagerow SET lease_id = gen_random_uuid()", "has no usage row"),
        ("UPDATE ledger_usagerow SET amount = amount * 2", "its steps say"),
        ("DELETE FROM billing_invoicedusage", "metered minus invoiced and open"),
    ],
)
def test_a_difference_is_an_alarm_that_names_it(worked: Scene, sql: str, said: str) -> None:
    behind_its_back(sql)
    run = made(worked.now)
    row = run.rows.get(organisation=worked.cast.organisation)
    assert any(said in sentence for sentence in row.differences)
    assert run.differences == len(row.differences) > 0
    assert OutboxRow.objects.get(topic=TOPIC).payload == {
        "run": str(run.id),
        "differences": run.differences,
        "first": row.differences[0],
    }


def test_the_day_has_one_run_and_one_that_broke_off_is_taken_up(worked: Scene) -> None:
    now = datetime(2026, 11, 24, 0, 10, tzinfo=UTC)
    broken = reconciliation_request(asked_by=None, now=now)
    done = reconciliation_daily(now=now + timedelta(hours=1))
    assert done is not None
    assert (done.id, done.differences) == (broken.id, 0)
    assert reconciliation_daily(now=now + timedelta(hours=2)) is None
    assert reconciliation_run(run_id=done.id, now=now + timedelta(hours=3)).finished_at == now + timedelta(hours=1)
    following = reconciliation_daily(now=now + timedelta(days=1))
    assert following is not None
    assert following.rows.count() == done.rows.count() == Organisation.objects.count()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE reports_reconciliationrun SET differences = 0",
        "DELETE FROM reports_reconciliationrow",
        "UPDATE reports_reconciliationrow SET differences = '[]'",
        "TRUNCATE reports_reconciliationrow",
    ],
)
def test_what_was_found_is_never_changed(worked: Scene, sql: str) -> None:
    made(worked.now)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute(sql)


def test_the_administrator_asks_reads_and_drills(
    worked: Scene,
    as_user: Callable[[User], Client],
    as_token: Callable[..., Client],
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[str] = []
    monkeypatch.setattr("apps.accounts.broker.task_send", lambda *_, run_id, **__: sent.append(run_id))
    browser = as_user(worked.cast.admin)
    assert "No reconciliation has run yet" in browser.get("/reconciliations").content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        answer = browser.post("/reconciliations")
    run = ReconciliationRun.objects.get()
    assert (answer["Location"], sent) == (f"/reconciliations/{run.id}", [str(run.id)])
    assert "Running since" in browser.get(answer["Location"]).content.decode()
    Lease.objects.update(state="revoked")
    run = reconciliation_run(run_id=run.id, now=worked.now + timedelta(seconds=2))
    assert "Resolve every difference" in browser.get(answer["Location"]).content.decode()
    rows = browser.get(f"/reconciliations/{run.id}/{worked.cast.organisation.id}").content.decode()
    for usage in UsageRow.objects.all():
        assert f"<code>{usage.idempotency_key}</code>" in rows
    assert rows.count("its lease did not finish") == UsageRow.objects.count()
    token = as_token(worked.cast.admin, None, Scope.ADMIN)
    (told,) = token.get("/api/v1/reconciliations").json()["results"]
    assert (told["id"], told["differences"]) == (str(run.id), run.differences)
    found = token.get(f"/api/v1/reconciliations/{run.id}/organisations").json()["results"]
    stored = ReconciliationRow.objects.get(run=run, organisation=worked.cast.organisation)
    assert [one["stages"] for one in found if one["differences"] == stored.differences] == [stored.stages]
    with django_capture_on_commit_callbacks(execute=True):
        asked = [
            token.post("/api/v1/reconciliations", headers={"Idempotency-Key": "once"}).json()["id"] for _ in range(2)
        ]
    assert asked[0] == asked[1] == sent[-1]
    assert ReconciliationRun.objects.count() == 2
