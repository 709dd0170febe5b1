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
from compiler.probing import micro_programs, read_trace, write_trace
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
