"""`targets check` and `compare` of both commands, on a processor that exists only here."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from apps.cli.main import main as takt
from compiler.__main__ import main
from compiler.probing import costly, micro_programs, read_trace, write_trace
from compiler.probing.trace import COLUMNS, predicted_rows
from compiler.targets import read

PEBBLE = Path(__file__).parent / "pebble.toml"


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    assert main(["targets", "check", str(PEBBLE), "--emit-programs", str(folder)]) == 0
    return folder


@pytest.fixture
def model(tmp_path):
    w = numpy_helper.from_array(np.ones((16, 8), np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [4, 16]), ("y", [4, 8])))
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "mm")], "tiny", [x], [y], [w])
    path = tmp_path / "tiny.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return str(path)


def measured(folder, change=lambda row: row.cycles):
    """The emitted trace, filled in as the processor would."""
    target = read(PEBBLE)
    rows = [replace(row, cycles=change(row)) for row in predicted_rows(target, micro_programs(target))]
    path = folder / "measured.csv"
    path.write_text(write_trace(rows))
    return str(path)


def test_the_emitted_trace_is_empty_and_every_program_is_there(emitted):
    rows = read_trace(emitted / "trace.csv")
    assert rows
    assert all(row.cycles is None for row in rows)
    for name in {row.program for row in rows}:
        assert (emitted / f"{name}.bin").read_bytes()[:8] == b"TAKTBIN\n"
        assert "target pebble" in (emitted / f"{name}.asm").read_text()
    assert (emitted / "trace.csv").read_text().splitlines()[0] == ",".join(COLUMNS)


@pytest.mark.parametrize("command", [lambda a: main(["targets", *a]), lambda a: takt(["target", *a])])
def test_a_true_trace_ends_with_0_and_a_wrong_row_with_1(command, tmp_path, capsys):
    assert command(["check", str(PEBBLE), "--trace", measured(tmp_path)]) == 0
    assert "nothing is off" in capsys.readouterr().out
    wrong = measured(tmp_path, lambda row: row.cycles + (row.program == "vector-erf"))
    assert command(["check", str(PEBBLE), "--trace", wrong]) == 1
    out = capsys.readouterr().out
    assert "VECTOR: 1 of" in out
    assert "vector-erf #0" in out
    assert "off: VECTOR" in out
    assert command(["check", str(PEBBLE), "--trace", wrong, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert [v["instruction"] for v in data["verdicts"] if not v["ok"]] == ["VECTOR"]


def test_a_model_is_compared_on_a_file_and_on_shipped_processors(model, capsys):
    arguments = ["compare", model, "--target", str(PEBBLE), "--target", "lpu", "--json"]
    assert main(["targets", *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["target"], row["fits"]) for row in rows] == [("pebble", True), ("lpu", True)]
    assert rows[0]["operations"] == rows[1]["operations"]
    assert takt(["target", "compare", model, "--target", str(PEBBLE)]) == 0
    assert "pebble" in capsys.readouterr().out


def test_a_file_serves_compile_report_and_simulate(model, tmp_path, capsys):
    program = str(tmp_path / "tiny.bin")
    assert main(["compile", model, "-o", program, "--target", str(PEBBLE)]) == 0
    assert main(["report", model, "--target", str(PEBBLE)]) == 0
    assert "on pebble in" in capsys.readouterr().out
    assert main(["simulate", program]) == 0
    assert "counters equal the program's resources: yes" in capsys.readouterr().out


def test_a_wrong_file_is_one_line(tmp_path, capsys):
    path = tmp_path / "chip.toml"
    path.write_text(PEBBLE.read_text().replace("lanes = {", "lames = {"))
    assert main(["targets", "check", str(path)]) == 2
    assert takt(["target", "check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all("target pebble: vector.lanes is missing" in line for line in lines)


@pytest.mark.parametrize("command", [lambda a: main(["target", *a]), lambda a: takt(["target", *a])])
def test_a_new_file_is_named_like_its_processor_and_is_sound(command, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(costly, "NAMES", ("dense layers",))
    path = tmp_path / "our-chip.toml"
    assert command(["new", str(path)]) == 0
    assert f"takt target check {path}" in capsys.readouterr().out
    assert read(path).name == "our-chip"
    assert command(["check", str(path)]) == 0
    out = capsys.readouterr().out
    assert "our-chip: A processor of our own" in out
    assert "warning" not in out
    path.write_text(path.read_text().replace('u8 = { value = [64, 64], source = "chosen" }\n', ""))
    assert command(["check", str(path)]) == 0
    assert "warning: matrix.tiles.u8 is missing, so the vector unit multiplies u8" in capsys.readouterr().out
    assert command(["check", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 1


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("pebble.toml", "it is there already; name another file"),
        ("lpu.toml", "lpu is the name of a shipped processor"),
        ("my chip.toml", "name the file like the processor"),
        ("chip", "name the file like the processor"),
        ("none/chip.toml", "the folder in which it is to stand does not exist"),
    ],
)
def test_a_new_file_overwrites_nothing_and_has_a_name_that_a_processor_can_have(name, says, tmp_path, capsys):
    (tmp_path / "pebble.toml").write_text("kept")
    assert main(["target", "new", str(tmp_path / name)]) in (1, 2)
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert [path.read_text() for path in tmp_path.iterdir()] == ["kept"]


def test_all_faults_of_a_file_are_listed_and_the_error_counts_them(tmp_path, capsys):
    path = tmp_path / "chip.toml"
    path.write_text(PEBBLE.read_text().replace("lanes = {", "lames = {").replace("[clock]", "colour = 3\n[clock]"))
    assert main(["targets", "check", str(path)]) == 2
    shown = capsys.readouterr()
    assert shown.err == f"error: {path}: target pebble: 2 faults\n"
    assert [line.partition(" (line")[0] for line in shown.out.splitlines()] == [
        "there is no setting 'colour'; remove it",
        'vector.lanes is missing (there is a vector.lames); write lanes = { value = ..., source = "..." } in [vector]',
    ]
    assert main(["targets", "check", str(path), "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["faults"]) == 2


def test_a_trace_without_cycles_confirms_nothing(emitted, capsys):
    assert main(["targets", "check", str(PEBBLE), "--trace", str(emitted / "trace.csv")]) == 2
    assert "nothing was measured" in capsys.readouterr().err


def test_instructions_without_a_measurement_are_named(tmp_path, capsys):
    some = measured(tmp_path, lambda row: row.cycles if row.instruction == "MOVE" else None)
    assert main(["targets", "check", str(PEBBLE), "--trace", some]) == 0
    assert "nothing is off; not measured: LOADW, MATMUL, VECTOR" in capsys.readouterr().out
