"""Programs for a processor of one's own: commands that read them find it, or say which option names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import compiler
from apps.cli.main import main as takt
from compiler.__main__ import main
from compiler.targets import catalogue
from tests.compiler.face.test_diff import network
from tests.pricing.rating.books import SHIPPED

LPU = (catalogue.HERE / "lpu.toml").read_text(encoding="utf-8")
Run = Callable[..., tuple[int, str, str]]


def _slower(name: str) -> str:
    """The shipped processor with a longer vector pipeline, under a name."""
    head, _, tail = LPU.partition("[vector]")
    changed = tail.replace("latency = { value = 12", "latency = { value = 13", 1)
    assert changed != tail
    return head.replace('name = "lpu"', f'name = "{name}"', 1) + "[vector]" + changed


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """One command as a process of its own: no processor is known from the one before."""

    def ran(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(catalogue, "_read", {})
        status = takt(arguments[1:]) if arguments[0] == "takt" else main(arguments)
        said = capsys.readouterr()
        return status, said.out, said.err

    return ran


@pytest.fixture
def place(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model; its programs for `chip` and for an `lpu` that is not the shipped one; and a bundle."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TAKT_TARGETS", raising=False)
    onnx.save(network(12), "model.onnx")
    (tmp_path / "other").mkdir()
    for path, name in (("chip.toml", "chip"), ("other/lpu.toml", "lpu")):
        Path(path).write_text(_slower(name), encoding="utf-8")
    for target, output in (("chip.toml", "chip.bin"), ("other/lpu.toml", "lpu.bin")):
        assert run("compile", "model.onnx", "--dim", "batch=2", "--target", target, "-o", output)[0] == 0
    assert run("compile", "model.onnx", "--dim", "batch=1,2", "--target", "chip.toml", "-o", "bundle.bin")[0] == 0
    return tmp_path


@pytest.mark.parametrize("command", [("simulate",), ("report",), ("diff", "chip.bin"), ("takt", "diff", "chip.bin")])
def test_a_processor_that_is_not_found_is_asked_for(command: tuple[str, ...], place: Path, run: Run) -> None:
    status, _, error = run(*command, "chip.bin")
    assert status in (1, 2)
    assert "there is no target 'chip', for which the program was compiled" in error
    assert "TAKT_TARGETS" in error
    assert "such as --target chip.toml" in error
    assert run(*command, "chip.bin", "--target", "chip.toml")[::2] == (0, "")


def test_a_program_runs_and_is_reported_for_the_file_that_is_named(
    place: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = compiler.Program.from_bytes(Path("chip.bin").read_bytes(), "chip.toml").resources.to_json()
    found = json.loads(run("simulate", "chip.bin", "--target", "chip.toml", "--json")[1])
    assert found["counters"] == found["promised"] == wanted
    assert json.loads(run("report", "chip.bin", "--target", "chip.toml", "--json")[1])["resources"] == wanted
    assert [r["equal"] for r in json.loads(run("simulate", "bundle.bin", "--target", "chip.toml", "--json")[1])] == [
        True
    ] * 2
    monkeypatch.setenv("TAKT_TARGETS", str(place))
    assert run("simulate", "chip.bin")[0] == 0
    assert run("simulate", "chip.bin", "--target", "chip")[0] == 0
    assert run("disassemble", "chip.bin")[0] == 0


def test_another_processor_of_the_same_name_is_told_apart(place: Path, run: Run) -> None:
    for command in (("simulate",), ("report",)):
        status, _, error = run(*command, "lpu.bin")
        assert status == 1
        assert "compiled for another description of lpu" in error
        assert "or give the file for which it was compiled, such as --target lpu.toml" in error
        assert run(*command, "lpu.bin", "--target", "other/lpu.toml")[0] == 0
        status, _, error = run(*command, "lpu.bin", "--target", "chip.toml")
        assert status == 1
        assert "than is given here (chip, digest" in error


def test_the_library_takes_a_file_too(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "_read", {})
    data = Path("chip.bin").read_bytes()
    feeds = {"x": np.zeros((2, 7), np.float32)}
    with pytest.raises(compiler.ModelError, match=r"TAKT_TARGETS names, or give it, such as target='chip.toml'"):
        compiler.simulate(data, feeds)
    assert compiler.simulate(data, feeds, "chip.toml")[1].cycles > 0
    monkeypatch.setattr(catalogue, "_read", {})
    assert compiler.Session(data, target="chip.toml").run(feeds)[1].cycles > 0


@pytest.mark.parametrize(
    "typed", [("--precision", "int8"), ("--precision", "float32"), ("--objective", "interval"), ("--dim", "batch=2")]
)
def test_a_program_is_what_it_is(typed: tuple[str, str], place: Path, run: Run) -> None:
    """Also where what is asked for is what it was compiled with: nobody has to know."""
    for command in (("report", "chip.bin"), ("diff", "chip.bin", "chip.bin"), ("report", "bundle.bin")):
        status, out, error = run(*command, *typed, "--target", "chip.toml")
        assert (status, out) == (2, "")
        assert "is a compiled program, which keeps" in error
        assert f"leave {typed[0]} away" in error
    assert run("report", "model.onnx", "--dim", "batch=2", *typed)[0] == (2 if typed[0] == "--dim" else 0)


def test_a_program_beside_a_model_that_is_compiled_for_the_same_file(place: Path, run: Run) -> None:
    assert run("diff", "chip.bin", "model.onnx", "--target", "chip.toml", "--dim", "batch=2") == (0, "", "")


def test_a_program_of_a_shipped_processor_beside_one_of_ones_own(place: Path, run: Run) -> None:
    """The option says where the one is that does not ship; what ships is found all the same."""
    assert run("compile", "model.onnx", "--dim", "batch=2", "-o", "shipped.bin")[0] == 0
    for pair in (("chip.bin", "shipped.bin"), ("shipped.bin", "chip.bin")):
        status, out, error = run("diff", *pair, "--target", "chip.toml")
        assert (status, out) == (2, "")
        assert "the programs differ in target (" in error
    status, _, error = run("diff", "shipped.bin", "shipped.bin", "--target", "chip.toml")
    assert status == 2
    assert "was compiled for another description of lpu" in error


def test_a_processor_of_ones_own_is_priced_or_said_to_have_no_price(place: Path, run: Run) -> None:
    status, out, error = run(
        "takt", "report", "model.onnx", "--dim", "batch=2", "--target", "chip.toml", "--book", str(SHIPPED)
    )
    assert (status, error) == (0, "")
    assert "chip" in out


def test_outputs_of_any_name_are_written(tmp_path: Path, run: Run) -> None:
    model = network(12)
    (name,) = [o.name for o in model.graph.output]
    for node in model.graph.node:
        node.output[:] = ["file" if o == name else o for o in node.output]
    model.graph.output[0].name = "file"
    onnx.save(model, tmp_path / "m.onnx")
    paths = {n: str(tmp_path / n) for n in ("m.onnx", "p.bin", "y")}
    assert run("compile", paths["m.onnx"], "--dim", "batch=2", "-o", paths["p.bin"])[0] == 0
    assert run("simulate", paths["p.bin"], "--outputs", paths["y"])[::2] == (0, "")
    with np.load(paths["y"]) as stored:
        assert stored.files == ["file"]
