"""Databases beside the tests' own, and the migrations between an earlier release and now."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from bin.services import _postgres_programs
from tests.migrating import migrating_quickly

Name = tuple[str, str]
_CASTS = re.compile(r"::(character varying|text)(\[\])?|[()]")

# Everything that a schema is made of, by name: the order of columns may differ, since one that comes back comes last.
_SCHEMA = """
SELECT 'column ' || attrelid::regclass || '.' || attname, concat_ws(' ', format_type(atttypid, atttypmod),
    CASE WHEN attnotnull THEN 'NOT NULL' END, pg_get_expr(adbin, adrelid), attidentity)
FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p', 'v')
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE relnamespace = 'public'::regnamespace AND attnum > 0 AND NOT attisdropped
UNION ALL SELECT 'constraint ' || conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype <> 'n'
UNION ALL SELECT 'index ' || indexrelid::regclass, pg_get_indexdef(indexrelid)
FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid WHERE relnamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger ' || tgrelid::regclass || '.' || tgname, concat(pg_get_triggerdef(oid), tgenabled)
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function ' || oid::regprocedure, pg_get_functiondef(oid)
FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND prokind = 'f'
    AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
UNION ALL SELECT 'extension ' || extname, '' FROM pg_extension
"""


@contextmanager
def database(name: str, *, like: str = "") -> Iterator[None]:
    """A database of that name, empty or a copy of another, as the one that Django works with; gone afterwards."""
    was = connection.settings_dict["NAME"]
    connection.close()
    _ask(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
    if like:  # a copy needs the original alone; a server of an earlier test may still be connected to it
        _ask(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{like}'")  # noqa: S608
    _ask(f'CREATE DATABASE "{name}"' + (f' TEMPLATE "{like}"' if like else ""))
    connection.settings_dict["NAME"] = name
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = was
        _ask(f'DROP DATABASE "{name}" WITH (FORCE)')


def restore(dump: Path) -> None:
    """Read a compressed plain dump into the present database."""
    connection.close()
    _psql(str(connection.settings_dict["NAME"]), "-f", "-", given=gzip.decompress(dump.read_bytes()))


def _ask(statement: str) -> None:
    _psql("postgres", "-c", statement)


def _psql(database_name: str, *arguments: str, given: bytes | None = None) -> None:
    where: dict[str, Any] = connection.settings_dict
    command = [
        str(_postgres_programs(None, None) / "psql"),
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        str(where["HOST"]),
        "-U",
        str(where["USER"]),
        "-d",
        database_name,
        *arguments,
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    outcome = subprocess.run(command, input=given, capture_output=True, env=clean, cwd="/")
    assert outcome.returncode == 0, outcome.stderr.decode()[-2000:]


def schema() -> dict[str, str]:
    """What the present database consists of: columns, constraints, indexes, triggers, functions.

    Casts and parentheses of expressions are left out: PostgreSQL writes some otherwise after a dump was restored.
    """
    with connection.cursor() as cursor:
        cursor.execute(_SCHEMA)
        return {name: _CASTS.sub("", text) for name, text in cursor.fetchall()}


def differences(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """What the two do not have in common, each with both its texts."""
    return [
        f"{name}: {one.get(name)} | {other.get(name)}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]


def contents(*, without: frozenset[str] = frozenset()) -> dict[str, str]:
    """A digest over the rows of every table, whatever their order."""
    found: dict[str, str] = {}
    with connection.cursor() as cursor:
        for table in sorted(set(connection.introspection.table_names(cursor)) - without):
            columns = sorted(one.name for one in connection.introspection.get_table_description(cursor, table))
            row = ", ".join(f'"{column}"' for column in columns)
            cursor.execute(
                f"SELECT count(*) || ' rows ' || coalesce(md5(string_agg(line, '|' ORDER BY line)), '') "  # noqa: S608
                f'FROM (SELECT ROW({row})::text AS line FROM "{table}") AS lines'
            )
            ((found[table],),) = cursor.fetchall()
    return found


def applied() -> set[Name]:
    """The migrations that the present database records."""
    return set(MigrationRecorder(connection).applied_migrations())


def forward() -> None:
    """Migrate the present database to now."""
    executor = MigrationExecutor(connection)
    _moved(executor, list(executor.loader.graph.leaf_nodes()))


def backward(to: set[Name]) -> None:
    """Take back every migration that is not in `to`. Raises AssertionError that names the one that cannot go back."""
    executor = MigrationExecutor(connection)
    _moved(executor, _targets(executor.loader, to))
    left = applied() - to
    assert not left, f"these migrations were not taken back: {sorted(left)}"


def _targets(loader: MigrationLoader, to: set[Name]) -> list[Any]:
    """The last migration of each app that is in `to`; apps that were not there go back to nothing."""
    known = [node for node in loader.graph.nodes if node in to]
    apps = {app for app, _ in loader.graph.nodes}
    inner = {parent.key for key in known for parent in loader.graph.node_map[key].parents if parent.key[0] == key[0]}
    return [node for node in known if node not in inner] + [
        (app, None) for app in sorted(apps - {app for app, _ in known})
    ]


def _moved(executor: MigrationExecutor, targets: list[Any]) -> None:
    at: list[str] = []

    def told(action: str, migration: Any = None, fake: bool = False) -> None:
        if migration is not None and action.endswith("_start"):
            at.append(f"{migration.app_label}.{migration.name} ({action.removesuffix('_start')})")

    executor.progress_callback = told
    try:
        with migrating_quickly():
            executor.migrate(targets)
    except Exception as error:
        where = at[-1] if at else "planning"
        raise AssertionError(f"migration {where} failed: {type(error).__name__}: {error}") from error
