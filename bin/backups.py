"""`bin/dev.py backup FOLDER`: the database with every moment since, and the storage that belongs to it.

The first run takes a base backup and keeps a replication slot, so that the server holds back its log (WAL) until the next
run has fetched it; later runs fetch the log and copy new files, which takes seconds, and take a new base backup once a day.
Any moment between the oldest base backup and the last run can be restored.

A file is stored before the row that names it is committed. Each run therefore notes the moment first, then copies the
storage, then fetches the log: at every moment up to the one noted, no row names a file that the backup does not have.
"""

from __future__ import annotations

import contextlib
import fcntl
import gzip
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bin.services import ServiceError, Services, postgres_programs

SLOT = "takt_backup"
BASE_EVERY = timedelta(days=1)
KEEP_DAYS = 14
STAMP = "%Y%m%dT%H%M%S.%fZ"
SEGMENT = re.compile(r"[0-9A-F]{24}")
KEPT_FILES = ("secret_key", "demo.json")  # what `var/` holds beside the data; both are readable by their owner alone


@dataclass(frozen=True)
class Base:
    """A base backup. `continues`: the log reaches back to the previous base backup without a gap."""

    name: str
    at: str  # when it was complete: the first moment that can be restored from it
    continues: bool


@dataclass(frozen=True)
class Mark:
    """A moment up to which the log and the storage are complete."""

    at: str


