"""The files for forges: what they run compares the model of a change with the one before it, in a real repository."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
import yaml

from tests.compiler.face.test_diff import network
from tests.pricing.rating.books import SHIPPED

ROOT = Path(__file__).parents[2]


def _github(file: dict[str, Any]) -> str:
    """The script of the step that compares."""
    return str(file["jobs"]["diff"]["steps"][-1]["run"])


def _gitlab(file: dict[str, Any]) -> str:
    return "\n".join(file["takt"]["script"])


@pytest.mark.parametrize(
    ("name", "script", "base"),
    [("github-actions.yml", _github, "BASE"), ("gitlab-ci.yml", _gitlab, "CI_MERGE_REQUEST_DIFF_BASE_SHA")],
)
def test_a_change_over_budget_fails_and_says_why(name: str, script: Any, base: str, tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *arguments]
        return subprocess.run(command, cwd=work, check=True, capture_output=True, text=True).stdout.strip()

    work = tmp_path / "work"
    work.mkdir()
    git("init", "-q")
    for hidden in (12, 300):
        model = network(hidden)
        for value in (*model.graph.input, *model.graph.output):
            value.type.tensor_type.shape.dim[0].dim_value = 2
        onnx.save(model, work / "model.onnx")
        (work / "budget.toml").write_text("[growth]\ncycles = 1\n", encoding="utf-8")
        git("add", ".")
        git("commit", "-q", "-m", f"{hidden} wide")
    takt = tmp_path / "bin" / "takt"
    takt.parent.mkdir()
    takt.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m apps.cli.main "$@"\n', encoding="utf-8")
    takt.chmod(0o755)
    summary = tmp_path / "summary.md"
    environment = os.environ | {
        "PATH": f"{takt.parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "MODEL": "model.onnx",
        "BOOK": str(SHIPPED),
        base: git("rev-parse", "HEAD~1"),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    text = script(yaml.safe_load((ROOT / "docs" / "ci" / name).read_text(encoding="utf-8")))
    ended = subprocess.run(["bash", "-e", "-c", text], cwd=work, env=environment, capture_output=True, text=True)
    assert ended.returncode == 1, ended.stderr
    said = summary.read_text(encoding="utf-8") if base == "BASE" else ended.stdout
    assert said.startswith("**Over budget: latency grew by ")
    assert "<details>" in said
    assert "price per million executions, Standard" in said
