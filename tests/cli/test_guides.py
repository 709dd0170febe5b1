"""The guides of the command and of the library say what happens: their commands and their code are run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from apps.cli.main import main, parser
from compiler.frontend.limits import DEFAULT
from compiler.frontend.operators import OTHERS, RULES
from compiler.frontend.tensors import ELEMENT_TYPES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def _blocks(document: str, language: str) -> list[str]:
    text = (DOCS / f"{document}.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the samples and a price book."""
    shutil.copytree(ROOT / "samples", tmp_path / "samples")
    shutil.copy(ROOT / "apps" / "pricing" / "books" / "book-1.json", tmp_path / "book.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_commands_of_the_tutorial_print_what_it_shows(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for block in _blocks("tutorial/command-line", "console"):
        for part in re.split(r"^\$ takt ", block, flags=re.MULTILINE)[1:]:
            command, *shown = part.splitlines()
            assert main(shlex.split(command)) == 0, command
            printed = " ".join(capsys.readouterr().out.split())
            for line in shown:
                assert " ".join(line.split()) in printed, (command, line)


def test_the_code_of_the_python_guide_runs(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    for block in _blocks("how-to/python-library", "python"):
        exec(compile(block, "python-library.md", "exec"), names)  # noqa: S102 - the guide's own code
    said = capsys.readouterr().out
    assert "252 64 True" in said
    assert "(8, 10)" in said
    assert "{'batch': 8}" in said
    assert "such as dims={'batch': 1}" in said


def test_the_report_of_its_guide_is_what_the_command_prints(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copy("samples/digits-batch.onnx", "digits-batch.onnx")
    assert main(["report", "digits-batch.onnx", "--dim", "batch=8"]) == 0
    printed = capsys.readouterr().out.splitlines()
    for line in _blocks("how-to/read-a-report", "")[0].splitlines():
        assert any(one.startswith(line.removesuffix("...")) for one in printed), line


def test_every_operator_is_listed_once() -> None:
    text = (DOCS / "reference" / "operators.md").read_text(encoding="utf-8")
    standard, _, others = text.partition("## Operators of other domains")
    listed = re.findall(r"`([A-Z]\w+)`", standard.partition("These are compiled")[0])
    assert sorted(listed) == sorted(RULES)
    for domain, rules in OTHERS.items():
        (row,) = re.findall(rf"^\| `{re.escape(domain)}` \| (.*) \|$", others, flags=re.MULTILINE)
        assert sorted(re.findall(r"`(\w+)`", row)) == sorted(rules)


def test_limits_and_element_types_are_those_of_the_compiler() -> None:
    text = (DOCS / "reference" / "operators.md").read_text(encoding="utf-8")
    types = text.partition("## Element types")[2].partition("Other types")[0]
    named = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool"}
    for dtype in ELEMENT_TYPES.values():
        shown = named.get(dtype.name) or dtype.name.removeprefix("F8").removeprefix("I").removeprefix("U")
        assert re.search(rf"\b{shown}\b", types), dtype
    assert f"| all constants | {DEFAULT.constant_bytes >> 30} GiB |" in text
    assert f"| one tensor | {DEFAULT.tensor_bytes >> 30} GiB |" in text
    assert f"| {DEFAULT.model_nodes:,} |" in text


def test_every_command_and_option_of_takt_is_in_its_reference() -> None:
    text = (DOCS / "reference" / "commands.md").read_text(encoding="utf-8")
    commands = next(action for action in parser()._actions if hasattr(action, "choices") and action.choices)
    for name in commands.choices or ():
        assert re.search(rf"`takt {name}\b", text), name
    for name in ("compile", "report", "run", "compare"):
        for action in commands.choices[name]._actions:  # type: ignore[index, call-overload]
            option = next((one for one in action.option_strings if one.startswith("--")), "--help")
            assert f"`{option}" in text or f" {option}" in text, (name, option)
