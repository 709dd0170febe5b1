"""A worker shows signs of life from a thread while it waits, and the thread never holds it up."""

from __future__ import annotations

import threading

import pytest
from django.db import DatabaseError, connection, transaction

from apps.accounts.beating import beating
from apps.accounts.models import Organisation

pytestmark = pytest.mark.django_db(transaction=True)


def test_it_beats_with_a_connection_of_its_own_until_the_block_ends() -> None:
    beats, enough = [], threading.Event()

    def beat() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            beats.append(cursor.fetchone()[0])
        if len(beats) >= 3:
            enough.set()

    with beating(beat, seconds=0.01):
        assert enough.wait(30)
    ended = len(beats)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone()[0] not in beats
    assert len(beats) == ended
    assert not [thread for thread in threading.enumerate() if thread.name == "beat"]


def test_a_beat_that_fails_is_tried_again() -> None:
    tries, enough = [], threading.Event()

    def beat() -> None:
        tries.append(1)
        if len(tries) >= 2:
            enough.set()
        raise DatabaseError("away")

    with beating(beat, seconds=0.01):
        assert enough.wait(30)


def test_a_row_that_the_block_has_locked_does_not_hold_it_up() -> None:
    row = Organisation.objects.create(name="Acme", slug="acme")
    tried = threading.Event()

    def beat() -> None:
        tried.set()
        Organisation.objects.filter(pk=row.pk).update(name="later")

    with transaction.atomic(), beating(beat, seconds=0.01):
        Organisation.objects.select_for_update().get(pk=row.pk)
        assert tried.wait(30)
    row.refresh_from_db()
    assert row.name in {"Acme", "later"}
