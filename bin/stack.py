"""`make run`: everything of the product on one machine, each part a process of its own, all ended by one Ctrl-C."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bin.commands import ROOT, VAR, environment, held_services
from bin.logs import logs_rotate
from bin.queues import PROMPT, WORKERS
from bin.sandbox import Sandbox, sandbox_wanted
from bin.services import ServiceError, Services

READY_SECONDS = 80.0
STOP_SECONDS = 10.0
QUICK_DEATH_SECONDS = 5.0
QUICK_DEATHS_MAX = 3
MEMORY = Path("/dev/shm")  # noqa: S108 - the folder in it is ours alone
LONGEST_PAUSE_SECONDS = 8.0  # between two starts of what ends as soon as it starts
PR_SET_PDEATHSIG = 1  # linux/prctl.h
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
BACKGROUND = 10  # nice: whoever waits for a page goes before models that are checked, compiled and run
AUTOGROUP_TRIES, AUTOGROUP_SECONDS = 10, 0.03
DEMO = VAR / "demo.json"


def _begin(nice: int) -> None:
    """Called in a new process: when we are killed, so that we cannot end it, the kernel asks it to end (Linux).

    Linux weighs the sessions of processes against each other before it looks at a process's own priority: both are set.
    """
    os.nice(nice)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if nice:
            _session_nice(nice)


def _session_nice(nice: int) -> None:
    """The priority of this process's session, where the kernel weighs those."""
    with contextlib.suppress(OSError):  # a kernel that does not
        for _ in range(AUTOGROUP_TRIES):
            try:
                Path("/proc/self/autogroup").write_text(str(nice))
            except BlockingIOError:  # an ordinary user changes one in a tenth of a second
                time.sleep(AUTOGROUP_SECONDS)
            else:
                return


@dataclass
class Part:
    """One process: how it is started, how often it has died right after its start, and when it may start again."""

    name: str
    command: list[str]
    nice: int = 0  # added to the priority of this process: the higher, the later its turn
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    quick_deaths: int = 0
    not_before: float = 0.0

    @property
    def is_failing(self) -> bool:
        """It ends as soon as it starts."""
        return self.quick_deaths >= QUICK_DEATHS_MAX


class Interrupts:
    """The first signal to end raises KeyboardInterrupt; later ones are ignored, so that none cuts the ending short.

    make, timeout and a closing terminal all send more than one.
    """

    def __init__(self) -> None:
        self._is_held, self._has_come = False, False
        # SIGINT too: a shell that starts us in the background leaves it ignored.
        for number in ENDING:
            signal.signal(number, self._come)

    def _come(self, number: int, frame: FrameType | None) -> None:
        for each in ENDING:
            signal.signal(each, signal.SIG_IGN)
        self._has_come = True
        if not self._is_held:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No interrupt in here, or a process could be started that nobody knows of; it comes right afterwards."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._has_come:
            raise KeyboardInterrupt


@dataclass
class Stack:
    """The two servers, where they are ours, and the processes beside them. Their words go to var/log/<name>.log."""

    env: dict[str, str]
    interrupts: Interrupts
    parts: list[Part] = field(default_factory=list)
    servers: Services | None = None
    server_trouble: str = ""

    def start(self, name: str, *command: str, nice: int = 0) -> None:
        """Add a part and start it."""
        part = Part(name, list(command), nice)
        self.parts.append(part)
        self._launch(part)

    def _launch(self, part: Part) -> None:
        with self.interrupts.held(), self.log(part).open("ab") as log:
            part.process = subprocess.Popen(
                part.command,
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=functools.partial(_begin, part.nice),  # noqa: PLW1509 - this process has one thread
            )
        part.started = time.monotonic()

    def log(self, part: Part) -> Path:
        """Where the part writes."""
        return VAR / "log" / f"{part.name}.log"

    def tend(self) -> None:
        """Start again what has died: the servers first, since the others end without them. What dies at once waits ever
        longer between two starts, and is said to once."""
        self._servers_tend()
        for part in self.parts:
            if part.process is None or part.process.poll() is None:
                continue
            now = time.monotonic()
            if not part.not_before:
                self._note_end(part, now)
            if now >= part.not_before:
                with contextlib.suppress(ProcessLookupError):  # what it leaves would hold its port or its queue
                    os.killpg(part.process.pid, signal.SIGKILL)
                part.not_before = 0.0
                self._launch(part)

    def _note_end(self, part: Part, now: float) -> None:
        """Say that a part has ended, and when it starts again."""
        assert part.process is not None
        is_quick = now - part.started < QUICK_DEATH_SECONDS
        part.quick_deaths = part.quick_deaths + 1 if is_quick else 0
        part.not_before = now
        if part.is_failing:
            part.not_before += min(2.0 ** (part.quick_deaths - QUICK_DEATHS_MAX), LONGEST_PAUSE_SECONDS)
        if part.quick_deaths == QUICK_DEATHS_MAX:
            _say(f"{part.name} ends as soon as it starts; its words are in {self.log(part)}. It is tried again.")
        elif not part.is_failing:
            _say(f"{part.name} has ended ({part.process.returncode}) and is started again.")

    def _servers_tend(self) -> None:
        """PostgreSQL and Valkey; while one cannot start, say why once and try again at the next turn."""
        if self.servers is None:
            return
        try:
            with self.interrupts.held():
                started = self.servers.tend()
        except (ServiceError, OSError) as error:
            if str(error) != self.server_trouble:
                _say(f"A server has ended and does not start: {error} It is tried again.")
            self.server_trouble = str(error)
            return
        self.server_trouble = ""
        for name in started:
            _say(f"{name} has ended and is started again.")

    def stop(self) -> None:
        """Ask every part to end, and end those that do not."""
        for ask, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
            for part in self.parts:
                if part.process is not None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(part.process.pid, ask)
            deadline = time.monotonic() + seconds
            for part in self.parts:
                if part.process is not None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        part.process.wait(timeout=max(0.0, deadline - time.monotonic()))


