"""The whole product in real processes, in a folder of its own: servers, web, workers of every queue and pool, scheduler."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2

from bin.queues import WORKERS
from bin.services import Addresses, Services
from tests.tiers import WHOLE

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0
VALKEY = 9  # the tests' own workers have the databases from 0 on
WORKER = "apps.config.serving.BufferingWorker"


@dataclass
class Product:
    """A running product: its address, the demo people and tokens, and where its processes write."""

    url: str
    demo: dict[str, Any]
    folder: Path
    environment: dict[str, str]
    processes: dict[str, subprocess.Popen[bytes]]

    def start(self, name: str, *command: str) -> None:
        """Start a process of the product; its words go to <folder>/<name>.log."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def log(self, name: str) -> str:
        """What a process has written."""
        return (self.folder / f"{name}.log").read_text(errors="replace")


@contextmanager
def running_product(*, copy_of: str = "") -> Iterator[Product]:
    """Everything that `make run` starts, with data of its own, gone afterwards. Unless the whole of the tests runs, queues share
    processes.

    `copy_of`: a migrated database on the server of the tests. The product then works with a copy of it there; by default it has
    servers of its own, where all migrations run.
    """
    folder = Path(tempfile.mkdtemp(prefix="takt-e2e-", dir="/tmp"))  # a short path, for sockets
    folder.chmod(0o755)  # PostgreSQL may run as another account
    product: Product | None = None
    try:
        with _copied(copy_of) if copy_of else _servers(folder / "s") as addresses:
            port = _free_port()
            product = Product(f"http://localhost:{port}", {}, folder, _environment(folder, port, addresses), {})
            try:
                _start(product, port, owner=addresses.database_url)
                yield product
            finally:
                _stop(product)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _servers(folder: Path) -> Iterator[Addresses]:
    servers = Services(folder, durable=False)
    try:
        yield servers.acquire()
    finally:
        servers.destroy()


@contextmanager
def _copied(database: str) -> Iterator[Addresses]:
    """A copy of a database of the tests' server, and a database of their Valkey that no worker of the tests has."""
    name, tests = f"e2e_{os.getpid()}", os.environ["DATABASE_URL"]
    server = tests.rpartition("/")[0]
    _ask(server, f"CREATE DATABASE {name} TEMPLATE {database}")
    application = os.environ["TEST_APPLICATION_URL"].rpartition("/")[0]
    try:
        yield Addresses(
            f"{server}/{name}", f"{os.environ['TEST_REDIS']}?virtual_host={VALKEY}", f"{application}/{name}"
        )
    finally:
        _ask(server, f"DROP DATABASE {name} WITH (FORCE)")


def _ask(server: str, statement: str) -> None:
    connection = psycopg2.connect(f"{server}/postgres".replace("postgres://", "postgresql://", 1))
    connection.autocommit = True  # databases are neither made nor dropped in a transaction
    with connection.cursor() as cursor:
        cursor.execute(statement)
    connection.close()


def _environment(folder: Path, port: int, addresses: Addresses) -> dict[str, str]:
    left_out = {"STORAGE_URL", "HTTPS", "ALLOWED_HOSTS"}
    return {
        **{name: value for name, value in os.environ.items() if name not in left_out},
        "DATABASE_URL": addresses.application_url,
        "REDIS_URL": addresses.redis_url,
        "SECRET_KEY": "of the browser tests",
        "DJANGO_SETTINGS_MODULE": "apps.config.settings",
        "MEDIA_ROOT": str(folder / "media"),
        "MAIL_FOLDER": str(folder / "mail"),
        "BEAT_FILE": str(folder / "beat"),
        "SITE_URL": f"http://localhost:{port}",
        "LOG_FORMAT": "text",
        "LOG_LEVEL": "WARNING",
        "DEBUG": "0",
        "STATIC_HASHED": "0",
    }


def _start(product: Product, port: int, *, owner: str) -> None:
    python = sys.executable
    seed = [python, "manage.py", "seed_demo", "--migrate", "--write", str(product.folder / "demo.json")]
    migrating = {**product.environment, "DATABASE_URL": owner}
    subprocess.run(seed, cwd=ROOT, env=migrating, check=True, stdout=subprocess.DEVNULL)
    product.demo = json.loads((product.folder / "demo.json").read_text())
    celery = (python, "-m", "celery", "-A", "apps.config")
    quiet = ("-l", "WARNING", "--without-gossip", "--without-mingle")
    web = (python, "-m", "gunicorn", "apps.config.wsgi", "-k", WORKER, "--bind", f"127.0.0.1:{port}", "--threads", "6")
    product.start("web", *web)
    for queue, how in (WORKERS if WHOLE else _fewer(WORKERS)).items():
        product.start(queue, *celery, "worker", "-n", f"{queue.partition(',')[0]}@%h", "-Q", queue, *how, *quiet)
    for pool in product.demo["pools"]:
        product.start(pool, python, "manage.py", "worker", "--pool", pool)
    product.start("scheduler", *celery, "beat", "-l", "WARNING", "--pidfile=")
    deadline = time.monotonic() + READY_SECONDS
    while not _answers(f"{product.url}/readyz"):
        if time.monotonic() > deadline or product.processes["web"].poll() is not None:
            raise RuntimeError(f"The web process does not get ready: {product.log('web')[-2000:]}")
        time.sleep(0.2)


def _fewer(workers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """One process for all queues that are worked on in threads: each takes two seconds to start."""
    threads = {queue: int(how[-1]) for queue, how in workers.items() if "threads" in how}
    assert len(threads) > 1
    rest = {queue: how for queue, how in workers.items() if queue not in threads}
    return {**rest, ",".join(threads): ("-P", "threads", "-c", str(sum(threads.values())))}


def _stop(product: Product) -> None:
    for process in product.processes.values():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + 8
    for process in product.processes.values():
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
        return bool(answer.status == 200)
    return False
