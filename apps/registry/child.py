"""Run code on untrusted input in a child process with limits on memory, CPU time, wall time and file size.

The child is a module of this project. The child receives no secrets, works in a temporary folder, and sets its limits
before it imports any parser.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ANSWER_BYTES_MAX = 256 * 2**20
ERROR_CHARACTERS_MAX = 2_000
PREFIX = "takt-child-"
PR_SET_PDEATHSIG = 1  # linux/prctl.h
LEFT_BEHIND_SECONDS = 3600


@dataclass(frozen=True)
class Limits:
    """The limits of a child: address space in bytes, CPU time and wall time in seconds, and file size in bytes."""

    memory: int
    cpu: int
    wall: int
    file: int = 2**30


class ChildFailed(Exception):
    """Raised if the child returned no answer. `reason` is "memory", "time", "killed" or "defect". `is_wall` is True if
    the child ran out of wall time.
    """

    def __init__(self, reason: str, stderr: str = "", *, is_wall: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.stderr, self.is_wall = reason, stderr, is_wall


def limit_self(limits: Limits) -> None:
    """Set the limits of this process. A child must call this function first."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory, limits.memory))
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu, limits.cpu + 1))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file, limits.file))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def child_main(work: Callable[[Path, dict[str, Any]], dict[str, Any]]) -> None:
    """Set the limits, run `work(folder, request)` and write the answer. The folder is the first command-line argument."""
    folder = Path(sys.argv[1])
    request = json.loads((folder / "request.json").read_text())
    limit_self(Limits(**request["limits"]))
    try:
        answer = work(folder, request)
        text = json.dumps(answer)
    except MemoryError:
        os._exit(MEMORY_STATUS)
    temporary = folder / "answer.part"
    temporary.write_text(text)
    temporary.rename(folder / "answer.json")


MEMORY_STATUS = 77
BEAT_SECONDS = 5.0


class Child:
    """A running child process, which shares `folder` with its parent."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.folder, self.process, self.deadline = folder, process, deadline

    def poll(self) -> bool:
        """Return whether the child has ended. Raises ChildFailed("time") if the child is still running after its wall
        time.
        """
        if self.process.poll() is not None:
            return True
        if time.monotonic() > self.deadline:
            raise ChildFailed("time", is_wall=True)
        return False

    def wait(self, beat: Callable[[], None]) -> dict[str, Any]:
        """Wait for the child's answer, calling `beat` every few seconds. Raises ChildFailed if there is no answer."""
        while not self.poll():
            left = max(0.0, self.deadline - time.monotonic())
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=min(BEAT_SECONDS, left))
                continue
            beat()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Return the answer of a child that has ended. Raises ChildFailed with the cause, or Unavailable if the disk is
        full.
        """
        path, status = self.folder / "answer.json", self.process.returncode
        if status == 0 and path.exists() and path.stat().st_size <= ANSWER_BYTES_MAX:
            answer: dict[str, Any] = json.loads(path.read_text())
            return answer
        stderr = (self.folder / "stderr").read_text(errors="replace")[-ERROR_CHARACTERS_MAX:]
        if status == MEMORY_STATUS or "MemoryError" in stderr or "bad_alloc" in stderr:
            raise ChildFailed("memory", stderr)
        if status == -signal.SIGXCPU:
            raise ChildFailed("time", stderr)
        _disk_check(self.folder)
        raise ChildFailed("killed" if status < 0 else "defect", stderr)


@contextmanager
def child_start(
    module: str, *, request: dict[str, Any], files: Mapping[str, bytes | Path], limits: Limits
) -> Iterator[Child]:
    """Start `python -m module <folder>` with `request` and `files` in the folder. A file given as a path must be in the temporary
    folder of the system; it is linked, not copied. The child is terminated when the context ends.
    """
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        folder = Path(name)
        for filename, data in files.items():
            if isinstance(data, Path):
                (folder / filename).hardlink_to(data)
            else:
                (folder / filename).write_bytes(data)
        (folder / "request.json").write_text(json.dumps({**request, "limits": asdict(limits)}))
        with (folder / "stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", module, name],
                cwd=name,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                process_group=0,  # and in the session of its worker: Linux weighs sessions before priorities
            )
        try:
            yield Child(folder, process, time.monotonic() + limits.wall)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def child_run(
    module: str,
    *,
    request: dict[str, Any],
    files: Mapping[str, bytes | Path],
    limits: Limits,
    beat: Callable[[], None],
) -> dict[str, Any]:
    """Start a child and wait for its answer, calling `beat` every few seconds. Raises ChildFailed if there is no
    answer.
    """
    with child_start(module, request=request, files=files, limits=limits) as child:
        return child.wait(beat)


@contextmanager
def work_file() -> Iterator[Path]:
    """Give a path in a temporary folder of its own, where a large file can be put together and handed to a child."""
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        yield Path(name) / "file"


def folders_sweep() -> int:
    """Remove folders that children left behind more than an hour ago. Return the number of removed folders."""
    old = time.time() - LEFT_BEHIND_SECONDS
    found = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if path.stat().st_mtime < old]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return len(found)


def _disk_check(folder: Path) -> None:
    # A full disk is not the fault of the file or of the child.
    from django.conf import settings  # here, since the child itself imports this module and knows no Django

    from apps.accounts.outages import Unavailable
    from apps.accounts.storages import free_bytes

    if free_bytes(folder) < settings.FREE_BYTES_MIN:
        raise Unavailable("The disk for work in progress is full.")


def _environment() -> dict[str, str]:
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **threads}
