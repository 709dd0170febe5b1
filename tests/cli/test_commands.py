"""One command `takt` for everything: help, version, pipes, progress, constants, and reports in each form."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

import compiler
from apps.cli.main import main as takt
from apps.cli.main import parser as takt_parser
from compiler.__main__ import main, parser
from compiler.commands.options import constants
from compiler.commands.tables import comma_separated, escaped, line_of, numbers
from tests.compiler.face.test_diff import NASTY, network
from tests.pricing.rating.books import SHIPPED

ROOT = Path(__file__).parents[2]


def _commands(whole: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield (*words, name)
                yield from _commands(inner, (*words, name))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(network(12), tmp_path / "model.onnx")
    onnx.save(branch(), tmp_path / "branch.onnx")
    return tmp_path


def branch() -> onnx.ModelProto:
    """A model whose input `rate` chooses between outputs of two lengths, which no program has."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    rate = helper.make_tensor_value_info("rate", TensorProto.INT64, [])
    limit = helper.make_tensor("limit", TensorProto.INT64, [], [16000])
    scale = helper.make_tensor_value_info("scale", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graphs = [
        helper.make_graph([helper.make_node("Concat", ["s"] * count, ["y"], axis=1)], f"of{count}", [], [y])
        for count in (1, 2)
    ]
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["s"]),
        helper.make_node("Equal", ["rate", "limit"], ["same"]),
        helper.make_node("If", ["same"], ["y"], then_branch=graphs[0], else_branch=graphs[1]),
    ]
    graph = helper.make_graph(nodes, "branch", [x, rate, scale], [y], [limit])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("words", [("python",), *_commands(parser())], ids=" ".join)
def test_every_command_of_the_compiler_shows_its_help(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    _shows_help(main, [] if words == ("python",) else [*words], capsys)


@pytest.mark.parametrize("words", [("takt",), *_commands(takt_parser())], ids=" ".join)
def test_every_command_of_takt_shows_its_help(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    _shows_help(takt, [] if words == ("takt",) else [*words], capsys)


def _shows_help(command: object, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command([*words, "--help"])  # type: ignore[operator]
    assert ended.value.code == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: ")
    assert said.err == ""


def test_takt_has_every_command_of_the_compiler() -> None:
    assert set(_commands(parser())) <= set(_commands(takt_parser()))


def test_a_bare_call_shows_the_help_and_version_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (main, takt):
        assert command([]) == 0
        assert "compile" in capsys.readouterr().out
        with pytest.raises(SystemExit) as ended:
            command(["--version"])
        assert ended.value.code == 0
        assert re.fullmatch(r"takt \d+\.\d+\.\d+\+[0-9a-f]{12}\n", capsys.readouterr().out)


def test_models_and_programs_pass_through_pipes(place: Path) -> None:
    """Two commands of a shell, with nothing but the program on standard output in between."""
    line = '"$0" -m apps.cli.main compile - --dim batch=2 -o - | "$0" -m apps.cli.main report - --json'
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line, sys.executable],
        input=(place / "model.onnx").read_bytes(),
        capture_output=True,
        env=environment,
        check=True,
    )
    made = compiler.compile(compiler.load(place / "model.onnx", {"batch": 2}))
    assert json.loads(done.stdout)["headline"]["digest"] == made.digest
    assert b"wrote " in done.stderr


@pytest.mark.parametrize(
    "words", [["inspect", "-"], ["report", "-"], ["diff", "-", "-"], ["run", "-"], ["compare", "-"]]
)
def test_an_empty_pipe_is_said_in_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    assert takt(words) == 2
    assert capsys.readouterr().err.startswith("takt: -: standard input is empty, or was read already; give ")


def test_the_text_form_may_be_piped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tests.compiler.ir.test_written import SMALL

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(SMALL.encode())))
    assert takt(["inspect", "-"]) == 0
    assert "2 compute" in capsys.readouterr().out


def test_progress_is_said_where_it_is_asked_for(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "batch=2"]) == 0
    assert capsys.readouterr().err == ""
    assert takt(["report", "model.onnx", "--dim", "batch=2", "--progress"]) == 0
    stages = [line.split(",")[0] for line in capsys.readouterr().err.splitlines()]
    assert stages[:2] == ["read", "shapes"]
    assert "schedule" in stages