class Place:
    """The folder of a backup: `base/`, `wal/`, `storage/`, `kept/`, and two lists with one line of JSON for each entry."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.base, self.wal, self.storage, self.kept = (
            self.folder / name for name in ("base", "wal", "storage", "kept")
        )

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Allow one run at a time. Only the owner may enter the folder, since it contains everything in clear."""
        try:
            for path in (self.folder, self.base, self.wal, self.storage, self.kept):
                path.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
        except OSError as error:
            raise ServiceError(f"{self.folder} cannot hold a backup ({error.strerror}); name another folder.") from None
        with (self.folder / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ServiceError(f"Another backup or restore is running in {self.folder}; wait for it.") from None
            yield

    def bases(self) -> list[Base]:
        """Return every base backup, oldest first."""
        return [Base(**one) for one in self._lines("bases.jsonl")]

    def marks(self) -> list[Mark]:
        """Return every noted moment, oldest first."""
        return [Mark(**one) for one in self._lines("marks.jsonl")]

    def add(self, entry: Base | Mark) -> None:
        """Add an entry to its list durably."""
        with self._list_of(entry).open("a") as file:
            file.write(json.dumps(asdict(entry)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def forget(self, bases: list[Base]) -> None:
        """Remove base backups from the list, then from the disk."""
        left = [one for one in self.bases() if one not in bases]
        _replace(self.folder / "bases.jsonl", "".join(json.dumps(asdict(one)) + "\n" for one in left))
        for one in bases:
            shutil.rmtree(self.base / one.name, ignore_errors=True)

    def _list_of(self, entry: Base | Mark) -> Path:
        return self.folder / ("bases.jsonl" if isinstance(entry, Base) else "marks.jsonl")

    def _lines(self, name: str) -> list[dict[str, Any]]:
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        return []


class Source:
    """The running server to back up."""

    def __init__(self, services: Services) -> None:
        self.programs = postgres_programs(services)
        self.where = ["-h", str(services.sockets), "-U", "app"]

    def ask(self, statement: str) -> str:
        """One value."""
        return self.run("psql", *self.where, "-d", "postgres", "-Atqc", statement).strip()

    def run(self, program: str, *arguments: str) -> str:
        """Run a program of PostgreSQL. Raises ServiceError with its last lines."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        outcome = subprocess.run(
            [str(self.programs / program), *arguments], env=clean, cwd="/", capture_output=True, text=True
        )
        if outcome.returncode:
            raise ServiceError(f"{program} failed: {' '.join(outcome.stderr.strip().splitlines()[-2:])}")
        return outcome.stdout


def backup(services: Services, folder: Path, *, var: Path, media: Path, force_base: bool = False) -> str:
    """Bring the backup in `folder` up to date; return a sentence about it. Raises ServiceError."""
    place = Place(folder)
    if place.folder.is_relative_to(media.absolute()) or place.folder.is_relative_to(services.folder / "postgres"):
        raise ServiceError(f"{folder} is inside the data to back up; choose another folder, best on another disk.")
    source, now = Source(services), datetime.now(UTC)
    with place.alone():
        is_held = _slot_hold(source)
        bases = place.bases()
        is_old = not bases or now - datetime.fromisoformat(bases[-1].at) > BASE_EVERY
        if force_base or is_old or not is_held:
            place.add(_base_take(source, place, continues=is_held and bool(bases)))
        mark = Mark(_clock(source))
        copied = storage_copy(media, place.storage)
        _kept_copy(var, place.kept)
        _log_fetch(source, place)
        place.add(mark)
        _prune(place, now)
        since = place.bases()[0].at
    return f"Backed up to {place.folder}: {copied:,} new files; any moment from {since} to {mark.at} can be restored."


def _clock(source: Source) -> str:
    stamp = source.ask("SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')")
    return f"{stamp}+00:00"


def _slot_hold(source: Source) -> bool:
    """Return whether the server has kept its log since the previous run; from now on it does."""
    status = source.ask(f"SELECT wal_status FROM pg_replication_slots WHERE slot_name = '{SLOT}'")  # noqa: S608
    if status in {"reserved", "extended", "unreserved"}:
        return True
    if status:
        source.ask(f"SELECT pg_drop_replication_slot('{SLOT}')")
    source.ask(f"SELECT pg_create_physical_replication_slot('{SLOT}', true)")
    return False


def _base_take(source: Source, place: Place, *, continues: bool) -> Base:
    """Take a compressed copy of the data folder, with the log that completes it."""
    name = datetime.now(UTC).strftime(STAMP)
    draft = place.base / f"{name}.draft"
    source.run(
        "pg_basebackup", *source.where, "-D", str(draft), "-Ft", "-z", "-X", "fetch", "-c", "fast", "-l", f"takt {name}"
    )
    draft.rename(place.base / name)
    return Base(name, _clock(source), continues)


def _log_fetch(source: Source, place: Place) -> None:
    """Note a moment that includes everything committed so far.

    Two commits: recovery needs to see one that is later than the mark, and the second lets the receiver know that it has
    passed the first.
    """
    nudge = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'takt', 'backup')"
    source.ask(nudge)
    end = source.ask("SELECT pg_current_wal_flush_lsn()")
    source.ask(nudge)
    source.run(
        "pg_receivewal",
        *source.where,
        "-D",
        str(place.wal),
        "-S",
        SLOT,
        "--endpos",
        end,
        "--no-loop",
        "--synchronous",
    )
    # Compressed only when it is complete: the receiver writes over the last one again, from its beginning.
    for path in place.wal.iterdir():
        if SEGMENT.fullmatch(path.name):
            draft = path.with_name(f"{path.name}.draft")
            with path.open("rb") as file, gzip.open(draft, "wb", compresslevel=1) as packed:
                shutil.copyfileobj(file, packed)
            draft.replace(path.with_name(f"{path.name}.gz"))
            path.unlink()


def storage_copy(source: Path, to: Path) -> int:
    """Copy the files that `to` lacks; files deleted from the source stay there. Returns the number of copies."""
    copied = 0
    for folder, _, names in os.walk(source):
        for name in names:
            path = Path(folder) / name
            target = to / path.relative_to(source)
            with contextlib.suppress(FileNotFoundError):  # deleted since the folder was read
                if not _same(path, target):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    draft = target.with_name(f".{target.name}.draft")
                    shutil.copy2(path, draft)
                    draft.replace(target)
                    copied += 1
    return copied


def _same(path: Path, target: Path) -> bool:
    is_there = path.stat()
    with contextlib.suppress(FileNotFoundError):
        known = target.stat()
        return (is_there.st_size, is_there.st_mtime_ns) == (known.st_size, known.st_mtime_ns)
    return False


def _kept_copy(var: Path, to: Path) -> None:
    for name in KEPT_FILES:
        with contextlib.suppress(FileNotFoundError):
            shutil.copy2(var / name, to / name)


def _prune(place: Place, now: datetime) -> None:
    """Remove base backups that no moment of the last KEEP_DAYS needs, and the log before the oldest that is left."""
    bases = place.bases()
    limit = now - timedelta(days=KEEP_DAYS)
    needed = max((n for n, one in enumerate(bases) if datetime.fromisoformat(one.at) <= limit), default=0)
    if needed:
        place.forget(bases[:needed])
    for draft in place.base.glob("*.draft"):
        shutil.rmtree(draft)
    first = _first_segment(place.base / bases[needed].name)
    for path in place.wal.iterdir():
        if SEGMENT.match(path.name) and path.name[8:24] < first[8:]:
            path.unlink()


def _first_segment(base: Path) -> str:
    """Return the first log file of a base backup, which only its label names."""
    import tarfile

    with tarfile.open(base / "base.tar.gz") as archive:
        label = archive.extractfile("backup_label")  # the first file of the archive
        found = re.search(rb"file ([0-9A-F]{24})", label.read() if label else b"")
    if found is None:
        raise ServiceError(f"{base} is not a whole base backup: its label is missing.")
    return found[1].decode()


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)
