"""The limits of the child bite, and what a child does cannot reach its parent."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from apps.registry import child
from apps.registry.child import ChildFailed, Limits, child_run, child_start

LIMITS = Limits(memory=2**30, cpu=5, wall=5, file=2**20)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A child of the test's own: it does what the request says."""
    (tmp_path / "naughty.py").write_text(
        "import os, time\n"
        "from apps.registry.child import child_main\n"
        "def work(folder, request):\n"
        "    what = request['what']\n"
        "    if what == 'memory': return {'n': len(bytearray(2**31))}\n"
        "    if what == 'spin':\n"
        "        while True: pass\n"
        "    if what == 'sleep': time.sleep(60)\n"
        "    if what == 'disk': (folder / 'big').write_bytes(b'x' * 2**22)\n"
        "    if what == 'die': os.kill(os.getpid(), 9)\n"
        "    if what == 'raise': raise RuntimeError('secret of the child')\n"
        "    own = {'session': os.getsid(0), 'leads its group': os.getpgid(0) == os.getpid()}\n"
        "    return {'environment': sorted(os.environ), 'folder': str(folder), **own}\n"
        "child_main(work)\n"
    )
    monkeypatch.setattr(child, "_environment", lambda: {"PATH": "", "PYTHONPATH": f"{child.ROOT}:{tmp_path}"})
    return "naughty"


@pytest.mark.parametrize(
    ("what", "limits", "reason"),
    [
        ("memory", LIMITS, "memory"),
        ("spin", Limits(memory=2**30, cpu=1, wall=20), "time"),
        ("sleep", Limits(memory=2**30, cpu=5, wall=1), "time"),
        ("disk", LIMITS, "defect"),
        ("die", LIMITS, "killed"),
        ("raise", LIMITS, "defect"),
    ],
)
def test_each_limit_ends_the_child_with_its_reason(module: str, what: str, limits: Limits, reason: str) -> None:
    with pytest.raises(ChildFailed) as failed:
        child_run(module, request={"what": what}, files={}, limits=limits, beat=lambda: None)
    assert failed.value.reason == reason


def test_the_folder_of_a_child_goes_with_it(module: str) -> None:
    answer = child_run(module, request={"what": "nothing"}, files={}, limits=LIMITS, beat=lambda: None)
    assert not Path(answer["folder"]).exists()


def test_a_child_has_its_parents_turn_at_the_processor(module: str) -> None:
    """Linux weighs sessions before priorities: in one of its own a child would be as prompt as the pages."""
    answer = child_run(module, request={"what": "nothing"}, files={}, limits=LIMITS, beat=lambda: None)
    assert (answer["session"], answer["leads its group"]) == (os.getsid(0), True)


def test_who_waits_for_a_child_shows_signs_of_life(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "BEAT_SECONDS", 0.05)
    beats: list[int] = []
    limits = Limits(memory=2**30, cpu=5, wall=1)
    with pytest.raises(ChildFailed):
        child_run(module, request={"what": "sleep"}, files={}, limits=limits, beat=lambda: beats.append(1))
    assert 5 < len(beats) <= 20


def test_a_child_sees_no_secret_of_the_server() -> None:
    environment = child._environment()
    assert not {
        name for name in environment if "DATABASE" in name or "REDIS" in name or "KEY" in name or "TOKEN" in name
    }


def test_a_child_that_is_left_is_ended(module: str) -> None:
    with child_start(module, request={"what": "sleep"}, files={}, limits=LIMITS) as running:
        pid = running.process.pid
        assert not running.poll()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_dies_with_a_parent_that_is_killed(module: str, tmp_path: Path) -> None:
    script = (
        "import time\n"
        "from apps.registry import child\n"
        f"child._environment = lambda: {{'PATH': '', 'PYTHONPATH': '{child.ROOT}:{tmp_path}'}}\n"
        "limits = child.Limits(memory=2**30, cpu=60, wall=60)\n"
        "with child.child_start('naughty', request={'what': 'sleep'}, files={}, limits=limits) as c:\n"
        "    print(c.process.pid, flush=True)\n"
        "    time.sleep(1.5)\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    import subprocess

    parent = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(child.ROOT)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert parent.stdout.readline().strip() == "ready"
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < deadline, "the child outlived its parent"
        time.sleep(0.05)
