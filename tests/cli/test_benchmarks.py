"""The commands behind the README's figures: each says what it takes, and refuses what it does not before it runs."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest
from django.conf import settings

COMMANDS = sorted(
    set(re.findall(r"`benchmarks\.(\w+)", (Path(settings.BASE_DIR) / "README.md").read_text(encoding="utf-8")))
)


def _status(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *words])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)  # what another test imported is not run again
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    return ended.value.code


def test_the_readme_names_commands() -> None:
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_says_what_it_takes_and_refuses_the_rest(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _status(name, ["--help"], monkeypatch) == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")
    for words in (["--nothing"], ["--nothing=3", "x"], *([["-1x"]] if name != "conformance" else [])):
        assert _status(name, words, monkeypatch) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert "error: " in said.err
