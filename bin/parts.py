"""The processes of `make run`: how they start, how they are watched, restarted and ended."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from bin.commands import ROOT, VAR
from bin.services import ServiceError, Services

STOP_SECONDS = 10.0
QUICK_DEATH_SECONDS = 5.0
QUICK_DEATHS_MAX = 3
LONGEST_PAUSE_SECONDS = 8.0  # between two starts of a process that ends as soon as it starts
PR_SET_PDEATHSIG = 1  # linux/prctl.h
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AUTOGROUP_TRIES, AUTOGROUP_SECONDS = 10, 0.03


def _begin(nice: int) -> None:
    """Prepare a new process: the kernel ends it when this process is killed (Linux), and its priority is lowered by `nice`.

    Linux compares the sessions of processes before their own priorities, so both are set.
    """
    os.nice(nice)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if nice:
            _session_nice(nice)


def _session_nice(nice: int) -> None:
    """Set the priority of this process's session, where the kernel has one."""
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
    """One process: its command, how often it ended right after its start, and when it may start again."""

    name: str
    command: list[str]
    nice: int = 0  # added to the priority of this process: a higher number runs later
    is_once: bool = False  # it ends when its work is done, and is restarted only when it fails
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    quick_deaths: int = 0
    not_before: float = 0.0

    @property
    def is_failing(self) -> bool:
        """Whether it ends as soon as it starts."""
        return self.quick_deaths >= QUICK_DEATHS_MAX

    @property
    def is_done(self) -> bool:
        """Whether its work is done, or failed too often."""
        return self.is_once and self.process is not None and (self.process.returncode == 0 or self.is_failing)


class Interrupts:
    """Turn the first signal to end into a KeyboardInterrupt and ignore later ones, so that shutting down completes.

    make, timeout and a closing terminal all send several.
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
        """Delay an interrupt until the block ends; else a process could start that nobody would stop."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._has_come:
            raise KeyboardInterrupt


@dataclass
class Stack:
    """The processes of one installation, and the two servers where we started them. Each logs to var/log/<name>.log."""

    env: dict[str, str]
    interrupts: Interrupts
    parts: list[Part] = field(default_factory=list)
    servers: Services | None = None
    server_trouble: str = ""

    def start(self, name: str, *command: str, nice: int = 0, is_once: bool = False) -> None:
        """Add a part and start it."""
        part = Part(name, list(command), nice, is_once)
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
        """Return the log file of a process."""
        return VAR / "log" / f"{part.name}.log"

    def restart_ended(self) -> None:
        """Restart what has ended: the servers first, because the other processes need them.

        A process that keeps ending right after its start waits longer before each new start.
        """
        self._restart_servers()
        for part in self.parts:
            if part.process is None or part.process.poll() is None or part.is_done:
                continue
            now = time.monotonic()
            if not part.not_before:
                self._note_end(part, now)
            if now >= part.not_before:
                with contextlib.suppress(ProcessLookupError):  # its children would keep its port or its queue
                    os.killpg(part.process.pid, signal.SIGKILL)
                part.not_before = 0.0
                self._launch(part)

    def _note_end(self, part: Part, now: float) -> None:
        """Report that a process has ended, and set when it may start again."""
        assert part.process is not None
        is_quick = part.is_once or now - part.started < QUICK_DEATH_SECONDS
        part.quick_deaths = part.quick_deaths + 1 if is_quick else 0
        part.not_before = now
        if part.is_failing:
            part.not_before += min(2.0 ** (part.quick_deaths - QUICK_DEATHS_MAX), LONGEST_PAUSE_SECONDS)
        if part.is_done:
            say(f"{part.name} failed {part.quick_deaths} times; see {self.log(part)}. The next start tries again.")
        elif part.quick_deaths == QUICK_DEATHS_MAX:
            say(f"{part.name} ends as soon as it starts; see {self.log(part)}. Takt keeps restarting it.")
        elif not part.is_failing:
            say(f"{part.name} ended ({part.process.returncode}) and was restarted.")

    def _restart_servers(self) -> None:
        """Restart PostgreSQL and Valkey; while one cannot start, report the reason once and try again every second."""
        if self.servers is None:
            return
        try:
            with self.interrupts.held():
                started = self.servers.restart_ended()
        except (ServiceError, OSError) as error:
            if str(error) != self.server_trouble:
                say(f"A server ended and does not start: {error} Takt keeps trying.")
            self.server_trouble = str(error)
            return
        self.server_trouble = ""
        for name in started:
            say(f"{name} ended and was restarted.")

    def stop(self) -> None:
        """Ask every process to end, and kill those that do not."""
        _end(self.parts, STOP_SECONDS)

    def restart(self, parts: Sequence[Part], seconds: float) -> None:
        """Restart some processes with their new code; one that does not end in `seconds` is killed."""
        _end(parts, seconds)
        for part in parts:
            part.quick_deaths, part.not_before = 0, 0.0
            self._launch(part)


def _end(parts: Sequence[Part], seconds: float) -> None:
    """Send SIGTERM to the processes, and SIGKILL to those that still run after `seconds`."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for part in parts:
            if part.process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(part.process.pid, number)
        deadline = time.monotonic() + seconds
        for part in parts:
            if part.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    part.process.wait(timeout=max(0.0, deadline - time.monotonic()))


def say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    print(text, flush=True)
