"""Word for others is handed on once, in order, whatever fails on the way."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils.module_loading import import_string

from apps.accounts.models import AuditEntry, Organisation
from apps.invoicing import outbox
from apps.invoicing.models import OutboxWork
from apps.invoicing.outbox import ATTEMPTS_MAX, LONGEST_PAUSE, Handler, Undeliverable, handlers_known
from apps.ledger.models import OutboxRow
from tests.cast import Cast
from tests.ledger.money import NOW, held, used

HERE = "tests.invoicing.test_outbox"
BROKEN: set[str] = set()
CALLS: list[str] = []
LOCAL = Handler("notes", ("thing.",), f"{HERE}.note")
REMOTE = Handler("calls", ("thing.", "ledger."), f"{HERE}.call", remote=True)
TABLE = (LOCAL, REMOTE)


def note(row: OutboxRow, *, now: datetime) -> None:
    """A local effect, and a failure after it when the test wants one."""
    name = str(row.payload["name"])
    AuditEntry.objects.create(at=now, organisation=row.organisation, action="thing.note", subject=name)
    if name in BROKEN:
        raise RuntimeError(f"{name} is broken")


def call(row: OutboxRow, *, now: datetime) -> None:
    """A call to a network that can be down."""
    name = str(row.payload.get("name", row.topic))
    if name in BROKEN:
        raise Undeliverable("never") if name == "hopeless" else ConnectionError("nobody answers")
    CALLS.append(name)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    BROKEN.clear()
    CALLS.clear()


def say(organisation: Organisation, *names: str) -> None:
    with transaction.atomic():
        for name in names:
            payload: dict[str, Any] = {"name": name}
            outbox.outbox_write(organisation_id=organisation.id, topic="thing.done", payload=payload, now=NOW)


def deliver(after: timedelta = timedelta()) -> int:
    return outbox.outbox_deliver(now=NOW + after, handlers=TABLE)


def noted(organisation: Organisation) -> list[str]:
    rows = AuditEntry.objects.filter(action="thing.note", organisation=organisation).order_by("id")
    return list(rows.values_list("subject", flat=True))


def test_every_handler_of_the_table_exists() -> None:
    assert [handler.name for handler in handlers_known() if not callable(import_string(handler.function))] == []
    assert len({handler.name for handler in handlers_known()}) == len(handlers_known())


@pytest.mark.django_db
def test_it_hands_on_in_order_and_once(cast: Cast) -> None:
    say(cast.organisation, "a", "b", "c")
    assert deliver() == 6  # three rows, three calls
    assert deliver() == 0
    assert noted(cast.organisation) == CALLS == ["a", "b", "c"]
    assert not OutboxRow.objects.filter(delivered_at=None).exists()


@pytest.mark.django_db
def test_what_the_ledger_posts_is_heard(cast: Cast) -> None:
    used(held(cast.organisation))
    deliver()
    assert CALLS == ["ledger.hold.place", "ledger.usage"]


@pytest.mark.django_db
def test_a_failed_effect_is_undone_and_what_follows_waits_behind_it(cast: Cast) -> None:
    BROKEN.add("b")
    say(cast.organisation, "a", "b", "c")
    say(cast.stranger_organisation, "d")
    deliver()
    assert noted(cast.organisation) == ["a"]
    assert noted(cast.stranger_organisation) == ["d"]
    assert set(CALLS) == {"a", "d"}
    say(cast.organisation, "e")
    deliver()
    assert noted(cast.organisation) == ["a"]
    BROKEN.clear()
    deliver(timedelta(seconds=4))
    assert noted(cast.organisation) == ["a"], "not before its pause is over"
    deliver(timedelta(seconds=5))
    assert noted(cast.organisation) == ["a", "b", "c", "e"]
    assert [name for name in CALLS if name != "d"] == ["a", "b", "c", "e"]
    assert not OutboxWork.objects.filter(done_at=None).exists()


@pytest.mark.django_db
def test_after_its_last_attempt_a_work_is_dead_and_the_rest_goes_on(cast: Cast) -> None:
    BROKEN.add("b")
    say(cast.organisation, "b", "c")
    clock = timedelta()
    for _ in range(ATTEMPTS_MAX):
        deliver(clock)
        clock += LONGEST_PAUSE
    dead = list(OutboxWork.objects.exclude(dead_at=None).values_list("handler", "attempts", "error"))
    assert ("notes", ATTEMPTS_MAX, "RuntimeError: b is broken") in dead
    assert ("calls", ATTEMPTS_MAX, "ConnectionError: nobody answers") in dead
    deliver(clock)
    assert (noted(cast.organisation), CALLS) == (["c"], ["c"])
    BROKEN.clear()
    for work in OutboxWork.objects.exclude(dead_at=None):
        outbox.outbox_revive(work_id=work.pk, now=NOW + clock)
    deliver(clock)
    assert (noted(cast.organisation), CALLS) == (["c", "b"], ["c", "b"])


@pytest.mark.django_db
def test_what_is_hopeless_is_not_tried_again(cast: Cast) -> None:
    BROKEN.add("hopeless")
    say(cast.organisation, "hopeless", "next")
    deliver()
    assert OutboxWork.objects.get(handler="calls", dead_at__isnull=False).error == "Undeliverable: never"
    assert CALLS == ["next"]


@pytest.mark.django_db
def test_a_clock_that_is_set_back_does_not_stop_it(cast: Cast) -> None:
    BROKEN.add("a")
    say(cast.organisation, "a")
    deliver(timedelta(days=3000))
    BROKEN.clear()
    deliver()
    assert (noted(cast.organisation), CALLS) == (["a"], ["a"])


def test_three_days_of_attempts() -> None:
    pauses = [outbox.pause_after(attempt) for attempt in range(1, ATTEMPTS_MAX)]
    assert pauses == sorted(pauses)
    assert timedelta(days=2, hours=20) < sum(pauses, timedelta()) < timedelta(days=3, hours=4)


@pytest.mark.django_db(transaction=True)
def test_word_without_its_transaction_is_refused(cast: Cast) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        outbox.outbox_write(organisation_id=cast.organisation.id, topic="thing.done", payload={}, now=NOW)


@pytest.mark.django_db(transaction=True)
def test_many_consumers_at_once_do_it_once_and_in_order(cast: Cast) -> None:
    names = [f"{number:03}" for number in range(150)]
    for organisation in (cast.organisation, cast.stranger_organisation):
        say(organisation, *names)

    def consume() -> None:
        try:
            for _ in range(4):
                deliver()
        finally:
            connection.close()

    threads = [threading.Thread(target=consume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    deliver()
    for organisation in (cast.organisation, cast.stranger_organisation):
        assert noted(organisation) == names
    assert sorted(CALLS) == sorted(names * 2)
