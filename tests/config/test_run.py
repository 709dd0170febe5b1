"""`make run` as a person uses it: one command, everything up; one Ctrl-C, everything down; the data stay."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from apps.fleet.seed import demo_fleet
from bin.queues import WORKERS

POOLS = [slug for slug, pool in demo_fleet().pools.items() if not pool.is_host]
PARTS = {"web", "scheduler", *(f"worker-{queue}" for queue in WORKERS), *(f"worker-pool-{slug}" for slug in POOLS)}
PATIENCE = 120.0


@pytest.fixture
def run() -> Iterator[Callable[[], Run]]:
    """`run()` is one `make run`; all share a folder, and none outlives the test."""
    started: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="takt-run-", dir="/tmp") as name:
        Path(name).chmod(0o755)

        def start() -> Run:
            started.append(Run(Path(name)))
            return started[-1]

        yield start
        for one in started:
            if one.process.poll() is None:
                one.process.terminate()
                one.process.wait(timeout=PATIENCE)


class Run:
    """One `make run` with a folder and a port of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        names = ("PATH", "HOME", "LANG")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bin.commands", "run"],
            cwd=settings.BASE_DIR,
            env=environment | {"TAKT_VAR": str(folder), "PORT": str(port), "DEMO_MONTH": "0"},
            stdout=(folder / "said").open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def said(self) -> str:
        return (self.folder / "said").read_text()

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < deadline, self.said()
            assert self.process.poll() is None, self.said()
            time.sleep(0.1)

    def demo(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "demo.json").read_text())
        return found

    def get(self, path: str) -> Any:
        request = urllib.request.Request(
            self.demo()["url"] + path, headers={"Authorization": f"Bearer {self.demo()['token']}"}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def processes(self) -> dict[int, str]:
        """Every living process of this run, the servers too: they all know its folder."""
        mark = f"TAKT_VAR={self.folder}".encode()
        found = {}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                except (FileNotFoundError, PermissionError, ProcessLookupError):
                    continue
        return found

    def interrupt(self) -> None:
        """As make and a closing terminal do it: the same wish several times within a moment."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGTERM, signal.SIGHUP):
            self.process.send_signal(number)
            time.sleep(0.05)
        assert self.process.wait(timeout=PATIENCE) == 0


def test_one_command_starts_everything_tends_it_and_ends_it_and_the_data_stay(run: Callable[[], Run]) -> None:
    first = run()
    first.wait_until(lambda: "Takt is ready" in first.said())
    assert first.get("/readyz")["status"] == "ready"
    assert first.get("/api/v1/me")["role"] == "owner"
    assert first.demo()["password"] in first.said()
    first.wait_until(lambda: {path.stem for path in (first.folder / "log").iterdir()} >= PARTS)

    def compile_workers() -> set[int]:
        return {pid for pid, command in first.processes().items() if "-Q compile" in command}

    first.wait_until(lambda: len(compile_workers()) > 0)
    killed = compile_workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    first.wait_until(lambda: len(compile_workers() - killed) > 0)
    assert "worker-compile ended (-9) and was restarted." in first.said()

    def ready() -> bool:
        try:
            return bool(first.get("/readyz")["status"] == "ready")
        except OSError:
            return False

    for name, pid_file in (("PostgreSQL", "postgres/postmaster.pid"), ("Valkey", "valkey/valkey.pid")):
        os.kill(int((first.folder / pid_file).read_text().split()[0]), signal.SIGKILL)
        first.wait_until(lambda said=f"{name} ended and was restarted.": said in first.said())
    first.wait_until(ready)
    web = next(pid for pid, command in first.processes().items() if "gunicorn" in command and os.getsid(pid) == pid)
    os.kill(web, signal.SIGKILL)
    first.wait_until(lambda: "web ended (-9) and was restarted." in first.said())
    first.wait_until(ready)
    assert first.get("/api/v1/me")["role"] == "owner"

    before = first.demo()
    first.interrupt()
    assert first.processes() == {}

    second = run()
    second.wait_until(lambda: "Takt is ready" in second.said())
    kept = ("email", "password", "token", "admin_email", "admin_password", "admin_token")
    assert {name: second.demo()[name] for name in kept} == {name: before[name] for name in kept}
    second.interrupt()
    assert second.processes() == {}
