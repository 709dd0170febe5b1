"""`make run`: everything of the product on one machine, each part a process of its own, all ended by one Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bin.commands import ROOT, VAR, environment, held_services
from bin.logs import logs_rotate
from bin.parts import Interrupts, Stack, say
from bin.queues import PROMPT, WORKERS
from bin.reloading import Reloader, Watch
from bin.sandbox import Sandbox, sandbox_wanted
from bin.services import ServiceError

READY_SECONDS = 80.0
MEMORY = Path("/dev/shm")  # noqa: S108 - our folder in it is private
BACKGROUND = 10  # nice: requests for pages run before checks, compiles and jobs
DEMO = VAR / "demo.json"


def run(*, reload: bool = False) -> int:
    """Start servers, migrations, demo data, web, workers and scheduler; returns when interrupted.

    With `reload`, web and workers restart when a file that they have read changes (`make dev`).
    """
    began = time.monotonic()
    port = _port()
    # By name: browsers keep passkeys for localhost but not for an IP address. 127.0.0.1 works too.
    os.environ.setdefault("SITE_URL", f"http://localhost:{port}")
    if os.environ.get("EMAIL_HOST", "none") == "none":
        os.environ.setdefault("MAIL_FOLDER", str(VAR / "mail"))
    (VAR / "log").mkdir(parents=True, exist_ok=True)
    interrupts = Interrupts()
    try:
        sandbox = sandbox_wanted(dict(os.environ), port=port)
        with _alone(port), held_services() as (addresses, servers), _stack(environment(addresses), interrupts) as stack:
            stack.servers = servers
            if sandbox is not None:
                stack.env |= sandbox.settings()
            _start_web(stack, port)  # starts while migrations run, and becomes ready after them
            if sandbox is not None:
                stack.start("stripe-sandbox", *sandbox.command(f"http://127.0.0.1:{port}"))
            _prepare({**stack.env, "DATABASE_URL": addresses.database_url})
            demo = json.loads(DEMO.read_text())
            _wait_until_ready(stack, f"http://127.0.0.1:{port}")
            _start_workers(stack, demo["pools"])
            _greet(demo, time.monotonic() - began, sandbox)
            if demo["is_month_due"]:
                stack.start("sample-data", sys.executable, "manage.py", "demo_month", nice=BACKGROUND, is_once=True)
            owner_env = {**stack.env, "DATABASE_URL": addresses.database_url}
            reloader = Reloader(stack, Watch(ROOT), lambda: _prepare(owner_env)) if reload else None
            while True:
                time.sleep(1.0)
                if reloader is not None:
                    reloader.restart_changed()
                stack.restart_ended()
                logs_rotate(_logs())
    except KeyboardInterrupt:
        say("stopped")
        return 0


def worker(arguments: list[str]) -> int:
    """Run one worker here for servers elsewhere, which DATABASE_URL and REDIS_URL name."""
    missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]
    if missing:
        raise ServiceError(f"Set {' and '.join(missing)} to the servers that this worker works for.")
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "manage.py", "worker", *arguments])


@contextlib.contextmanager
def _alone(port: int) -> Iterator[None]:
    """Refuse a second stack in the same folder: both would write the scheduler's file, the metrics and demo.json."""
    VAR.mkdir(parents=True, exist_ok=True)
    with (VAR / "run.lock").open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise ServiceError(
                f"Takt already runs from {VAR}, on port {handle.read().strip() or 'unknown'}. Stop it first, or choose "
                "another folder for the data: TAKT_VAR=/a/folder PORT=8001 make run"
            ) from None
        handle.truncate(0)
        handle.write(str(port))
        handle.flush()
        yield


@contextlib.contextmanager
def _stack(env: dict[str, str], interrupts: Interrupts) -> Iterator[Stack]:
    """Yield a stack; its processes end with the block."""
    metrics = _metrics_folder()
    stack = Stack({**env, "PROMETHEUS_MULTIPROC_DIR": str(metrics), "SITE_URL": os.environ["SITE_URL"]}, interrupts)
    try:
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(metrics, ignore_errors=True)


