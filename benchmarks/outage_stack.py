"""A whole product of its own (`make run` in a folder of its own), whose parts are killed, taken away and filled."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DISK_MIB = 1_400
READY_SECONDS = 300.0
AWAY_SECONDS = 6.0
FREE_MIB = 64  # what the product wants free; the filling leaves less


@dataclass
class Product:
    """One running product: its folder, its address, and whether its folder is a disk of its own that can be filled."""

    folder: Path
    url: str
    process: subprocess.Popen[bytes]
    is_disk: bool

    def kill(self, part: str) -> None:
        """`kill -9` of PostgreSQL, Valkey or web; nobody starts it again but the product itself."""
        os.kill(self._pid(part), signal.SIGKILL)

    def _pid(self, part: str) -> int:
        if part == "web":
            mark = f"127.0.0.1:{self.url.rpartition(':')[2]}"
            for entry in Path("/proc").glob("[0-9]*"):
                with contextlib.suppress(OSError):
                    words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
                    if "gunicorn" in words and mark in words and os.getsid(int(entry.name)) == int(entry.name):
                        return int(entry.name)
            raise RuntimeError("no web process was found")
        name = {"PostgreSQL": "postgres/postmaster.pid", "Valkey": "valkey/valkey.pid"}[part]
        return int((self.folder / name).read_text().split()[0])

    @contextlib.contextmanager
    def storage_away(self) -> Iterator[None]:
        """The folder of the files is gone, as a mount that is lost."""
        media, aside = self.folder / "media", self.folder / "media.aside"
        media.rename(aside)
        try:
            yield
        finally:
            if media.exists():
                raise RuntimeError("somebody made a new storage while it was away")
            aside.rename(media)

    @contextlib.contextmanager
    def disk_full(self) -> Iterator[None]:
        """The disk under database, broker, files and temporary files has no byte left."""
        filling = self.folder / "filling"
        try:
            with filling.open("wb") as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 65_536)
                    file.flush()
            yield
        finally:
            filling.unlink()

    def is_ready(self) -> bool:
        """What an orchestrator would see."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:  # noqa: S310 - our own address
                return bool(answer.status == 200)
        except OSError:
            return False

    def ready_says(self) -> str:
        """The body of /readyz, whatever its status."""
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=10) as answer:  # noqa: S310 - our own address
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode(errors="replace")
        except OSError as error:
            return str(error)


def mounted(folder: Path) -> bool:
    """Makes the folder a disk of its own in memory, where this account may mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m,mode=755", "takt-faults", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def product(port: int) -> Iterator[Product]:
    """`make run` with a folder and a port of its own; everything of it is gone afterwards, also after a SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = Path(tempfile.mkdtemp(prefix="takt-outage-", dir="/tmp"))
    folder.chmod(0o755)  # PostgreSQL may run as another account
    is_disk = mounted(folder)
    (folder / "tmp").mkdir(mode=0o777)
    names = ("PATH", "HOME", "LANG")
    environment = {name: os.environ[name] for name in names if name in os.environ} | {
        "TAKT_VAR": str(folder),
        "PORT": str(port),
        "DEMO_MONTH": "0",
        "TMPDIR": str(folder / "tmp"),
        "FREE_BYTES_MIN": str(FREE_MIB << 20),
    }
    said = (folder / "said").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", "bin.commands", "run"],
        cwd=ROOT,
        env=environment,
        stdout=said,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        found = Product(folder, f"http://127.0.0.1:{port}", process, is_disk)
        wait_until(
            lambda: b"Takt is ready" in (folder / "said").read_bytes(),
            READY_SECONDS,
            lambda: (folder / "said").read_text(errors="replace"),
        )
        yield found
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=60)
        said.close()
        if keep := os.environ.get("TAKT_KEEP_LOGS"):
            shutil.copytree(folder / "log", keep, dirs_exist_ok=True)
            shutil.copy(folder / "said", keep)
        if is_disk:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def wait_until(is_so: Callable[[], bool], seconds: float, otherwise: Callable[[], str]) -> None:
    """Polls; raises TimeoutError with a sentence."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise())
        time.sleep(0.1)
