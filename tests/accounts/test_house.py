"""The house stands on what it says it stands on."""

from collections.abc import Callable

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from tests.cast import PASSWORD, Cast


def test_the_database_is_postgresql_through_psycopg2(db: None) -> None:
    connection.ensure_connection()
    assert connection.vendor == "postgresql"
    assert type(connection.connection).__module__.startswith("psycopg2")


def test_an_audit_entry_cannot_be_changed_or_deleted(cast: Cast) -> None:
    entry = AuditEntry.objects.create(at=timezone.now(), actor=cast.owner, action="sign-in")
    for change in (lambda: AuditEntry.objects.update(action="other"), entry.delete):
        with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
            change()


def test_details_of_an_audit_entry_are_written_for_readers() -> None:
    detail = {
        "until": "2026-11-23T00:00:00+00:00",
        "amount": "12.50000000000000000000",
        "most": "100.000000",
        "version": "1.10",
        "scopes": ["build", "read"],
        "seats": 10,
    }
    said = "until: 2026-11-23 00:00:00 UTC; amount: 12.5; most: 100; version: 1.10; scopes: build, read; seats: 10"
    assert AuditEntry(detail=detail).detail_text == said


def test_a_person_signs_in_with_address_and_password_whatever_the_case(cast: Cast) -> None:
    client = Client()
    response = client.post("/sign-in", {"login": cast.owner.email.upper(), "password": PASSWORD})
    assert response.status_code == 302
    assert client.session["_auth_user_id"] == str(cast.owner.pk)


def test_an_unknown_page_of_the_site_asks_an_anonymous_visitor_nothing_and_is_missing(db: None) -> None:
    assert Client().get("/no-such-page").status_code == 404


def test_the_address_is_kept_in_lower_case(db: None) -> None:
    with pytest.raises(IntegrityError):
        User.objects.create(email="Upper@example.com", name="Upper")


def test_ready_names_every_part(as_user: Callable[[User], Client], db: None) -> None:
    response = Client().get("/readyz")
    assert response.json() == {
        "status": "ready",
        "parts": {"database": "ok", "migrations": "ok", "redis": "ok", "storage": "ok", "disk": "ok"},
    }
