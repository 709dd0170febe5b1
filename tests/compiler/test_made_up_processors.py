"""The processors that were made up for the corpus: a file alone is enough, and programs compute what the model says."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import compiler
from compiler import targets
from compiler.bounds import bounds
from compiler.passes import optimise
from tests.compiler.frontend.test_recurrent import recurrent
from tests.compiler.tiling.test_reshaped_groups import grouped

FILES = sorted((Path(__file__).parents[2] / "benchmarks" / "corpus" / "processors").glob("*.toml"))


def test_there_are_two():
    assert [file.stem for file in FILES] == ["narrow", "wide"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize(
    ("data", "shape"), [(grouped(64, 8, 10), (1, 64, 10, 10)), (recurrent("LSTM", 5), (5, 2, 3))], ids=["conv", "lstm"]
)
def test_programs_equal_onnx_runtime_and_keep_to_their_bounds(file, data, shape):
    machine, graph = targets.resolve(str(file)), compiler.load(data)
    program = compiler.compile(graph, machine)
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found, counters = compiler.simulate(program.to_bytes(), {"x": x}, machine)
    (wanted,) = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert np.abs(found["y"] - wanted).max() <= 1e-3 * max(1.0, np.abs(wanted).max())
    least = bounds(optimise(graph), machine)
    assert program.resources.cycles >= least.latency
    assert program.resources.interval >= least.interval
    assert counters.cycles == program.resources.cycles
