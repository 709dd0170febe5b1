"""`bin/dev.py restore FOLDER`: restores a backup (bin/backups.py) to a moment, on a machine without data."""

from __future__ import annotations

import gzip
import os
import shutil
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bin.archives import unpack
from bin.backups import KEPT_FILES, SEGMENT, Base, Place, Source, storage_copy
from bin.services import ServiceError, Services

RECOVERY_SECONDS = 3600.0
SETTINGS = ("restore_command", "recovery_target_time", "recovery_target_action", "recovery_target_timeline")


def restore(services: Services, folder: Path, *, var: Path, media: Path, to: str | None, replace: bool) -> str:
    """Restore the data as they were at `to` (ISO 8601; by default the last moment of the backup); return a sentence.

    The servers keep running. Raises ServiceError if there are data already, or the moment is not in the backup.
    """
    place = Place(folder)
    if not place.bases():
        raise ServiceError(f"There is no backup in {folder}.")
    with place.alone():
        base, at = base_for(place, to)
        _put_aside(services, media, replace=replace)
        data, log = services.folder / "postgres", services.folder / "restore-wal"
        _data_unpack(place.base / base.name, data)
        _log_unpack(place, log)
        _recovery_ask(data, log, at)
        _own(services, data, log)
        storage_copy(place.storage, media)
        _kept_restore(place, var)
    services.acquire()
    source = Source(services)
    recovered(source)
    for name in SETTINGS:
        source.ask(f"ALTER SYSTEM RESET {name}")
    shutil.rmtree(log)
    return f"Restored {place.folder} as it was at {at.isoformat()}."


def base_for(place: Place, to: str | None) -> tuple[Base, datetime]:
    """Return the base backup from which a moment can be restored, and the moment.

    Raises ServiceError if it lies outside the backup, or in a gap of its log.
    """
    bases, marks = place.bases(), place.marks()
    if not marks:
        raise ServiceError(f"No backup in {place.folder} was ever completed.")
    at = _instant(to) if to else datetime.fromisoformat(marks[-1].at)
    earlier = [one for one in bases if datetime.fromisoformat(one.at) <= at]
    mark = next((one for one in marks if datetime.fromisoformat(one.at) >= at), None)
    is_within = bool(earlier) and mark is not None
    if mark is not None and earlier and _is_continuous(bases[len(earlier) :], until=mark.at):
        return earlier[-1], at
    raise ServiceError(
        f"{at.isoformat()} cannot be restored: the backup reaches from {bases[0].at} to {marks[-1].at}"
        + (", with a gap there." if is_within else ".")
    )


def _is_continuous(later: Sequence[Base], *, until: str) -> bool:
    """Whether the log has no gap between a base backup and a moment: every later base up to then continues it."""
    return all(one.continues for one in later if one.at <= until)


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ServiceError(f"--to takes a moment such as 2026-11-22T14:30:00+00:00; it is {text!r}.") from None
    return at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)


def _put_aside(services: Services, media: Path, *, replace: bool) -> None:
    """Rename existing data with `replace`; nothing is ever deleted."""
    there = [path for path in (services.folder / "postgres", services.folder / "valkey", media) if _is_filled(path)]
    if there and not replace:
        names = ", ".join(map(str, there))
        raise ServiceError(f"There are data already: {names}. Stop Takt and add --replace to rename them.")
    if services.is_running():
        raise ServiceError(
            "PostgreSQL is running on these data: stop `make run` and everything else that uses it first."
        )
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    for path in there:
        path.rename(path.with_name(f"{path.name}.before-restore-{stamp}"))


def _is_filled(path: Path) -> bool:
    return path.is_dir() and any(path.iterdir())


def _data_unpack(base: Path, data: Path) -> None:
    data.mkdir(parents=True, exist_ok=True)
    unpack(base / "base.tar.gz", data)
    data.chmod(0o700)


def _log_unpack(place: Place, log: Path) -> None:
    """Unpack every segment, also the last one, which was still being written."""
    shutil.rmtree(log, ignore_errors=True)
    log.mkdir(parents=True)
    for path in sorted(place.wal.iterdir()):
        if path.suffix == ".gz":
            with (log / path.stem).open("wb") as file, gzip.open(path) as packed:
                shutil.copyfileobj(packed, file)
        elif SEGMENT.match(path.name) or path.suffix == ".history":
            shutil.copy(path, log / path.name.removesuffix(".partial"))


def _recovery_ask(data: Path, log: Path, at: datetime) -> None:
    values = (f'cp "{log}/%f" "%p"', at.isoformat(), "promote", "current")
    with (data / "postgresql.auto.conf").open("a") as file:
        for name, value in zip(SETTINGS, values, strict=True):
            file.write(f"{name} = '{value}'\n")
    (data / "recovery.signal").touch()


def _own(services: Services, *folders: Path) -> None:
    """Give the files to the account that runs the server, which is another one when root starts it."""
    if services.account is None:
        return
    for folder in folders:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, services.account.pw_uid, services.account.pw_gid, follow_symlinks=False)


def _kept_restore(place: Place, var: Path) -> None:
    for name in KEPT_FILES:
        if (place.kept / name).exists() and not (var / name).exists():
            shutil.copy2(place.kept / name, var / name)


def recovered(source: Source) -> None:
    """Wait until the server has read its log and accepts writes. Raises ServiceError."""
    deadline = time.monotonic() + RECOVERY_SECONDS
    while source.ask("SELECT pg_is_in_recovery()") != "f":
        if time.monotonic() > deadline:
            raise ServiceError("PostgreSQL has not finished reading its log; its server.log says how far it is.")
        time.sleep(0.1)
