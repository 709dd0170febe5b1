"""The checks of `make lint`, as tests, so that they run beside the others."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bin.commands import ROOT, checks, without_servers


@pytest.mark.parametrize("check", checks(), ids=lambda check: Path(check[0]).name)
def test_the_code_passes(check: list[str]) -> None:
    run = subprocess.run(check, cwd=ROOT, env=without_servers(), capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_formatter_is_switched_off_nowhere() -> None:
    """``ruff format --check`` means little where comments switch it off."""
    names = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    switch = "# fmt" + ":"
    assert [name for name in names.split() if switch in (ROOT / name).read_text()] == []