def test_on_a_terminal_progress_leaves_no_trace(place: Path) -> None:
    """A pseudo-terminal as standard error: what is written there ends with an empty line."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    code = "import time\nfrom compiler.commands.progress import shown\nwith shown(None) as on: on('schedule'); time.sleep(0.5)"
    subprocess.run([sys.executable, "-c", code], stderr=theirs, cwd=ROOT, check=True)
    os.close(theirs)
    said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "schedule, 0." in said
    assert said.endswith("\r\x1b[K")


@pytest.mark.parametrize("value", ["16000", "[16000]"])
def test_a_constant_chooses_the_branch(value: str, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "branch.onnx"]) == 2
    assert "If 'rate' chooses the branch and is always the same, give its value, such as --constant rate=1." in (
        capsys.readouterr().err
    )
    np.save("scale.npy", np.ones(1, np.float64))
    for scale in ("0.5", "scale.npy"):
        assert (
            takt(["report", "branch.onnx", "--constant", f"rate={value}", "--constant", f"scale={scale}", "--json"])
            == 0
        )
        assert [p["shape"] for p in json.loads(capsys.readouterr().out)["ports"]] == [[1, 4], [1, 4]]
    assert takt(["report", "branch.onnx", "--constant", "rate=8000", "--constant", "scale=1", "--json"]) == 0
    assert [p["shape"] for p in json.loads(capsys.readouterr().out)["ports"]] == [[1, 4], [1, 8]]


def test_a_model_whose_input_chooses_a_branch_is_measured(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["measure", "branch.onnx", "--seconds", "1", "--constant", "rate=16000"]
    assert takt([*arguments, "--constant", "scale=[0.5]"]) == 0
    assert "branch.onnx on " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("rate", "--constant takes INPUT=VALUE, such as sr=16000"),
        ("rate=fast", "with a number, true, false, a list or an .npy file, not 'rate=fast'"),
        ("rate=1.5", "The constant for 'rate' is float64"),
        ("other=1", "no input 'other' to make constant"),
        ("rate=nowhere.npy", "--constant nowhere.npy: there is no such file"),
        ("rate=model.npy", "--constant model.npy: it is no .npy file"),
        ("rate=[[1],[1,2]]", "with a number"),
    ],
)
def test_a_constant_that_makes_no_sense_is_one_line(
    value: str, says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("model.npy").write_bytes(b"\x93NUMPY")
    assert takt(["compile", "branch.onnx", "-o", "out", "--constant", value]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


@given(st.one_of(st.integers(-(2**62), 2**62), st.booleans(), st.lists(st.integers(-9, 9), min_size=1, max_size=4)))
def test_a_value_of_json_is_that_constant(value: object) -> None:
    found = constants([f"a={json.dumps(value)}"])["a"]
    assert found.tolist() == value


def test_several_reasons_stand_one_on_a_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "a=1", "--dim", "b=2"]) == 2
    first, *reasons = capsys.readouterr().err.splitlines()
    assert first == "takt: The model cannot be compiled for 3 reasons:"
    assert [line[:4] for line in reasons] == ["  - "] * 3
    assert any("--dim batch=1" in line for line in reasons)


def test_the_report_names_units_sizes_rate_and_shares(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "batch=1,64", "--book", str(SHIPPED)]) == 0
    text = capsys.readouterr().out
    titles = [line.split(", program")[0] for line in text.splitlines() if " on lpu in " in line]
    assert titles == [f"model.onnx, batch {size} on lpu in float32 (exact)" for size in (1, 64)]
    made = compiler.compile(compiler.load("model.onnx", {"batch": 64}))
    r = made.resources
    assert f"  latency      {r.cycles:,} cycles = " in text
    assert f"{round(900_000_000 / r.interval):,} inferences/s" in text
    assert f"{r.operations:,}" in text
    assert f"{r.storage.total:,} bytes" in text
    assert "of 230,686,720 bytes on chip: weights " in text
    assert " % of peak" in text
    assert text.isascii()


def test_instructions_that_are_streamed_are_not_on_the_chip(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["report", "model.onnx", "--dim", "batch=2", "--target", "edge"]
    assert takt(arguments) == 0
    text = capsys.readouterr().out
    assert takt([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    storage, head = found["resources"]["storage"], found["headline"]
    assert storage["instructions"] > 0
    assert head["memory_used"] == storage["total"] - storage["instructions"]
    assert f"instructions {storage['instructions']:,} that are streamed" in text
    assert "instructions" not in next(line for line in text.splitlines() if line.startswith("  memory "))
    assert takt(["compare", "model.onnx", "--dim", "batch=2", "--target", "edge", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["storage"] == head["memory_used"]


def test_json_has_numbers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "batch=2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    head = found["headline"]
    assert head["inferences_per_second"] == pytest.approx(head["clock_hz"] / head["interval_cycles"])
    assert head["latency_us"] == pytest.approx(head["latency_cycles"] / head["clock_hz"] * 1e6, abs=0.001)
    assert head["memory_share"] == pytest.approx(head["memory_used"] / head["memory_bytes"], abs=1e-6)
    assert all(isinstance(unit["share"], float) for unit in found["units"])
    assert isinstance(found["bounds"]["latency"]["ratio"], float)


def test_csv_has_a_row_for_each_operation_of_each_size(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "batch=2,4", "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    for size in ("2", "4"):
        resources = compiler.compile(compiler.load("model.onnx", {"batch": int(size)})).resources
        mine = [row for row in rows if row["batch"] == size]
        assert sum(int(row["operations"]) for row in mine) == resources.operations
        assert sum(int(row["cycles"]) for row in mine) == resources.cycles
    assert takt(["compare", "model.onnx", "--dim", "batch=2", "--csv"]) == 0
    assert {row["target"] for row in csv.DictReader(io.StringIO(capsys.readouterr().out))} >= {"lpu", "edge"}


def test_markdown_escapes_what_a_model_says(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(network(12, NASTY), "nasty.onnx")
    assert takt(["report", "nasty.onnx", "--dim", "batch=2", "--markdown", "--book", str(SHIPPED)]) == 0
    text = capsys.readouterr().out
    assert text.startswith("**nasty.onnx, batch 2 on lpu in float32 (exact), program ")
    assert "price per " in text
    assert "<details><summary>" in text
    assert "<script" not in text
    assert takt(["compare", "model.onnx", "--dim", "batch=2", "--markdown"]) == 0
    assert "| lpu | float32 | " in capsys.readouterr().out


def test_only_one_form_is_printed(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--csv", "--json"]) == 2
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_trace_has_every_instruction_of_each_size(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert takt(["report", "model.onnx", "--dim", "batch=2,4", "--trace", "trace.json"]) == 0
    events = json.loads(Path("trace.json").read_text())["traceEvents"]
    bundle = compiler.compile(compiler.load("model.onnx", {"batch": [2, 4]}))
    for process, program in enumerate(bundle.programs, 1):
        mine = [e for e in events if e["pid"] == process and e["ph"] == "X"]
        assert [(e["ts"], e["dur"]) for e in mine] == [(s.start, s.duration) for s in program.schedule]
    capsys.readouterr()
    assert takt(["report", "model.onnx", "--dim", "batch=2", "--trace", "-"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["traceEvents"]
    assert "latency" in said.err
    assert takt(["report", "model.onnx", "--dim", "batch=2", "--trace", "model.onnx"]) == 2


@given(st.dictionaries(st.text("ab", max_size=5), st.one_of(st.none(), st.integers(), st.text(max_size=9)), min_size=1))
def test_csv_reads_back(row: dict[str, object]) -> None:
    (found,) = csv.DictReader(io.StringIO(comma_separated([row]), newline=""), strict=True)
    assert found == {name: "" if value is None else line_of(str(value)) for name, value in row.items()}


@given(st.text())
def test_escaped_text_stays_on_its_line_and_opens_nothing(text: str) -> None:
    found = escaped(text)
    assert len(found.splitlines()) <= 1
    assert "<" not in found
    assert not re.search(r"(?<!\\)(?:\\\\)*[`*_\[\]|~]", found)


def test_figures_that_are_not_known_are_null() -> None:
    given_data = {"share": "0.25", "ratio": "", "rows": [{"inferences_per_second": "1/3"}], "name": "1/3"}
    assert numbers(given_data) == {
        "share": 0.25,
        "ratio": None,
        "rows": [{"inferences_per_second": 1 / 3}],
        "name": "1/3",
    }