def _metrics_folder() -> Path:
    """Make a new folder for the counters that processes share as memory-mapped files.

    It lies in memory where the system offers that: on a full disk, touching a mapped page kills the process (SIGBUS).
    Otherwise, or when another user owns the name, it lies beside the data.
    """
    name = hashlib.sha256(str(VAR.resolve()).encode()).hexdigest()[:12]
    folder, beside = MEMORY / f"takt-metrics-{os.geteuid()}-{name}", VAR / "metrics"
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700)
        return folder
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(mode=0o700, parents=True)
    return beside


def _port() -> int:
    text = os.environ.get("PORT", "8000")
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise ServiceError(f"PORT must be a number from 1 to 65535; it is {text!r}.")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(text)))
        except OSError as error:
            raise ServiceError(
                f"Port {text} cannot be used ({error.strerror}). Stop what uses it, or choose another: PORT=8001 make run"
            ) from None
    return int(text)


def _prepare(env: dict[str, str]) -> None:
    """Apply migrations and make the demo data in one process, as the owner of the tables; a second start takes seconds."""
    command = [sys.executable, "manage.py", "seed_demo", "--migrate", "--write", str(DEMO)]
    log = VAR / "log" / "prepare.log"
    with log.open("wb") as file:
        outcome = subprocess.run(command, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT)
    if outcome.returncode:
        last = log.read_text().strip().splitlines()[-1:] or ["no message"]
        raise ServiceError(f"Migrations or demo data failed: {last[0]} (full log: {log})")


def _start_web(stack: Stack, port: int) -> None:
    stack.start("web", *web_command(port, str(VAR)))


def web_command(port: int, folder: str) -> list[str]:
    """Return the command of the web server; its workers keep their heartbeat files in `folder`."""
    return [
        sys.executable,
        "-m",
        "gunicorn",
        "apps.config.wsgi",
        "-k",
        "apps.config.serving.BufferingWorker",
        "--bind",
        f"127.0.0.1:{port}",
        "--workers",
        "2",
        "--threads",
        "8",
        "--preload",
        "--no-control-socket",
        "--worker-tmp-dir",
        folder,
        "--access-logfile",
        "/dev/null",
    ]


def _start_workers(stack: Stack, pools: list[str]) -> None:
    python = sys.executable
    celery = [python, "-m", "celery", "-A", "apps.config"]
    quiet = ["-l", "INFO", "--without-gossip", "--without-mingle"]
    for queue, how in WORKERS.items():
        nice = 0 if queue in PROMPT else BACKGROUND
        stack.start(f"worker-{queue}", *celery, "worker", "-n", f"{queue}@%h", "-Q", queue, *how, *quiet, nice=nice)
    for pool in pools:
        stack.start(f"worker-pool-{pool}", python, "manage.py", "worker", "--pool", pool, nice=BACKGROUND)
    stack.start("scheduler", *celery, "beat", "-l", "WARNING", "--pidfile=")


def _wait_until_ready(stack: Stack, url: str) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while not _answers(f"{url}/readyz"):
        stack.restart_ended()
        if time.monotonic() > deadline or stack.parts[0].is_failing:
            raise ServiceError(f"The web process does not become ready; see {stack.log(stack.parts[0])}.")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except OSError:
        return False


def _greet(demo: dict[str, str], seconds: float, sandbox: Sandbox | None) -> None:
    setup = float(os.environ.get("TAKT_SETUP_SECONDS", "0"))
    say(
        f"Takt is ready at {demo['url']} ({seconds:.1f} s; set-up and downloads before that {setup:.1f} s)\n"
        f"  owner          {demo['email']}  {demo['password']}\n"
        f"  administrator  {demo['admin_email']}  {demo['admin_password']}\n"
        + (f"  mail           {demo['url']}/mail shows what would be sent\n" if os.environ.get("MAIL_FOLDER") else "")
        + f"  tokens and the rest in {DEMO}; logs in {VAR / 'log'}; Ctrl-C ends everything"
    )
    if sandbox is not None:
        say(f"  Stripe's side  {sandbox.url}: a sandbox, no money moves; refund and dispute payments there")


def _logs() -> list[Path]:
    """Return the log files of our processes and of the two servers."""
    return [*(VAR / "log").glob("*.log"), *VAR.glob("*/server.log")]
