"""Private servers for the tests, up before Django reads its settings: `pytest -p tests.plugin`.

The controller starts one PostgreSQL and one Valkey; each xdist worker gets databases of its own in them.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from bin.services import Services

_services: Services | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Runs before pytest-django imports the settings."""
    global _services  # noqa: PLW0603 - a plugin is a module, and its state lives as long as the process
    # Hundreds of processes import the same modules: without bytecode each compiles them anew, which takes four seconds.
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the compiler itself asks for, where NumPy comes first
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None:
        folder = Path(tempfile.mkdtemp(prefix="takt-tests-", dir="/tmp"))  # a short path for sockets
        folder.chmod(0o755)  # PostgreSQL may run as another account
        _services = Services(folder, durable=False)
        addresses = _services.acquire()
        os.environ["DATABASE_URL"] = addresses.database_url
        os.environ["TEST_APPLICATION_URL"] = addresses.application_url
        os.environ["TEST_REDIS"] = addresses.redis_url
        os.environ["TEST_FOLDER"] = str(_services.folder)
    number = int(worker.removeprefix("gw")) + 1 if worker else 0
    folder = Path(os.environ["TEST_FOLDER"]) / (worker or "main")
    folder.mkdir(exist_ok=True)
    os.environ.update(
        REDIS_URL=f"{os.environ['TEST_REDIS']}?virtual_host={number}",
        SECRET_KEY="the tests' own key, never used elsewhere",
        MEDIA_ROOT=str(folder / "media"),
        MAIL_FOLDER=str(folder / "mail"),
        NEWCOMER_CREDIT="none",  # the tests that are about limits set them
        POOL_SHARE="1",
        DEMO_MONTH="0",  # tests/demo makes it
        BEAT_FILE=str(folder / "beat"),
        DEBUG="0",
        STATIC_HASHED="0",
        VISIBILITY_SECONDS="5",
        LOG_FORMAT="text",
        LOG_LEVEL="WARNING",
        DJANGO_SETTINGS_MODULE="apps.config.settings",
        DJANGO_ALLOW_ASYNC_UNSAFE="true",  # Playwright's synchronous face runs inside an event loop
    )
    if os.environ.get("STRIPE_API_KEY"):  # for tests/stripe alone, see its conftest.py
        os.environ["TEST_STRIPE_API_KEY"] = os.environ["STRIPE_API_KEY"]
        os.environ["TEST_STRIPE_API_BASE"] = os.environ.get("STRIPE_API_BASE", "")
    for name in ("STORAGE_URL", "HTTPS", "ALLOWED_HOSTS", "STRIPE_API_KEY", "STRIPE_API_BASE", "STRIPE_METER"):
        os.environ.pop(name, None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected lives as long as the process: the garbage collector need not look at it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_unconfigure() -> None:
    if _services is not None:
        _services.destroy()
