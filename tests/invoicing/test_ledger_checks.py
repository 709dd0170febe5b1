"""Checks of a customer's history: asked for, made by a worker, kept with their time, and no weaker than a whole one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.core.cache import cache
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.invoicing.ledger_checks import (
    LOST_AFTER,
    PAUSE_FACTOR,
    REQUEST_RATE,
    last_check,
    ledger_check_request,
    ledger_check_run,
    ledger_checks_make_due,
    open_check,
)
from apps.invoicing.models import LedgerCheck
from apps.invoicing.reconciliation import reconcile_all
from apps.reports.reconciling import reconciliation_request, reconciliation_run
from tests.cast import Cast
from tests.invoicing.checks import checked
from tests.invoicing.tenancy import an_invoice_of
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
AsToken = Callable[..., Client]
NOON = datetime(2031, 5, 6, 12, tzinfo=UTC)


def behind_its_back(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(sql)
        cursor.execute("SET session_replication_role = DEFAULT")


def clock() -> datetime:
    return NOON


def test_the_api_asks_answers_at_once_and_says_when_everything_was_read(
    cast: Cast,
    as_token: AsToken,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sent: list[tuple[str, str, str]] = []
    monkeypatch.setattr(
        "apps.accounts.broker.task_send",
        lambda name, *, queue, **named: sent.append((name, queue, named.get("check_id", ""))),
    )
    an_invoice_of(cast)
    client = as_token(cast.viewer, cast.organisation, Scope.READ)
    before = client.get("/api/v1/ledger").json()
    assert (before["checked_at"], before["intact"], before["transactions"], before["asked_at"]) == (None, None, 0, None)
    assert before["length"] > 0
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post("/api/v1/ledger/checks", {}, content_type="application/json")
    asked = LedgerCheck.objects.get()
    assert (answer.status_code, answer.json()["id"], answer.json()["finished_at"]) == (202, str(asked.pk), None)
    assert (asked.asked_by, sent[-1]) == (cast.viewer, ("apps.invoicing.tasks.ledger_check", "books", str(asked.pk)))
    assert client.get("/api/v1/ledger").json()["asked_at"] is not None
    ledger_check_run(check_id=asked.pk, clock=clock)
    one = client.get(f"/api/v1/ledger/checks/{asked.pk}").json()
    after = client.get("/api/v1/ledger").json()
    assert (one["intact"], one["differences"], one["checked_at"]) == (True, [], "2031-05-06T12:00:00Z")
    assert {name: after[name] for name in one if name in after and name != "asked_at"} == {
        name: one[name] for name in one if name in after and name != "asked_at"
    }
    assert (after["asked_at"], after["transactions"]) == (None, after["length"])
    assert [(sums["currency"], sums["metered"], sums["invoiced"]) for sums in after["amounts"]] == [
        ("EUR", "0.005632", "0.005632")
    ]


def test_no_request_checks_the_chain(cast: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch) -> None:
    an_invoice_of(cast)
    checked(cast)
    for name in ("apps.ledger.reconciling.chain_verify", "apps.invoicing.ledger_checks.reconcile_all"):
        monkeypatch.setattr(name, lambda *_: pytest.fail("a request checks the chain"))
    client = as_user(cast.viewer)
    assert client.get("/api/v1/ledger").json()["intact"] is True
    assert "The ledger is intact" in client.get("/portal/ledger").content.decode()


def test_a_check_finds_what_a_whole_reconciliation_finds(cast: Cast) -> None:
    run(contract := a_contract_of(cast), 3, now=timezone.now())
    run(contract, 2, now=timezone.now())
    assert checked(cast).differences == []
    behind_its_back("UPDATE ledger_usagerow SET amount = amount * 2 WHERE quantity = 3")
    found = checked(cast)
    assert found.differences == reconcile_all(cast.organisation).differences != []
    assert (found.intact, found.broken_at) == (False, 2)
    assert "its columns are not those of its rating" in found.reason


def test_what_was_right_at_an_earlier_check_is_not_believed(cast: Cast) -> None:
    """A row that was altered after a check, before everything that was posted since, is found by the next check."""
    run(contract := a_contract_of(cast), 3, now=timezone.now())
    first = checked(cast)
    run(contract, 2, now=timezone.now())
    behind_its_back("UPDATE ledger_transaction SET subject = 'another' WHERE sequence = 1")
    found = checked(cast)
    assert (first.intact, found.intact, found.broken_at) == (True, False, 1)


def test_one_check_at_a_time_and_the_answer_is_that_one(cast: Cast) -> None:
    an_invoice_of(cast)
    first = ledger_check_request(organisation=cast.organisation, actor=cast.owner, now=NOON)
    again = ledger_check_request(organisation=cast.organisation, actor=cast.viewer, now=NOON + timedelta(seconds=5))
    other = ledger_check_request(organisation=cast.stranger_organisation, actor=cast.stranger, now=NOON)
    assert first == again != other
    assert open_check(cast.organisation.pk) == first
    done = ledger_check_run(check_id=first.pk, clock=clock)
    assert ledger_check_run(check_id=first.pk, clock=lambda: NOON + timedelta(days=1)).finished_at == done.finished_at
    assert open_check(cast.organisation.pk) is None
    assert LedgerCheck.objects.count() == 2


def test_the_clock_checks_what_grew_what_was_lost_and_nothing_twice(cast: Cast) -> None:
    run(contract := a_contract_of(cast), 3, now=timezone.now())
    assert ledger_checks_make_due(now=NOON, clock=clock) == 1
    later = NOON + timedelta(hours=2)
    assert ledger_checks_make_due(now=later, clock=lambda: later) == 0  # nothing was added
    run(contract, 2, now=timezone.now())
    soon = NOON + timedelta(minutes=59)
    assert ledger_checks_make_due(now=soon, clock=lambda: soon) == 0
    assert ledger_checks_make_due(now=later, clock=lambda: later) == 1
    found = last_check(cast.organisation.pk)
    assert found is not None
    assert (found.asked_by, found.read_at, found.sequence, found.intact) == (None, later, 3, True)
    lost = ledger_check_request(organisation=cast.organisation, actor=cast.owner, now=later)
    assert ledger_checks_make_due(now=later + LOST_AFTER / 2, clock=clock) == 0
    assert ledger_checks_make_due(now=later + LOST_AFTER, clock=lambda: later + LOST_AFTER) == 1
    assert last_check(cast.organisation.pk) == lost


def test_a_long_history_is_checked_by_the_clock_a_hundredth_of_the_time(cast: Cast) -> None:
    run(contract := a_contract_of(cast), 3, now=timezone.now())
    times = iter([NOON, NOON, NOON + timedelta(minutes=5)])  # asked, read, finished
    assert ledger_checks_make_due(now=NOON, clock=lambda: next(times)) == 1
    run(contract, 2, now=timezone.now())
    due = NOON + PAUSE_FACTOR * timedelta(minutes=5)
    assert ledger_checks_make_due(now=due - timedelta(seconds=1), clock=clock) == 0
    assert ledger_checks_make_due(now=due, clock=lambda: due) == 1


def test_the_daily_reconciliation_is_a_check_of_every_organisation(cast: Cast) -> None:
    an_invoice_of(cast)
    asked = ledger_check_request(organisation=cast.organisation, actor=cast.owner, now=NOON - timedelta(seconds=1))
    reconciliation_run(run_id=reconciliation_request(asked_by=None, now=NOON).id, now=NOON)
    found = last_check(cast.organisation.pk)
    assert found == asked
    assert (found.read_at, found.intact, found.differences) == (NOON, True, [])
    assert last_check(cast.stranger_organisation.pk) is not None


def test_the_page_shows_the_last_check_and_asks_for_a_new_one(cast: Cast, as_user: AsUser) -> None:
    an_invoice_of(cast)
    browser = as_user(cast.viewer)
    assert browser.post("/portal/ledger")["Location"] == "/portal/ledger"
    page = browser.get("/portal/ledger").content.decode()
    assert "Every transaction is being checked" in page
    assert "Check the ledger now" not in page
    asked = LedgerCheck.objects.get()
    ledger_check_run(check_id=asked.pk, clock=timezone.now)
    part = browser.get("/portal/ledger", headers={"HX-Request": "true"}).content.decode()
    assert "The ledger is intact" in part
    assert "No transactions have been added since" in part
    assert "<html" not in part
    assert "hx-get" not in part  # it is finished: nobody asks again
    run(a_contract_of(cast), 1, now=timezone.now())
    assert "2 transactions were added since" in browser.get("/portal/ledger").content.decode()


def test_a_customer_cannot_keep_the_worker_busy(cast: Cast, as_token: AsToken) -> None:
    cache.clear()
    client = as_token(cast.owner, cast.organisation, Scope.READ)
    answers = [client.post("/api/v1/ledger/checks") for _ in range(REQUEST_RATE.amount + 1)]
    assert [one.status_code for one in answers] == [202] * REQUEST_RATE.amount + [429]
    assert int(answers[-1]["Retry-After"]) > 0


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE billing_ledgercheck SET differences = '[\"no\"]'",
        "DELETE FROM billing_ledgercheck",
        "UPDATE billing_ledgercheck SET read_at = now()",
        "TRUNCATE billing_ledgercheck",
    ],
)
def test_what_a_check_found_is_never_changed(cast: Cast, sql: str) -> None:
    checked(cast)
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        with pytest.raises(IntegrityError), transaction.atomic():
            cursor.execute(sql)
