"""The commands `backup` and `restore` of bin/dev.py: arguments and output."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bin import backups
from bin.restores import restore
from bin.services import ServiceError, Services

CHECK = ("manage.py", "check_books")


def backup_command(arguments: Sequence[str], *, var: Path) -> int:
    """Run `backup FOLDER [--base] [--every SECONDS]`; start the servers if they do not run."""
    parser = argparse.ArgumentParser(prog="python3 bin/dev.py backup", description=backups.__doc__)
    parser.add_argument("folder", type=_path, help="the folder for the backup, best on another disk or machine")
    parser.add_argument("--base", action="store_true", help="take a new base backup now (otherwise one a day)")
    parser.add_argument("--every", type=float, metavar="SECONDS", help="repeat, with this pause between runs")
    options = parser.parse_args(arguments)
    with _embedded(var) as services:
        services.acquire()
        while True:
            said = backups.backup(services, options.folder, var=var, media=media_of(var), force_base=options.base)
            print(said, flush=True)
            if options.every is None:
                return 0
            time.sleep(options.every)


def restore_command(
    arguments: Sequence[str], *, root: Path, var: Path, environment: Callable[[], dict[str, str]]
) -> int:
    """Run `restore FOLDER [--to TIME] [--replace]`, then check every chain, account and file."""
    parser = argparse.ArgumentParser(
        prog="python3 bin/dev.py restore", description="Restore a backup, then check every chain, account and file."
    )
    parser.add_argument("folder", type=_path, help="the folder of the backup")
    parser.add_argument(
        "--to", metavar="TIME", help="the moment, such as 2026-11-22T14:30:00+00:00 (default: the last)"
    )
    parser.add_argument("--replace", action="store_true", help="rename existing data")
    options = parser.parse_args(arguments)
    with _embedded(var) as services:
        print(
            restore(services, options.folder, var=var, media=media_of(var), to=options.to, replace=options.replace),
            flush=True,
        )
        addresses = services.acquire()
        env = {**environment(), "DATABASE_URL": addresses.database_url, "REDIS_URL": addresses.redis_url}
        migrated = subprocess.run([sys.executable, "manage.py", "migrate", "--no-input", "-v", "0"], cwd=root, env=env)
        return migrated.returncode or subprocess.run([sys.executable, *CHECK], cwd=root, env=env).returncode


def media_of(var: Path) -> Path:
    """Return the folder of stored files. Raises ServiceError if they are in another kind of store."""
    url = os.environ.get("STORAGE_URL", "file")
    if url.startswith("file:///"):
        return Path(url.removeprefix("file://"))
    if url != "file":
        raise ServiceError("STORAGE_URL names a separate store: docs/operators/backup.md says how to back it up.")
    return Path(os.environ.get("MEDIA_ROOT") or var / "media")


def _path(text: str) -> Path:
    """Return a path relative to the folder in which the command was called."""
    return Path(os.environ.get("TAKT_CWD", ".")) / text


@contextmanager
def _embedded(var: Path) -> Iterator[Services]:
    if os.environ.get("DATABASE_URL"):
        raise ServiceError(
            "DATABASE_URL names your own server: docs/operators/backup.md says how to back it up and restore it."
        )
    services = Services(var)
    try:
        yield services
    finally:
        services.release()
