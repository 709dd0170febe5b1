"""Real worker processes against the test's own database."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from apps.config.celery import app

ROOT = Path(__file__).resolve().parent.parent
READY_SECONDS = 40.0


class Crew:
    """Workers of one test. Each is a process group of its own, so that a test may kill one with all its children."""

    def __init__(self, *, database: dict[str, Any], media: str) -> None:
        host = quote(str(database["HOST"]), safe="")
        self.database_url = f"postgres://{database['USER']}@{host}/{database['NAME']}"
        self.media = media
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(
        self,
        *queues: str,
        environment: dict[str, str] | None = None,
        cwd: Path | None = None,
        include: str = "",
        how: Sequence[str] = ("-c", "1"),
    ) -> subprocess.Popen[bytes]:
        """Start a worker on these queues (default: `default`) and wait until it answers; `include` adds tasks."""
        name = f"crew{os.getpid()}-{len(self.processes)}@localhost"
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "apps.config",
            "worker",
            "-n",
            name,
            *how,
            "-l",
            "WARNING",
            "-Q",
            ",".join(queues or ("default",)),
            "--without-gossip",
            "--without-mingle",
            *(["-I", include] if include else []),
        ]
        settings = {
            **os.environ,
            "DATABASE_URL": self.database_url,
            "MEDIA_ROOT": self.media,
            "PYTHONPATH": str(ROOT),
            **(environment or {}),
        }
        process = subprocess.Popen(command, cwd=cwd or ROOT, env=settings, start_new_session=True)
        self.processes.append(process)
        deadline = time.monotonic() + READY_SECONDS
        while not app.control.ping(destination=[name], timeout=0.3):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"The worker on {queues} did not start; its words are above.")
        return process

    def beat(self, folder: Path) -> subprocess.Popen[bytes]:
        """Start the scheduler, which keeps its file in `folder`."""
        command = [sys.executable, "-m", "celery", "-A", "apps.config", "beat", "-l", "WARNING", "--pidfile="]
        settings = {**os.environ, "DATABASE_URL": self.database_url, "BEAT_FILE": str(folder / "beat")}
        process = subprocess.Popen(command, cwd=ROOT, env=settings, start_new_session=True)
        self.processes.append(process)
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """`kill -9` of the worker and its children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End every worker and empty the queues."""
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
            self.kill(process)
        with app.connection_for_write() as connection, connection.channel() as channel:
            channel.client.flushdb()
