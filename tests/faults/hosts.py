"""Worker hosts as another machine would start them: `manage.py worker --pool ...`, an own folder, addresses alone."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from django.conf import settings

from apps.fleet.models import WorkerHost

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0


def wait_until(is_so: Callable[[], bool], *, seconds: float, otherwise: str) -> None:
    """Polls until it is so; fails with a sentence."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(otherwise)
        time.sleep(0.02)


def addresses() -> dict[str, str]:
    """The three things that a worker on another machine is told, and nothing else."""
    database = settings.DATABASES["default"]
    host = quote(str(database["HOST"]), safe="")
    return {
        "DATABASE_URL": f"postgres://{database['USER']}@{host}/{database['NAME']}",
        "REDIS_URL": os.environ["REDIS_URL"],
        "STORAGE_URL": Path(settings.MEDIA_ROOT).as_uri(),
    }


def _own_network() -> list[str]:
    """The prefix that gives a process a network namespace of its own, where this account may make one."""
    command = ["unshare", "--net"]
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return []
    return command if allowed else []


@dataclass
class Fleet:
    """Worker hosts of one test; each a process group of its own."""

    folder: Path
    hosts: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, name: str, *, pool: str, concurrency: int = 1) -> subprocess.Popen[bytes]:
        """Starts a host in its own working folder and network, and waits for its first heartbeat and its queue."""
        from apps.config.celery import app

        folder = self.folder / name
        folder.mkdir()
        command = [
            *_own_network(),
            sys.executable,
            str(ROOT / "manage.py"),
            "worker",
            "--pool",
            pool,
            "--name",
            name,
            "--concurrency",
            str(concurrency),
        ]
        environment = {**addresses(), "PATH": os.environ["PATH"], "VISIBILITY_SECONDS": "5"}
        process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True)
        self.hosts.append(process)
        wait_until(
            lambda: WorkerHost.objects.filter(name=name).exists() and _answers(app, name),
            seconds=READY_SECONDS,
            otherwise=f"host {name} did not start; its words are above",
        )
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """`kill -9` of the host and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """Ends every host."""
        for process in self.hosts:
            self.kill(process)


def _answers(app: object, name: str) -> bool:
    nodes = app.control.ping(timeout=0.3)  # type: ignore[attr-defined]
    return any(node.split("@")[0] == name for answer in nodes for node in answer)


@contextlib.contextmanager
def fleet_in(folder: Path) -> Iterator[Fleet]:
    """Hosts that end with the block."""
    fleet = Fleet(folder)
    try:
        yield fleet
    finally:
        fleet.stop()
