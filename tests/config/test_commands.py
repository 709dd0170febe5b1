"""The commands of bin/: one clear sentence when something is missing, servers that survive, parts that are restarted."""

from __future__ import annotations

import ast
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import psycopg2
import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client

from apps.accounts.models import ApiToken, User
from bin import commands, entry, install, parts, reloading, stack
from bin.services import SOCKET_PATH_LIMIT, ServiceError, Services, _is_alive, _pid_of

ROOT = Path(settings.BASE_DIR)


def test_an_old_python_is_told_which_one_to_use(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as old:
        old.setattr(sys, "version_info", (3, 9, 2, "final", 0))
        old.setattr(sys, "argv", ["bin/dev.py", "run"])
        with pytest.raises(SystemExit, match="1"):
            runpy.run_path(str(ROOT / "bin" / "dev.py"), run_name="__main__")
    assert capsys.readouterr().err.startswith("Takt needs Python 3.11 or newer; this is 3.9.")


def test_an_old_python_can_at_least_read_the_script() -> None:
    text = (ROOT / "bin" / "dev.py").read_text()
    assert text.isascii()
    newer = (ast.AnnAssign, ast.FunctionDef, ast.JoinedStr, ast.NamedExpr, ast.Match, ast.Nonlocal, ast.Starred)
    for node in ast.walk(ast.parse(text, feature_version=(3, 4))):
        assert not isinstance(node, newer), f"line {node.lineno} cannot be read by Python 2.7"
        assert not (isinstance(node, ast.ImportFrom) and node.module == "__future__")


@pytest.mark.parametrize("command", sorted(entry.ALONE.keys() - entry.TAKES_ARGUMENTS))
def test_a_command_that_takes_no_argument_does_nothing_with_one(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lock --help` resolved everything again."""
    for name in ("lock", "everything"):
        monkeypatch.setattr(install, name, lambda **_: pytest.fail("it began"))
    assert entry.main([command, "--help"]) == 0
    assert capsys.readouterr().out == entry.usage()
    assert entry.main([command, "--quick", "x"]) == 2
    assert capsys.readouterr().err == f"{command} takes no argument, not '--quick x'\n"


def test_the_scripts_need_nothing_but_the_standard_library() -> None:
    for name in ("dev.py", "entry.py", "install.py"):
        tree = ast.parse((ROOT / "bin" / name).read_text())
        imported = {
            (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else node.names[0].name.split(".")[0]
            for node in ast.walk(tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
        }
        assert imported - {"bin"} <= sys.stdlib_module_names


def test_a_taken_port_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("PORT", str(other.getsockname()[1]))
        with pytest.raises(ServiceError, match=r"cannot be used \(Address already in use\).*PORT=8001 make run"):
            stack._port()


def test_a_folder_that_is_in_use_is_not_run_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "VAR", tmp_path)
    with (
        stack._alone(8123),
        pytest.raises(ServiceError, match=r"already runs from .*8123.*TAKT_VAR"),
        stack._alone(8124),
    ):
        pass
    with stack._alone(8124):
        pass


@pytest.mark.parametrize("port", ["http", "0", "70000", "-1"])
def test_a_port_that_is_no_port_is_refused(monkeypatch: pytest.MonkeyPatch, port: str) -> None:
    monkeypatch.setenv("PORT", port)
    with pytest.raises(ServiceError, match="from 1 to 65535"):
        stack._port()


def test_a_worker_of_another_host_is_told_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL")
    monkeypatch.delenv("REDIS_URL")
    with pytest.raises(ServiceError, match="Set DATABASE_URL and REDIS_URL"):
        stack.worker(["--pool", "a"])


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DATABASE_URL", "mysql://here/takt", "DATABASE_URL must name a PostgreSQL server"),
        (
            "DATABASE_URL",
            "postgres://takt@127.0.0.1:1/takt",
            "The database that DATABASE_URL names cannot be used: connection",
        ),
        ("STORAGE_URL", "ftp://here", "STORAGE_URL must be file"),
    ],
)
def test_an_address_that_is_wrong_is_one_sentence(name: str, value: str, said: str) -> None:
    outcome = subprocess.run(
        [sys.executable, "manage.py", "worker", "--pool", "lpu-a"],
        cwd=ROOT,
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert outcome.stderr.startswith(said)
    assert len(outcome.stderr.strip().splitlines()) == 1


def test_an_icon_that_does_not_exist_is_named() -> None:
    with pytest.raises(install.SetupError, match="no-such-icon"):
        install._icons(["upload", "no-such-icon"])


def test_setting_up_installs_the_command_from_the_checkout(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    shown = subprocess.run(
        [install.TAKT, "--help"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (shown.returncode, "verify" in shown.stdout) == (0, True), shown.stderr
    where = subprocess.run(
        [install.PYTHON, "-c", "import apps.cli.main as found; print(found.__file__)"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(where.stdout.strip()) == ROOT / "apps" / "cli" / "main.py"


def test_the_locks_name_no_host_and_every_package_has_a_hash() -> None:
    for lock in (install.LOCK, install.SERVER_LOCK):
        text = lock.read_text()
        assert "://" not in text
        assert "file:" not in text
        blocks = [block for block in text.split("\n") if "==" in block and not block.startswith((" ", "#"))]
        assert len(blocks) > 50
        assert all(block.endswith("\\") for block in blocks)
    assert "resolved" not in (ROOT / "package-lock.json").read_text()


@pytest.fixture
def short_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="takt-t-", dir="/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def rows(url_folder: Path) -> list[tuple[int]]:
    connection = psycopg2.connect(host=str(url_folder), user="app", dbname="takt")
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1); SELECT n FROM kept")
            return cursor.fetchall()
    finally:
        connection.close()


def test_the_servers_keep_their_data_and_stay_while_somebody_holds_them(short_folder: Path) -> None:
    first, second = Services(short_folder), Services(short_folder)
    assert first.acquire() == second.acquire()
    assert len(rows(first.sockets)) == 1
    first.release()
    assert len(rows(second.sockets)) == 2
    second.release()
    with pytest.raises(psycopg2.OperationalError):
        rows(second.sockets)
    third = Services(short_folder)
    third.acquire()
    assert len(rows(third.sockets)) == 3
    third.destroy()


def test_a_server_that_was_killed_is_started_again(short_folder: Path) -> None:
    services = Services(short_folder)
    services.acquire()
    rows(services.sockets)
    for name in ("postgres/postmaster.pid", "valkey/valkey.pid"):
        pid = _pid_of(services.folder / name)
        os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            time.sleep(0.01)
    services._user_lock = None
    again = Services(short_folder)
    again.acquire()
    assert len(rows(again.sockets)) == 2
    again.destroy()


def test_a_long_path_gets_a_short_place_for_its_sockets(short_folder: Path) -> None:
    services = Services(short_folder / ("long" * 30))
    assert len(str(services.sockets)) < SOCKET_PATH_LIMIT - len("/.s.PGSQL.5432")
    assert services.sockets != Services(short_folder / ("lang" * 30)).sockets


def test_servers_that_die_while_they_are_held_are_started_again(short_folder: Path) -> None:
    services = Services(short_folder)
    services.acquire()
    rows(services.sockets)
    assert services.restart_ended() == []
    for name in ("postgres/postmaster.pid", "valkey/valkey.pid"):
        pid = _pid_of(services.folder / name)
        os.kill(pid, signal.SIGKILL)
        while _is_alive(pid):
            time.sleep(0.01)
    assert services.restart_ended() == ["PostgreSQL", "Valkey"]
    assert services.restart_ended() == []
    assert len(rows(services.sockets)) == 2
    services.destroy()


def test_a_part_that_dies_is_started_again_and_one_that_always_dies_ever_more_rarely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack, "VAR", tmp_path)
    monkeypatch.setattr(parts, "ENDING", ())
    monkeypatch.setattr(parts, "VAR", tmp_path)
    (tmp_path / "log").mkdir()
    running = parts.Stack({"PATH": os.environ["PATH"]}, parts.Interrupts())
    running.start("sleeper", sys.executable, "-c", "import time; time.sleep(600)")
    running.start("dying", sys.executable, "-c", "raise SystemExit(3)")
    sleeper, dying = running.parts
    assert sleeper.process
    sleeper.started -= 3600  # it has run for an hour
    sleeper.process.kill()
    sleeper.process.wait()
    deadline = time.monotonic() + 60
    while not dying.is_failing and time.monotonic() < deadline:
        running.restart_ended()
        time.sleep(0.02)
    assert dying.not_before > time.monotonic()
    dying.not_before -= 3600
    running.restart_ended()
    assert dying.not_before == 0.0
    assert sleeper.process.poll() is None
    assert "sleeper ended (-9) and was restarted." in capsys.readouterr().out
    running.stop()
    assert sleeper.process.poll() is not None


def test_a_part_with_one_task_ends_when_it_is_done_and_is_tried_three_times_when_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stack, "VAR", tmp_path)
    monkeypatch.setattr(parts, "ENDING", ())
    monkeypatch.setattr(parts, "VAR", tmp_path)
    (tmp_path / "log").mkdir()
    running = parts.Stack({"PATH": os.environ["PATH"]}, parts.Interrupts())
    running.start("done", sys.executable, "-c", "print('once')", is_once=True)
    running.start("failing", sys.executable, "-c", "print('tried'); raise SystemExit(3)", is_once=True)
    deadline = time.monotonic() + 60
    while not all(part.is_done for part in running.parts) and time.monotonic() < deadline:
        running.restart_ended()
        time.sleep(0.02)
    running.restart_ended()
    assert (tmp_path / "log" / "done.log").read_text() == "once\n"
    assert (tmp_path / "log" / "failing.log").read_text() == "tried\n" * 3
    assert "failing failed 3 times" in capsys.readouterr().out
    running.stop()


def test_an_interrupt_while_a_part_is_started_waits_until_it_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack, "VAR", tmp_path)
    monkeypatch.setattr(parts, "ENDING", ())
    monkeypatch.setattr(parts, "VAR", tmp_path)
    (tmp_path / "log").mkdir()
    interrupts = parts.Interrupts()
    running = parts.Stack({"PATH": os.environ["PATH"]}, interrupts)
    popen = subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> Any:
        process = popen(*arguments, **options)
        interrupts._come(signal.SIGTERM, None)
        return process

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        running.start("sleeper", sys.executable, "-c", "import time; time.sleep(600)")
    (sleeper,) = running.parts
    assert sleeper.process is not None, "nobody would end it"
    running.stop()
    assert sleeper.process.poll() is not None


def test_what_computes_has_its_turn_after_the_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack, "VAR", tmp_path)
    monkeypatch.setattr(parts, "ENDING", ())
    monkeypatch.setattr(parts, "VAR", tmp_path)
    (tmp_path / "log").mkdir()
    running = parts.Stack({"PATH": os.environ["PATH"]}, parts.Interrupts())
    stack._start_web(running, 1)
    stack._start_workers(running, ["some"])
    try:
        here = os.getpriority(os.PRIO_PROCESS, 0)
        behind = {one.name: os.getpriority(os.PRIO_PROCESS, _pid(one)) - here for one in running.parts}
        assert {name for name, nice in behind.items() if not nice} == {"web", "worker-dispatch", "scheduler"}
        assert set(behind.values()) == {0, stack.BACKGROUND}
        weighed = Path(f"/proc/{_pid(running.parts[-2])}/autogroup")
        assert not weighed.exists() or weighed.read_text().endswith(f"nice {stack.BACKGROUND}\n")
    finally:
        running.stop()


def _pid(part: parts.Part) -> int:
    assert part.process is not None
    return part.process.pid


def test_no_part_outlives_a_stack_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    script = (
        "import time\nfrom bin.parts import Interrupts, Stack\nstack = Stack({}, Interrupts())\n"
        "stack.start('sleeper', '/bin/sleep', '600')\nprint(stack.parts[0].process.pid, flush=True)\ntime.sleep(600)\n"
    )
    environment = {**os.environ, "TAKT_VAR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert _is_alive(pid)
        parent.kill()
    deadline = time.monotonic() + 60
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def test_the_demo_people_are_made_once_and_their_sign_ins_stay(db: None, tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    call_command("seed_demo", write=path)
    first = json.loads(path.read_text())
    people, tokens = User.objects.count(), ApiToken.objects.count()
    call_command("seed_demo", write=path)
    assert json.loads(path.read_text()) == first
    assert (User.objects.count(), ApiToken.objects.count()) == (people, tokens)
    assert path.stat().st_mode & 0o777 == 0o600
    for who in ("", "admin_"):
        form = {"login": first[f"{who}email"], "password": first[f"{who}password"]}
        assert Client().post("/sign-in", form).status_code == 302
    me = Client(headers={"authorization": f"Bearer {first['admin_token']}"}).get("/api/v1/me").json()
    assert me["is_platform_admin"] is True
    me = Client(headers={"authorization": f"Bearer {first['token']}"}).get("/api/v1/me").json()
    assert (me["role"], me["organisation"]["name"]) == ("owner", "Demo Robotics")
    assert me["scopes"] == ["billing", "build", "buy", "read", "run"], "one token goes the whole way, invoice included"
    for who in ("engineer_email", "billing_email"):
        assert Client().post("/sign-in", {"login": first[who], "password": first["password"]}).status_code == 302


@pytest.mark.parametrize(("asked", "status"), [(["help"], 0), (["--help"], 0), ([], 2)])
def test_the_command_line_explains_itself(asked: list[str], status: int) -> None:
    """Help goes to standard output when it was asked for, and to standard error when no command was given."""
    outcome = subprocess.run(
        [sys.executable, "bin/dev.py", *asked], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == status
    said, nothing = (outcome.stderr, outcome.stdout) if status else (outcome.stdout, outcome.stderr)
    for name in entry.COMMANDS:
        assert f"\n  {name} " in said
    assert not nothing


def test_make_knows_every_command_that_takes_no_argument_and_lists_them_when_it_gets_none() -> None:
    text = (ROOT / "Makefile").read_text()
    (targets,) = [line.removesuffix(":").split() for line in text.splitlines() if line.endswith(":")]
    assert targets == ["help", *entry.ALONE]
    assert f".PHONY: {' '.join(targets)}" in text


def test_every_command_has_a_function() -> None:
    assert all(callable(commands._command(name)) for name in entry.COMMANDS - {"setup", "lock"})


def test_a_change_of_code_restarts_every_process_and_a_change_of_a_page_the_web(tmp_path: Path) -> None:
    for name in ("apps/sales/services.py", "templates/base.html", "static/vendor/a.js"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    running, migrated = RestartedStack(), []
    reloader = reloading.Reloader(cast("parts.Stack", running), reloading.Watch(tmp_path), lambda: migrated.append(1))
    assert reloader.restart_changed() == []
    (tmp_path / "static/vendor/a.js").write_text("installed")
    assert reloader.restart_changed() == []
    (tmp_path / "templates/base.html").write_text("a longer page")
    os.utime(tmp_path / "templates/base.html", (1, 1))
    assert reloader.restart_changed() == ["web", "worker-mail"]
    (tmp_path / "apps/sales/services.py").unlink()
    assert reloader.restart_changed() == ["web", "worker-mail", "worker-compile"]
    assert migrated == []
    (tmp_path / "apps/sales/migrations").mkdir()
    (tmp_path / "apps/sales/migrations/0001_initial.py").write_text("")
    assert reloader.restart_changed() == ["web", "worker-mail", "worker-compile"]
    assert migrated == [1]
    assert [len(some) for some in running.restarted] == [2, 3, 3]


class RestartedStack:
    """A stack that records which processes were restarted."""

    def __init__(self) -> None:
        self.parts = [parts.Part(name, []) for name in ("web", "worker-mail", "worker-compile")]
        self.restarted: list[list[parts.Part]] = []

    def restart(self, some: list[parts.Part], seconds: float) -> None:
        self.restarted.append(some)


def test_a_restarted_process_is_a_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ENDING", ())
    monkeypatch.setattr(parts, "VAR", tmp_path)
    (tmp_path / "log").mkdir()
    running = parts.Stack({"PATH": os.environ["PATH"]}, parts.Interrupts())
    running.start("sleeper", sys.executable, "-c", "import time; time.sleep(600)")
    before = _pid(running.parts[0])
    running.restart(running.parts, 5.0)
    try:
        assert _pid(running.parts[0]) != before
        assert not _is_alive(before)
    finally:
        running.stop()


def test_the_counters_that_processes_map_lie_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped page that a full disk cannot hold kills the process that touches it; a new start begins with none."""
    monkeypatch.setattr(stack, "VAR", tmp_path)
    folder = stack._metrics_folder()
    try:
        assert folder.stat().st_dev == Path("/dev/shm").stat().st_dev != tmp_path.stat().st_dev
        (folder / "counter_1.db").touch()
        assert stack._metrics_folder() == folder
        assert list(folder.iterdir()) == []
        folder.rmdir()
        folder.touch()  # as somebody else's, which cannot be taken away
        assert stack._metrics_folder() == tmp_path / "metrics"
    finally:
        folder.unlink()
    monkeypatch.setattr(stack, "MEMORY", tmp_path / "none")
    assert stack._metrics_folder() == tmp_path / "metrics"
