"""Fixtures that every room's tests may use."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.conf import settings
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client, TransactionTestCase, override_settings
from django.utils import timezone
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from pytest_django import Settings as SettingsWrapper
from whitenoise.middleware import WhiteNoiseMiddleware

from apps.accounts import outages
from apps.accounts.models import Organisation, User
from apps.accounts.roles import Scope
from apps.accounts.services import token_create
from apps.registry.child import child_run
from apps.registry.services import checking
from tests import workers
from tests.cast import Cast, assemble, signed_in
from tests.migrating import migrating_quickly

# How long inputs or examples take is a matter of what else the machine does: no test fails for it.
hypothesis_settings.register_profile("takt", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("takt")

if TYPE_CHECKING:
    from playwright.sync_api import Browser

COMMITTING = {"transactional_db", "live_server"}
DATABASE = {"db", *COMMITTING}
QUICK_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"

# Files that take minutes begin first, or one of two workers would be left alone with them in the end.
LONG = ("tests/e2e/test_walk.py", "tests/faults/test_money.py", "tests/upgrade/test_release.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order of files, the same in every worker, and the cast that the tests of a file share where they can."""
    items.sort(key=lambda item: LONG.index(file) if (file := file_of(item)) in LONG else len(LONG))
    files: dict[str, list[pytest.Function]] = {}  # those that commit stand behind all others
    for item in items:
        if isinstance(item, pytest.Function):
            files.setdefault(file_of(item), []).append(item)
    for of_file in files.values():
        share_cast(of_file)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def share_cast(items: list[pytest.Function]) -> None:
    """Have the tests of a file share one cast if each that uses the database asks for it and none commits or is a class of
    Django's, which closes the connection in the end."""
    using = [one for one in items if one.get_closest_marker("django_db") or DATABASE & set(one.fixturenames)]
    if any(one.get_closest_marker("alone") for one in items):
        return
    if any(one.cls and issubclass(one.cls, TransactionTestCase) for one in items) or any(map(commits, using)):
        return
    if len(using) > 1 and all("cast" in one.fixturenames for one in using):
        for one in using:
            if "shared_cast" not in one.fixturenames:
                one.fixturenames.insert(0, "shared_cast")


def commits(item: pytest.Function) -> bool:
    mark = item.get_closest_marker("django_db")
    return bool(COMMITTING & set(item.fixturenames)) or (mark is not None and bool(mark.args or mark.kwargs))


@pytest.fixture(autouse=True)
def _fast_passwords(settings: SettingsWrapper) -> None:
    """PBKDF2 is slow on purpose; the tests sign in hundreds of times."""
    settings.PASSWORD_HASHERS = [QUICK_HASHER]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that an outage cuts off tells the database so at once."""
    monkeypatch.setattr(outages, "PAUSE_SECONDS", 0.0)


@pytest.fixture(autouse=True)
def _own_media(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, settings: SettingsWrapper
) -> Iterator[None]:
    """Artefacts of one test are gone in the next. The folder is made by whoever stores one: most tests do not, and `tmp_path`
    makes one and looks at all others for its number."""
    settings.MEDIA_ROOT = str(tmp_path_factory.getbasetemp() / f"media-{uuid4().hex}")
    if "shared" in request.fixturenames:
        copytree(request.getfixturevalue("shared"), settings.MEDIA_ROOT)
    yield
    cache.clear()


@pytest.fixture(scope="module")
def shared(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A transaction around the tests of a file, and the folder of its artefacts.

    Every test of the file finds the rows that a module's fixture made: it works in a savepoint, on a copy of the artefacts
    and on copies of the objects. No test of such a file may commit.
    """
    folder = tmp_path_factory.mktemp("shared")
    around = transaction.atomic()
    around._from_testcase = True  # type: ignore[attr-defined]  # Django's own mark: durable blocks may begin within it
    with (
        django_db_blocker.unblock(),
        around,
        override_settings(MEDIA_ROOT=str(folder), PASSWORD_HASHERS=[QUICK_HASHER]),
    ):
        yield folder
        transaction.set_rollback(True)