def run() -> int:
    """Servers, migrations, demo data, web, workers, scheduler; returns when interrupted."""
    began = time.monotonic()
    port = _port()
    # By its name: browsers keep passkeys for localhost, and for no IP address. 127.0.0.1 answers too.
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
            _start_web(stack, port)  # beside the migrations: it is not ready before they are applied
            if sandbox is not None:
                stack.start("stripe-sandbox", *sandbox.command(f"http://127.0.0.1:{port}"))
            _prepare({**stack.env, "DATABASE_URL": addresses.database_url})
            demo = json.loads(DEMO.read_text())
            _wait_until_ready(stack, f"http://127.0.0.1:{port}")
            _start_workers(stack, demo["pools"])
            _greet(demo, time.monotonic() - began, sandbox)
            while True:
                time.sleep(1.0)
                stack.tend()
                logs_rotate(_logs())
    except KeyboardInterrupt:
        _say("stopped")
        return 0


def worker(arguments: list[str]) -> int:
    """One worker on this machine for servers that run elsewhere: DATABASE_URL and REDIS_URL name them."""
    missing = [name for name in ("DATABASE_URL", "REDIS_URL") if not os.environ.get(name)]
    if missing:
        raise ServiceError(f"Set {' and '.join(missing)} to the servers that this worker works for.")
    os.chdir(ROOT)
    os.execv(sys.executable, [sys.executable, "manage.py", "worker", *arguments])


@contextlib.contextmanager
def _alone(port: int) -> Iterator[None]:
    """Two stacks in one folder would share a scheduler's file, metrics and demo.json: the second is told of the first."""
    VAR.mkdir(parents=True, exist_ok=True)
    with (VAR / "run.lock").open("a+") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            raise ServiceError(
                f"Takt runs from {VAR} already, on port {handle.read().strip() or 'unknown'}: end that first, or choose "
                "another folder for the data: TAKT_VAR=/a/folder PORT=8001 make run"
            ) from None
        handle.truncate(0)
        handle.write(str(port))
        handle.flush()
        yield


@contextlib.contextmanager
def _stack(env: dict[str, str], interrupts: Interrupts) -> Iterator[Stack]:
    """A stack whose parts end with the block."""
    metrics = _metrics_folder()
    stack = Stack({**env, "PROMETHEUS_MULTIPROC_DIR": str(metrics), "SITE_URL": os.environ["SITE_URL"]}, interrupts)
    try:
        yield stack
    finally:
        stack.stop()
        shutil.rmtree(metrics, ignore_errors=True)


def _metrics_folder() -> Path:
    """A new folder for the counters that processes share as mapped files: in memory, where the system has such a place,
    since whoever touches a mapped page that a full disk cannot hold is killed (SIGBUS). Beside the data where it has none,
    or somebody else has taken the name."""
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
                f"Port {text} cannot be used ({error.strerror}): end what uses it, or choose another: PORT=8001 make run"
            ) from None
    return int(text)


def _prepare(env: dict[str, str]) -> None:
    """Migrations and demo data in one process, because starting Django twice takes seconds; as the tables' owner."""
    command = [sys.executable, "manage.py", "seed_demo", "--migrate", "--write", str(DEMO)]
    log = VAR / "log" / "prepare.log"
    with log.open("wb") as file:
        outcome = subprocess.run(command, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT)
    if outcome.returncode:
        last = log.read_text().strip().splitlines()[-1:] or ["it said nothing"]
        raise ServiceError(f"Migrations or demo data failed: {last[0]} (all of it: {log})")


def _start_web(stack: Stack, port: int) -> None:
    stack.start("web", *web_command(port, str(VAR)))


def web_command(port: int, folder: str) -> list[str]:
    """The web server; `folder` is for its workers' signs of life."""
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
        stack.tend()
        if time.monotonic() > deadline or stack.parts[0].is_failing:
            raise ServiceError(f"The web process does not get ready; its words are in {stack.log(stack.parts[0])}.")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310 - our own address
            return bool(response.status == 200)
    except OSError:
        return False


def _greet(demo: dict[str, str], seconds: float, sandbox: Sandbox | None) -> None:
    setup = float(os.environ.get("TAKT_SETUP_SECONDS", "0"))
    _say(
        f"Takt is ready at {demo['url']} ({seconds:.1f} s; set-up and downloads before that {setup:.1f} s)\n"
        f"  owner          {demo['email']}  {demo['password']}\n"
        f"  administrator  {demo['admin_email']}  {demo['admin_password']}\n"
        + (f"  mail           {demo['url']}/mail shows what would be sent\n" if os.environ.get("MAIL_FOLDER") else "")
        + f"  tokens and the rest in {DEMO}; logs in {VAR / 'log'}; Ctrl-C ends everything"
    )
    if sandbox is not None:
        _say(f"  Stripe's side  {sandbox.url}: a sandbox, no money moves; refund and dispute there what was paid here")


def _logs() -> list[Path]:
    """What our processes and the two servers write."""
    return [*(VAR / "log").glob("*.log"), *VAR.glob("*/server.log")]


def _say(text: str) -> None:
    print(text, flush=True)
