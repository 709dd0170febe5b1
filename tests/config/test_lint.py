"""The checks of `make lint`, as tests, so that they run beside the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from bin import code_rules
from bin.commands import ROOT, checks, without_servers


@pytest.mark.parametrize("check", checks(), ids=lambda check: Path(check[0]).name)
def test_the_code_passes(check: list[str]) -> None:
    run = subprocess.run(check, cwd=ROOT, env=without_servers(), capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


JUDGE = "def judge(a):\n    return " + " or ".join(f"a == {number}" for number in range(14)) + "\n"


@pytest.mark.parametrize("room", ["apps/sales", "compiler/tiling"])
def test_a_function_above_the_limit_of_complexity_is_named_with_its_figure(room: str) -> None:
    said = f"{room}/rules.py:1: {room.replace('/', '.')}.rules.judge has a complexity of 14; the limit is 12"
    assert list(code_rules.faults_of(Path(f"{room}/rules.py"), JUDGE)) == [said]
    assert list(code_rules.faults_of(Path("benchmarks/rules.py"), JUDGE)) == []


def test_a_function_inside_another_is_held_to_the_limit_too() -> None:
    source = "def outer():\n" + "".join(f"    {line}\n" for line in JUDGE.splitlines()) + "    return judge\n"
    said = "bin/rules.py:2: bin.rules.judge has a complexity of 14; the limit is 12"
    assert list(code_rules.faults_of(Path("bin/rules.py"), source)) == [said]


@pytest.mark.parametrize(("reason", "faults"), [("", 1), ("  # ", 1), ("  # aligned as in the paper", 0)])
def test_the_formatter_is_switched_off_only_with_a_reason(reason: str, faults: int) -> None:
    source = "x = [1,2]  # fmt" + f": skip{reason}\n"
    assert len(list(code_rules.faults_of(Path("compiler/table.py"), source))) == faults


def test_the_hooks_before_a_commit_call_installed_tools() -> None:
    hooks = [
        hook
        for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
        for hook in repo["hooks"]
    ]
    assert len(hooks) == 5
    assert all((ROOT / hook["entry"].split()[0]).exists() for hook in hooks)
