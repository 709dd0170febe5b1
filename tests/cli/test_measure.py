"""`takt measure`: a dated file of this machine, and a plain sentence where it cannot be made."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.cli.main import main as takt
from apps.cli.measuring import running
from apps.cli.measuring.machine import Meter
from apps.measurements import document_digest, nearest_rank, rate_text
from tests.cli.networks import network_write
from tests.planner.places import SAMPLE, measured_here


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = takt(["measure", *arguments])
    return status, capsys.readouterr().err


def test_the_file_names_the_model_the_machine_and_what_ran() -> None:
    document = json.loads(measured_here(), parse_float=lambda text: pytest.fail(f"{text} is a float"))
    assert document["format"] == "takt-measurement/1"
    assert document["digest"] == document_digest(document)
    assert document["model"]["bytes"] == SAMPLE.stat().st_size
    assert document["runtime"]["provider"] == "CPUExecutionProvider"
    assert set(document["runtime"]["nodes"]) == {"CPUExecutionProvider"}
    (row,) = document["rows"]
    assert (row["batch"], row["dims"], row["items"]) == (1, {}, row["samples"])
    assert row["power"] is not None or row["power_reason"]


def test_batches_are_those_of_the_open_leading_dimension(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = SAMPLE.with_name("digits-batch.onnx")
    assert takt(["measure", str(path), "--batch", "1,3", "--seconds", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["batch_dimension"] == "batch"
    assert [(row["batch"], row["dims"], row["items"] // row["samples"]) for row in document["rows"]] == [
        (1, {"batch": 1}, 1),
        (3, {"batch": 3}, 3),
    ]
    fixed = str(network_write(tmp_path / "fixed.onnx", width=4))
    assert "no common variable first dimension" in said(capsys, fixed, "--batch", "2")[1]
    assert "--dim batch=2 states it already" in said(capsys, str(path), "--dim", "batch=2", "--batch", "2")[1]
    for wrong in ("0", "1,x", "1,,2", "-1", "1.5", ""):
        status, error = said(capsys, str(path), f"--concurrency={wrong}")
        assert (status, "--concurrency takes whole numbers" in error) == (2, True)
    assert "that is the file that is read" in said(capsys, str(path), "-o", str(path))[1]


def test_a_missing_runtime_and_a_missing_provider_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "has only" in said(capsys, str(SAMPLE), "--provider", "NoSuchExecutionProvider")[1]
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    status, error = said(capsys, str(SAMPLE))
    assert status == 2
    assert "pip install onnxruntime" in error


def test_falling_back_to_the_processor_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ONNX Runtime does when a GPU's libraries are missing: it says so in its log alone, and goes on."""
    library = SimpleNamespace(
        __version__="1",
        get_available_providers=lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"],
        SessionOptions=SimpleNamespace,
        InferenceSession=lambda *_, **__: SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"]),
    )
    monkeypatch.setattr(running, "runtime", lambda: library)
    status, error = said(capsys, str(SAMPLE), "--provider", "CUDAExecutionProvider")
    assert status == 2
    assert "fell back to CPUExecutionProvider, so nothing was measured" in error


def test_a_provider_that_ran_no_node_measured_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def opened(data: bytes, **_: Any) -> Any:
        profile = tmp_path / "profile.json"
        profile.write_text(
            json.dumps([{"cat": "Node", "name": "a_kernel_time", "args": {"provider": "CPUExecutionProvider"}}])
        )
        return SimpleNamespace(run=lambda *_: [], end_profiling=lambda: str(profile))

    monkeypatch.setattr(running, "session_open", opened)
    with pytest.raises(running.Unmeasurable, match="every node ran on CPUExecutionProvider instead"):
        running.nodes_by_provider(b"", {}, provider="CUDAExecutionProvider", threads=0)
    assert running.nodes_by_provider(b"", {}, provider="CPUExecutionProvider", threads=0) == {"CPUExecutionProvider": 1}


def test_power_is_that_of_whole_packages_past_the_end_of_their_counters(tmp_path: Path) -> None:
    def zone(name: str, energy: int) -> None:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "energy_uj").write_text(f"{energy}\n")
        (tmp_path / name / "max_energy_range_uj").write_text("1000000\n")

    zone("intel-rapl:0", 100_000)
    zone("intel-rapl:1", 900_000)
    zone("intel-rapl:0:0", 0)  # a part of the first
    meter = Meter("CPUExecutionProvider", tmp_path)
    meter.begin()
    zone("intel-rapl:0", 600_000)
    zone("intel-rapl:1", 100_000)
    zone("intel-rapl:0:0", 400_000)
    assert meter.end(2 * 10**9) == ({"source": "rapl", "milliwatts": 350}, "")  # 0.5 J and 0.2 J in two seconds
    nothing = Meter("CPUExecutionProvider", tmp_path / "none")
    nothing.begin()
    assert nothing.end(1) == (None, f"{tmp_path / 'none'} has no processor package to read (RAPL)")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_a_percentile_is_the_least_value_that_enough_do_not_exceed(values: list[int], percent: int) -> None:
    found = nearest_rank(sorted(values), percent)

    def within(limit: int) -> bool:
        return sum(value <= limit for value in values) * 100 >= percent * len(values)

    assert found in values
    assert within(found)
    assert not within(found - 1)


def test_a_rate_is_rounded_down() -> None:
    assert rate_text(2, 3 * 10**9) == "0.666666"
