"""Migrations go back to release 0.1.0 over an empty database; tests/upgrade/test_release.py takes a full one back and
forwards again."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest
from django.db import connection, migrations
from pytest_django import DjangoDbBlocker

from tests.upgrade.databases import applied, backward, database, differences, schema
from tests.upgrade.fixture import release

# Tables of django-axes, which 0.1.0 had and no release since: a database that was made later has none, and 0.1.0's own
# `migrate` makes them, as it finds their migrations not applied.
LEFT_OUT = " axes_"


@pytest.fixture(autouse=True)
def _open(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """These tests bring databases of their own."""
    with django_db_blocker.unblock():
        yield
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_an_empty_database_goes_back() -> None:
    with release("upgrade_full"):
        then, was = applied(), schema()
    with database("upgrade_empty", like=str(connection.settings_dict["NAME"])):
        backward(then)
        assert differences(schema(), {name: text for name, text in was.items() if LEFT_OUT not in name}) == []


def test_a_migration_that_cannot_go_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with release("upgrade_named"):
        last = max(name for name in applied() if name[0] == "reports")
        module = import_module(f"apps.reports.migrations.{last[1]}")
        monkeypatch.setattr(module.Migration, "operations", [migrations.RunSQL("SELECT 1")])
        with pytest.raises(AssertionError, match=rf"reports\.{last[1]} \(unapply\).*not reversible"):
            backward(applied() - {last})
