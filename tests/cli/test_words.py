"""A refusal says what to give in the words of the face that was asked: an argument, an option, or nothing on a page."""

from __future__ import annotations

import shlex
from pathlib import Path

import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import compiler
from apps.cli.main import main as takt
from apps.compilation.child import work
from compiler.__main__ import main
from compiler.commands.options import buckets
from compiler.commands.words import spoken
from compiler.errors import Hint, ModelError
from tests.compiler.face.test_diff import network
from tests.compiler.flow.models import loop_model

NAMES = st.text(min_size=1, max_size=12)
LIBRARY = ("dims=", "bounds=", "target=", "Upload", "upload")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    onnx.save(network(12), tmp_path / "model.onnx")
    (tmp_path / "loop.onnx").write_bytes(loop_model())
    (tmp_path / "cut.onnx").write_bytes((tmp_path / "model.onnx").read_bytes()[:-40])
    (tmp_path / "zip.onnx").write_bytes(b"PK\x03\x04" + bytes(40))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["report", "model.onnx"], "Choose a size for each, such as --dim batch=1."),
        (["report", "loop.onnx"], "or when compiling, such as --bound grow=20."),
        (["diff", "model.onnx", "model.onnx"], "such as --dim batch=1."),
        (["report", "cut.onnx"], "Give a whole copy of it"),
        (["report", "zip.onnx"], "give the *.onnx file"),
    ],
)
def test_commands_name_their_options(
    arguments: list[str], says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (main, takt):
        assert command(arguments) != 0
        said = capsys.readouterr().err
        assert says in said
        assert not any(word in said for word in LIBRARY), said


def test_the_library_names_its_arguments_and_a_page_neither(place: Path) -> None:
    for model, argument in (("model.onnx", "dims={'batch': 1}"), ("loop.onnx", "bounds={'grow': 20}")):
        with pytest.raises(ModelError) as refused:
            compiler.load(model)
        assert str(refused.value).endswith(f", such as {argument}.")
        request = {
            "target": "lpu",
            "target_text": "",
            "precision": "float32",
            "dims": {},
            "constants": {},
            "options": {},
            "buckets": 1,
            "bytes_max": 1 << 20,
        }
        (place / "job").mkdir(exist_ok=True)
        (place / "job" / "model.onnx").write_bytes((place / model).read_bytes())
        error = work(place / "job", request)["error"]
        assert error["kind"] == "model"
        for said in (error["message"], *(problem["message"] for problem in error["problems"])):
            assert not any(word in said for word in (*LIBRARY, "--")), said
            assert said.endswith(".")


def test_of_many_problems_each_keeps_its_hint() -> None:
    several = ModelError(
        "It fails for 2 reasons:",
        problems=(
            ModelError("One is open.", node="a", hint=Hint("dims", {"n": 1})),
            ModelError("Another", hint=Hint("bounds", {"l": 20})),
        ),
    )
    listed = "- a: One is open, such as dims={'n': 1}.\n- Another, such as bounds={'l': 20}"
    assert str(several) == f"It fails for 2 reasons:\n{listed}"
    assert several.told() == "It fails for 2 reasons:\n- a: One is open.\n- Another"
    assert "a: One is open, such as --dim n=1.\n- Another, such as --bound l=20" in several.told(spoken)


@given(st.dictionaries(NAMES, st.integers(1, 99), min_size=1, max_size=3))
def test_options_of_a_hint_can_be_typed_back(example: dict[str, int]) -> None:
    words = shlex.split(spoken(Hint("dims", example)))
    assert words[::2] == ["--dim"] * len(example)
    assert buckets(words[1::2]) == example
