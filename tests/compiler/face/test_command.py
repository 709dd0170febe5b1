"""The command: every verb once, and errors in one line."""

import json
from pathlib import Path

import onnx
import pytest

import compiler
from compiler import targets
from compiler.__main__ import main
from tests.compiler.face.test_face import two_layers


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(two_layers()[0], path)
    return str(path)


@pytest.fixture
def program(model, tmp_path, capsys):
    path = str(tmp_path / "program.bin")
    assert main(["compile", model, "-o", path, "--dim", "length=4"]) == 0
    capsys.readouterr()
    return path


def test_inspect_lists_what_is_open(model, capsys):
    assert main(["inspect", model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["open_dims"] == {"length": ["x[0]"]}
    assert found["operators"] == {"Gemm": 2, "Relu": 1}
    assert found["unknown_operators"] == []


def test_report_of_a_model_and_of_its_program_agree(model, program, capsys):
    assert main(["report", model, "--dim", "length=4", "--json"]) == 0
    of_model = json.loads(capsys.readouterr().out)
    assert main(["report", program, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == of_model


def test_the_text_report_ends_with_the_totals(program, capsys):
    assert main(["report", program]) == 0
    totals = compiler.report(compiler.Program.from_bytes(Path(program).read_bytes()))["totals"]
    assert f"{totals['operations']:,}" in capsys.readouterr().out.splitlines()[-1]


def test_simulate_says_that_counters_are_equal(program, capsys):
    assert main(["simulate", program]) == 0
    assert "counters equal the program's resources: yes" in capsys.readouterr().out


def test_disassemble_prints_instructions(program, capsys):
    assert main(["disassemble", program]) == 0
    assert "LOADW" in capsys.readouterr().out


@pytest.mark.parametrize("options", [[], ["--separate-arrays"]])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_printed_model_compiles_to_the_same_bytes(options, precision, model, tmp_path, capsys):
    text = str(tmp_path / "model.takt.txt")
    assert main(["print", model, "-o", text, "--dim", "length=4", *options]) == 0
    assert f"to {text}" in capsys.readouterr().out
    one, two = tmp_path / "one.bin", tmp_path / "two.bin"
    assert main(["compile", model, "-o", str(one), "--dim", "length=4", "--precision", precision]) == 0
    assert main(["compile", text, "-o", str(two), "--precision", precision]) == 0
    assert one.read_bytes() == two.read_bytes()
    assert (tmp_path / "model.takt.npz").exists() == bool(options)


def test_print_writes_to_the_screen_what_it_writes_to_a_file(model, tmp_path, capsys):
    text = tmp_path / "model.takt.txt"
    assert main(["print", model, "--dim", "length=4"]) == 0
    shown = capsys.readouterr().out
    assert main(["print", model, "--dim", "length=4", "-o", str(text), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {str(text): len(shown)}
    assert text.read_text() == shown
    assert main(["print", str(text)]) == 0
    assert capsys.readouterr().out == shown
    assert main(["print", model, "--dim", "length=4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": shown}


def test_targets_lists_the_processors(capsys):
    assert main(["targets", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == targets.names()


def test_several_sizes_make_a_bundle(model, tmp_path, capsys):
    path = str(tmp_path / "bundle.bin")
    assert main(["compile", model, "-o", path, "--dim", "length=2,4"]) == 0
    capsys.readouterr()
    assert main(["report", path, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["inspect", "/nowhere.onnx"], 1, "cannot be read"),
        (["compile", "MODEL", "-o", "/tmp/x"], 1, "leaves dimensions open"),
        (["compile", "MODEL", "-o", "/tmp/x", "--dim", "length"], 2, "NAME=SIZE"),
        (["report", "MODEL", "--dim", "length=4", "--target", "abacus"], 2, "there is no target 'abacus'"),
        (
            ["report", "MODEL", "--dim", "length=4", "--target", "./nope.toml"],
            2,
            "--target: there is no target file nope.toml",
        ),
        (["report", "MODEL", "--dim", "length=4", "--target", "./"], 2, "--target: target file . cannot be read"),
        (["report", "MODEL", "--dim", "length=4", "--target", "MODEL"], 2, "--target: "),
        (["disassemble", "MODEL"], 1, "not a"),
        (["print", "MODEL"], 1, "leaves dimensions open"),
        (["print", "MODEL", "--separate-arrays"], 2, "name it with --output"),
        (["print", "MODEL", "-o", "MODEL"], 2, "would be lost"),
        (["print", "MODEL", "--separate-arrays", "-o", "/tmp/x.npz"], 2, "the arrays go there"),
        (["print", "MODEL", "--dim", "length=4", "-o", "/nowhere/x.txt"], 1, "--output /nowhere/x.txt: the folder"),
        (["print", "MODEL", "--dim", "length=4,5"], 2, "--dim takes NAME=SIZE"),
    ],
)
def test_errors_are_one_line(arguments, status, says, model, capsys):
    assert main([model if a == "MODEL" else a for a in arguments]) == status
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
