"""Whatever a command is given, it ends in a status and at most one line on standard error; never in a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from apps.cli.main import main as takt
from compiler.__main__ import main
from tests.compiler.face.test_diff import network
from tests.compiler.ir.test_written import SMALL

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a model, its program, and everything that is neither."""
    folder = tmp_path_factory.mktemp("files")
    onnx.save(network(12), folder / "model.onnx")
    program = compiler.compile(compiler.load(network(12), {"batch": 2}))
    (folder / "program.bin").write_bytes(program.to_bytes())
    (folder / "cut.bin").write_bytes(program.to_bytes()[:-9])
    bundle = compiler.compile(compiler.load(network(12), {"batch": [1, 2]}))
    (folder / "bundle.bin").write_bytes(bundle.to_bytes())
    (folder / "empty").write_bytes(b"")
    (folder / "noise").write_bytes(bytes(range(256)) * 9)
    (folder / "words.txt").write_text("milk\nbread\n", encoding="utf-8")
    (folder / "wrong.txt").write_text(SMALL.replace("compute", "comptue"), encoding="utf-8")
    (folder / "small.txt").write_text(SMALL, encoding="utf-8")
    (folder / "book.json").write_text("[1, 2]", encoding="utf-8")
    np.save(folder / "one.npy", np.zeros(3))
    (folder / "folder").mkdir()
    return folder


READERS = (
    ["inspect"],
    ["compile", "-o", "OUT"],
    ["report"],
    ["disassemble"],
    ["simulate"],
    ["diff", "model.onnx"],
    ["report", "small.txt", "--precision", "int8", "--examples"],
    ["report", "small.txt", "--precision", "int8", "--ranges"],
    ["targets", "check"],
    ["targets", "compare"],
    ["takt", "report"],
    ["takt", "diff", "model.onnx"],
    ["takt", "verify", "book.json"],
    ["takt", "report", "model.onnx", "--dim", "batch=2", "--book"],
    ["takt", "target", "check"],
)
FILES = ("nowhere", "empty", "noise", "words.txt", "wrong.txt", "folder", "cut.bin", "two\nlines")


