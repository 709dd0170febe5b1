"""Backup and restore of the embedded servers: to the last moment and to an earlier one, with the files that rows name."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bin.backups import Base, Mark, Place, Source, backup
from bin.restores import base_for, recovered, restore
from bin.services import ServiceError, Services, postgres_programs

DOCKER = Path(__file__).parents[2] / "docker"


@dataclass
class Machine:
    """Servers with one table of documents, each with its file."""

    root: Path

    def __post_init__(self) -> None:
        self.var, self.kept = self.root / "var", self.root / "kept"
        self.media = self.var / "media"
        self.services = Services(self.var, durable=False)

    def ask(self, statement: str) -> str:
        source = Source(self.services)
        return source.run("psql", *source.where, "-d", "takt", "-Atqc", statement).strip()

    def add(self, name: str) -> None:
        """A file first, then the row that names it, as the product does."""
        self.media.mkdir(parents=True, exist_ok=True)
        (self.media / name).write_text(name)
        self.ask(f"INSERT INTO document VALUES ('{name}')")  # noqa: S608

    def documents(self) -> list[str]:
        """Every row, whose file must be there."""
        names = self.ask("SELECT name FROM document ORDER BY name").split()
        assert [name for name in names if (self.media / name).read_text() != name] == []
        return names

    def back_up(self) -> str:
        return backup(self.services, self.kept, var=self.var, media=self.media)

    def lose(self) -> None:
        """The machine is gone; another takes its place."""
        self.services.destroy()
        shutil.rmtree(self.var, ignore_errors=True)
        self.services = Services(self.var, durable=False)

    def restore(self, *, to: str | None = None, replace: bool = False) -> None:
        restore(self.services, self.kept, var=self.var, media=self.media, to=to, replace=replace)


@pytest.fixture
def machine() -> Iterator[Machine]:
    root = Path(tempfile.mkdtemp(prefix="takt-kept-", dir="/tmp"))  # a short path for sockets
    root.chmod(0o755)
    made = Machine(root)
    try:
        made.services.acquire()
        made.ask("CREATE TABLE document (name text)")
        yield made
    finally:
        made.services.destroy()
        shutil.rmtree(root, ignore_errors=True)


def test_what_was_backed_up_comes_back_to_any_moment(machine: Machine) -> None:
    machine.add("first")
    assert "any moment from" in machine.back_up()
    machine.add("second")
    between = datetime.now(UTC).isoformat()
    machine.add("third")
    (machine.media / "first").unlink()  # deleted by its owner after the first backup, before the second
    machine.ask("DELETE FROM document WHERE name = 'first'")
    machine.back_up()
    machine.add("lost")
    machine.lose()
    machine.restore()
    assert machine.documents() == ["second", "third"]
    machine.lose()
    machine.restore(to=between)
    assert machine.documents() == ["first", "second"], "with the file that was deleted since"
    with pytest.raises(ServiceError, match="There are data already"):
        machine.restore()


def test_a_folder_that_cannot_hold_a_backup_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceError, match="file/here cannot hold a backup"), Place(tmp_path / "file" / "here").alone():
        pass


def test_a_moment_that_is_not_in_the_backup_is_refused(tmp_path: Path) -> None:
    place = Place(tmp_path)
    hours = [datetime(2026, 11, 22, hour, tzinfo=UTC) for hour in range(12)]
    with pytest.raises(ServiceError, match="ever completed"):
        base_for(place, None)
    for entry in (
        Base("a", hours[1].isoformat(), continues=False),
        Mark(hours[2].isoformat()),
        Mark(hours[4].isoformat()),
        Base("b", hours[6].isoformat(), continues=False),
        Mark(hours[7].isoformat()),
        Base("c", hours[8].isoformat(), continues=True),
        Mark(hours[10].isoformat()),
    ):
        place.add(entry)
    assert base_for(place, None)[0].name == "c"
    named = {hour: base_for(place, hours[hour].isoformat())[0].name for hour in (1, 3, 4, 6, 7, 8, 9, 10)}
    assert named == {1: "a", 3: "a", 4: "a", 6: "b", 7: "b", 8: "c", 9: "c", 10: "c"}
    half_past_seven = (hours[7] + timedelta(minutes=30)).isoformat()
    assert base_for(place, half_past_seven)[0].name == "b", "the log goes on into the next base backup"
    for hour, why in ((0, "reaches from"), (5, "gap"), (11, "reaches from")):
        with pytest.raises(ServiceError, match=why):
            base_for(place, hours[hour].isoformat())
    with pytest.raises(ServiceError, match="takes a moment"):
        base_for(place, "yesterday")


def test_the_containers_scripts_bring_the_database_back(machine: Machine) -> None:
    """The same scripts, run beside a server whose archive_command is that of docker/compose.yaml."""
    kept = machine.kept
    (kept / "wal").mkdir(parents=True)
    if machine.services.account:
        shutil.chown(kept / "wal", machine.services.account.pw_uid)
    environment = {
        "PATH": f"{postgres_programs(machine.services)}:{os.environ['PATH']}",
        "PGHOST": str(machine.services.sockets),
        "POSTGRES_USER": "app",
        "BACKUPS": str(kept),
        "PGDATA": str(machine.services.folder / "postgres"),
        "PGOPTIONS": "-c synchronous_commit=on",  # these servers do not wait for the disk
        "POSTGRES_ACCOUNT": machine.services.account.pw_name if machine.services.account else "",
    }

    def script(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["sh", str(DOCKER / f"{name}.sh"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    shutil.copy(DOCKER / "archive.sh", kept)  # where the server's account may read it
    archive = f"BACKUPS={kept} sh {kept / 'archive.sh'} %p %f"
    machine.ask("ALTER SYSTEM SET archive_mode = on")
    machine.ask(f"ALTER SYSTEM SET archive_command = '{archive}'")
    machine.services.release()
    machine.services.acquire()
    machine.ask("CREATE TABLE IF NOT EXISTS document (name text)")  # these servers may forget their last moments
    machine.add("first")
    outcome = script("backup")
    assert outcome.returncode == 0, outcome.stderr
    machine.add("second")
    between = datetime.now(UTC).isoformat(sep=" ")
    machine.add("third")
    outcome = script("backup")
    assert outcome.returncode == 0, outcome.stderr
    assert len(list((kept / "base").iterdir())) == 1
    machine.add("lost")
    assert script("restore").returncode == 1, "there are data"
    for moment, names in (((), ["first", "second", "third"]), ((between,), ["first", "second"])):
        machine.lose()
        outcome = script("restore", *moment)
        assert outcome.returncode == 0, outcome.stderr
        machine.services.acquire()
        recovered(Source(machine.services))
        assert machine.ask("SELECT name FROM document ORDER BY name").split() == names
    assert script("restore", "2040-01-01").returncode == 1
