"""Files that options name: what cannot be read or written is said with the option, and nothing that is read gets lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest

from apps.cli.main import main as takt
from compiler.__main__ import main
from tests.compiler.face.test_diff import network
from tests.pricing.rating.books import SHIPPED

SIZED = ("model.onnx", "--dim", "batch=2")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(12), "model.onnx")
    assert main(["compile", *SIZED, "-o", "program.bin"]) == 0
    np.savez("in.npz", x=np.zeros((2, 7), np.float32))
    shutil.copy(SHIPPED, "book.json")
    Path("folder").mkdir()
    Path("empty").touch()
    Path("latin").write_bytes("naïve".encode("latin-1"))
    capsys.readouterr()
    return tmp_path


READING = {
    "--budget": (["diff", "model.onnx", *SIZED, "--budget"], "it takes a TOML file that says what"),
    "--inputs": (["simulate", "program.bin", "--inputs"], "it takes an .npz file with one array"),
    "--trace": (["targets", "check", "lpu", "--trace"], "it takes the trace.csv that --emit-programs writes"),
    "--book": (["takt", "report", *SIZED, "--book"], "it takes a price book, as JSON: download it under Prices"),
    "--chain": (["takt", "verify", "--chain"], "it takes the ledger's chain"),
}
WRITING = {
    "--output": ["compile", *SIZED, "-o"],
    "--outputs": ["simulate", "program.bin", "--outputs"],
    "--emit-programs": ["targets", "check", "lpu", "--emit-programs"],
}


def _said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = takt(arguments[1:]) if arguments[0] == "takt" else main(arguments)
    error = capsys.readouterr().err
    assert error.count("\n") == (1 if status else 0)
    return status, error


@pytest.mark.parametrize("option", READING)
def test_what_cannot_be_read_is_named_with_its_option(
    option: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, takes = READING[option]
    for name, reason in (
        ("nowhere", "there is no such file"),
        ("folder", "it is a folder"),
        ("book.json/x", "a part of its path is a file"),
        ("x" * 5000, "File name too long"),
    ):
        status, error = _said([*command, name], capsys)
        assert status in (1, 2)
        assert f"{option} {name}: {reason}" in error
        assert takes in error
    for name in ("empty", "latin", "program.bin", "model.onnx", "/dev/null"):
        status, error = _said([*command, name], capsys)
        assert status in (1, 2) or (option == "--budget" and name in ("empty", "/dev/null"))
        assert status == 0 or Path(name).name in error


@pytest.mark.parametrize("option", WRITING)
def test_what_cannot_be_written_is_named_with_its_option(
    option: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, reason in (
        ("empty/x", "a part of its path is a file"),
        ("x" * 5000, "File name too long"),
        ("a\0b", "null"),
        ("empty" if option == "--emit-programs" else "folder", "it is a "),
    ):
        status, error = _said([*WRITING[option], name], capsys)
        assert status in (1, 2)
        assert option in error
        assert reason in error


def test_a_file_that_is_read_is_never_written(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("link").symlink_to("model.onnx")
    kept = {name: Path(name).read_bytes() for name in ("model.onnx", "program.bin", "in.npz")}
    for arguments in (
        ["compile", *SIZED, "-o", "model.onnx"],
        ["compile", *SIZED, "-o", "folder/../link"],
        ["simulate", "program.bin", "--outputs", "program.bin"],
        ["compile", *SIZED, "--precision", "int8", "-o", "out", "--write-ranges", "model.onnx"],
        ["compile", *SIZED, "--precision", "int8", "--examples", "in.npz", "-o", "in.npz"],
        ["simulate", "program.bin", "--inputs", "in.npz", "--outputs", "./in.npz"],
    ):
        status, error = _said(arguments, capsys)
        assert status == 2
        assert "that is the file that is read" in error
        assert {name: Path(name).read_bytes() for name in kept} == kept


def test_two_things_are_not_written_into_one_file(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compile", *SIZED, "--precision", "int8", "-o", "out", "--write-ranges", "./out"]
    assert _said(arguments, capsys) == (
        2,
        "error: --write-ranges ./out: the program goes there (--output); name another\n",
    )
    assert not Path("out").exists()


def test_a_name_that_is_no_text_is_a_name(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Linux takes any bytes; Python hands those that are no UTF-8 out as half characters."""
    odd = "m\udcff"
    shutil.copy("model.onnx", f"{odd}.onnx")
    for arguments in (
        ["inspect", f"{odd}.onnx"],
        ["compile", f"{odd}.onnx", "--dim", "batch=2", "-o", f"{odd}.bin"],
        ["simulate", f"{odd}.bin", "--outputs", f"{odd}.npz"],
        ["takt", "report", f"{odd}.onnx", "--dim", "batch=2", "--json"],
        ["diff", f"{odd}.onnx", f"{odd}.bin", "--dim", "batch=2"],
    ):
        assert _said(arguments, capsys) == (0, "")


def test_what_is_no_program_and_what_is_no_model_are_told_apart(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in ("simulate", "disassemble"):
        assert "model.onnx is not a compiled program; takt compile" in _said([command, "model.onnx"], capsys)[1]
    for arguments in (
        ["inspect", "program.bin"],
        ["targets", "compare", "program.bin"],
    ):
        assert "a compiled program, not a model. Give the model" in _said(arguments, capsys)[1]