@pytest.fixture(scope="module")
def shared_cast(shared: Path) -> Cast:
    """The cast for all tests of a file, of which `cast` hands out copies; see `share_cast`."""
    return assemble()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """The database of each worker is a copy of one that is migrated once, by whoever needs one first."""
    folder, where = Path(os.environ["TEST_FOLDER"]), connection.settings_dict
    with (folder / "migrated.lock").open("w") as lock, django_db_blocker.unblock():
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "migrated").exists():
            with connection.cursor() as cursor:
                cursor.execute("CREATE DATABASE migrated")
            connection.close()
            was, where["NAME"] = where["NAME"], "migrated"
            with migrating_quickly():
                call_command("migrate", verbosity=0)
            connection.close()
            where["NAME"] = was
            (folder / "migrated").touch()
    where["TEST"]["TEMPLATE"] = "migrated"


# What migrations fill stays. Rows are deleted: emptying a hundred tables by TRUNCATE, as Django does, makes as many files
# anew. As a replica, so that neither keys nor the guards of the ledger's history are asked.
_EMPTY = """
DO $$ DECLARE name text; BEGIN
    SET LOCAL session_replication_role = replica;
    FOR name IN SELECT format('%I', tablename) FROM pg_tables WHERE schemaname = 'public'
        AND tablename NOT IN ('django_migrations', 'django_content_type', 'auth_permission')
    LOOP EXECUTE 'DELETE FROM ' || name; END LOOP;
END $$
"""


@pytest.fixture(autouse=True, scope="session")
def _emptying() -> None:
    """Tests that commit are cleaned up after by a superuser, who may empty what nobody else may."""

    def empty(self: TransactionTestCase) -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(_EMPTY)

    TransactionTestCase._fixture_teardown = empty  # type: ignore[attr-defined]


@pytest.fixture(autouse=True, scope="session")
def _static_files_once() -> None:
    """Every client makes the middleware anew, and WhiteNoise's would look at each static file again: 15 ms a client."""
    look = WhiteNoiseMiddleware.add_files_from_finders
    known: dict[str, Any] = {}

    def add(self: WhiteNoiseMiddleware) -> None:
        if not known:
            look(self)
            known.update(self.files)
        self.files.update(known)

    WhiteNoiseMiddleware.add_files_from_finders = add


@pytest.fixture(autouse=True, scope="session")
def _samples_checked_once() -> None:
    """Hundreds of tests add a sample, and its check in a limited process takes half a second: each one is really checked the
    first time, and its result is remembered."""
    check, known = child_run, dict[bytes, str]()
    samples = {sha256(path.read_bytes()).digest() for path in (Path(__file__).parents[1] / "samples").glob("*.onnx")}

    def run(module: str, *, files: dict[str, bytes | Path], **options: Any) -> dict[str, Any]:
        model = files["model.onnx"]
        file = sha256(model.read_bytes() if isinstance(model, Path) else model).digest()
        if file not in samples:
            return check(module, files=files, **options)
        if file not in known:
            known[file] = json.dumps(check(module, files=files, **options))
        result: dict[str, Any] = json.loads(known[file])
        return result

    checking.child_run = run  # type: ignore[attr-defined, assignment]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for the tests of a file; each test opens its own profile."""
    from tests.e2e import visit

    with visit.chromium() as found:
        yield found


@pytest.fixture
def cast(request: pytest.FixtureRequest, db: None) -> Cast:
    """Owner, engineer, billing and viewer of one organisation, a stranger, an administrator."""
    if "shared_cast" in request.fixturenames:
        return deepcopy(request.getfixturevalue("shared_cast"))  # type: ignore[no-any-return]
    return assemble()


@pytest.fixture
def as_user() -> Callable[[User], Client]:
    """`as_user(cast.owner)` is a browser in which that person has signed in."""
    return signed_in


@pytest.fixture
def as_token() -> Callable[..., Client]:
    """`as_token(cast.owner, cast.organisation, Scope.READ)` sends a token with every request; None: an administrator's."""

    def with_token(user: User, organisation: Organisation | None, *scopes: Scope) -> Client:
        _, secret = token_create(user=user, organisation=organisation, name="test", scopes=scopes, now=timezone.now())
        return Client(headers={"authorization": f"Bearer {secret}"})

    return with_token


@pytest.fixture
def celery_worker(transactional_db: None) -> Iterator[workers.Crew]:
    """Real Celery workers: `celery_worker.start("compile", "pool-a")`; all end with the test."""
    crew = workers.Crew(database=connection.settings_dict, media=settings.MEDIA_ROOT)
    yield crew
    crew.stop()
