"""A migration that cannot go back is named; tests/upgrade/test_release.py takes a full database back and forwards again."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
from django.db import connection, migrations
from pytest_django import DjangoDbBlocker

from tests.upgrade.databases import applied, backward
from tests.upgrade.fixture import release


@pytest.fixture(autouse=True)
def _open(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """These tests bring databases of their own."""
    with django_db_blocker.unblock():
        yield
        connection.close()


def test_a_migration_that_cannot_go_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with release("upgrade_named"):
        last = max(name for name in applied() if name[0] == "reports")
        module = import_module(f"apps.reports.migrations.{last[1]}")
        monkeypatch.setattr(module.Migration, "operations", [migrations.RunSQL("SELECT 1")])
        with pytest.raises(AssertionError, match=rf"reports\.{last[1]} \(unapply\).*not reversible"):
            backward(applied() - {last})