def run(arguments, capsys):
    """Status, output and errors of one command; ``takt`` first means that one."""
    status = takt(arguments[1:]) if arguments[0] == "takt" else main(arguments)
    said = capsys.readouterr()
    return status, said.out, said.err


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_files_that_are_none_of_it_end_in_one_line(command, place, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    for name in FILES:
        arguments = [str(tmp_path / "out") if word == "OUT" else word for word in command]
        status, _, error = run([*arguments, name], capsys)
        assert status in (1, 2), name
        assert error.count("\n") == 1, (name, error)
        assert error.startswith(("error: ", "takt: "))
        assert len(error) > 20
        assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["report", "model.onnx", "--dim", "batch=2", "--dim", "batch=3"], 2, "given twice for 'batch'"),
        (["report", "model.onnx", "--dim", "batch=²"], 2, "NAME=SIZE"),
        (["report", "model.onnx", "--dim", "batch=0"], 2, "NAME=SIZE"),
        (["report", "model.onnx", "--dim", "batch=" + "9" * 5000], 2, "NAME=SIZE"),
        (["report", "model.onnx", "--dim", "batch=2", "--state", "x"], 2, "INPUT=OUTPUT"),
        (["report", "model.onnx", "--dim", "batch=2", "--bound", "l=-1"], 2, "LOOP=TRIPS"),
        (["report", "model.onnx", "--dim", "batch=2", "--precision", "int7"], 2, "int7"),
        (["report", "wrong.txt"], 1, "Line 8, column 54"),
        (["simulate", "program.bin", "--inputs", "words.txt"], 1, "no .npz file"),
        (["simulate", "program.bin", "--inputs", "one.npy"], 1, "one array without a name"),
        (["simulate", "program.bin", "--inputs", "nowhere"], 1, "--inputs nowhere: there is no such file"),
        (["simulate", "program.bin", "--seed", "-1"], 2, "at least 0"),
        (["simulate", "bundle.bin", "--outputs", "x"], 2, "several sizes"),
        (
            ["simulate", "program.bin", "--outputs", "folder/no/where"],
            1,
            "--outputs folder/no/where: the folder in which",
        ),
        (["compile", "model.onnx", "--dim", "batch=2", "-o", "folder"], 1, "--output folder: it is a folder"),
        (["compile", "model.onnx", "--dim", "batch=2", "-o", "/dev/full"], 1, "No space left"),
        (["diff", "model.onnx", "bundle.bin"], 2, "dimension"),
        (["takt", "report", "model.onnx"], 2, "batch"),
        (["takt", "report", "model.onnx", "--dim", "batch=2", "--executions", "0"], 2, "at least 1"),
        (["takt", "report", "model.onnx", "--dim", "batch=2", "--target", "folder"], 2, "folder"),
    ],
)
def test_options_that_make_no_sense_end_in_one_line(arguments, status, says, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    found, _, error = run(arguments, capsys)
    assert found == status
    assert error.count("\n") == 1
    assert says in error


def test_outputs_have_the_very_name_that_was_asked_for(place, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(place)
    assert run(["simulate", "program.bin", "--outputs", str(tmp_path / "result")], capsys)[0] == 0
    with np.load(tmp_path / "result") as stored:
        assert stored.files == ["y"]


def test_a_text_model_is_inspected(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    status, out, _ = run(["inspect", "small.txt"], capsys)
    assert status == 0
    assert "small: 9 parameters, 2 operations" in out
    assert "input x: float32[4, 2]" in out
    assert "2 compute" in out


def test_takt_reports_each_size_of_a_dimension_and_models_of_the_text_form(place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    status, out, _ = run(["takt", "report", "model.onnx", "--dim", "batch=1,2"], capsys)
    assert status == 0
    assert [line.split(" on ")[0] for line in out.splitlines() if " on lpu " in line] == [
        "model.onnx, batch 1",
        "model.onnx, batch 2",
    ]
    assert run(["takt", "report", "small.txt"], capsys)[0] == 0


def _started(place, *words, **more):
    found = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen([sys.executable, *words], cwd=place, stderr=subprocess.PIPE, text=True, env=found, **more)


@pytest.mark.parametrize(
    "words", [("-m", "compiler", "disassemble", "program.bin"), ("-m", "apps.cli.main", "target", "list")]
)
def test_who_reads_the_output_may_close_it_and_a_full_disk_is_said(words, place):
    reading, writing = os.pipe()
    os.close(reading)
    with _started(place, *words, stdout=writing) as closed:
        os.close(writing)
        assert closed.communicate()[1] == ""
        assert closed.returncode == 141  # as of other programs
    with Path("/dev/full").open("w") as full, _started(place, *words, stdout=full) as process:
        error = process.communicate()[1]
    assert error.count("\n") == 1
    assert "No space left" in error


@pytest.mark.parametrize(("streams", "status"), [(">&-", 0), (">&- 2>&-", 0), ("2>&-", 0)])
@pytest.mark.parametrize("words", ["-m compiler disassemble program.bin", "-m apps.cli.main target list"])
def test_streams_that_are_closed_from_the_beginning_take_nothing(words, streams, status, place):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} {words} {streams}"],
        cwd=place,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (status, "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["report", "model.onnx", "--dims", "batch=2"],
            "--dims batch=2; did you mean --dim? (python -m compiler report --help",
        ),
        (["report", "model.onnx", "--targets=lpu"], "--targets=lpu; did you mean --target?"),
        (
            ["targets", "compare", "model.onnx", "more"],
            "unrecognized arguments: more (python -m compiler targets compare --help",
        ),
        (["takt", "diff", "model.onnx", "model.onnx", "--boko", "b"], "did you mean --book? (takt diff --help"),
    ],
)
def test_an_option_that_is_misspelt_is_told_by_its_command(arguments, says, place, capsys, monkeypatch):
    monkeypatch.chdir(place)
    status, _, error = run(arguments, capsys)
    assert status == 2
    assert error.count("\n") == 1
    assert says in error


def test_control_c_says_nothing(place):
    fifo = place / "waits"
    os.mkfifo(fifo)
    process = _started(
        place,
        "-m",
        "compiler",
        "disassemble",
        "waits",
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored by what runs in the background
    )
    with process, fifo.open("wb"):  # opens as soon as the command reads it
        process.send_signal(signal.SIGINT)
        error = process.communicate(timeout=60)[1]
    assert (process.returncode, error) == (130, "")
