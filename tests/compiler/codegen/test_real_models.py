"""Real models from file to counters: close to ONNX Runtime, exact to the cycle, units side by side.

``benchmarks/real_models.py`` runs all of them on five inputs and both processors.
"""

import onnxruntime
import pytest

import compiler
from benchmarks.real_models import LIMIT, error
from tests.compiler.checks import check_rows
from tests.models import model_bytes, sensible_feeds


@pytest.mark.parametrize(
    ("case", "target"),
    [
        ("cls", "lpu"),
        pytest.param("magika", "lpu2", marks=pytest.mark.thorough),
        pytest.param("minilm-16", "lpu", marks=pytest.mark.thorough),
        ("minilm-16", "lpu2"),
    ],
)
def test_a_real_model_is_right_and_costs_what_was_said(case, target):
    data, dims = model_bytes(case)
    graph = compiler.load(data, dims=dims)
    program = compiler.compile(graph, target=target)
    feeds = sensible_feeds(graph, 1)
    outputs, counters = compiler.simulate(program.to_bytes(), feeds)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)
    for port, theirs in zip(session.get_outputs(), expected, strict=True):
        assert error(outputs[port.name], theirs) <= LIMIT
    assert counters == program.resources
    assert counters.operations == sum(row["operations"] for row in program.per_operation)
    check_rows(program.binary, program.target, program.resources)
    for name in ("latency", "interval", "memory"):
        assert program.bounds[name]["ours"] >= program.bounds[name]["bound"] > 0
    assert _overlap(program), "no two units ever work at the same time"


def _overlap(program):
    """Whether two different units are busy in the same cycle."""
    until, unit = -1, None
    for row in program.schedule:
        if row.start < until and (row.unit, row.instance) != unit:
            return True
        if row.start + row.duration > until:
            until, unit = row.start + row.duration, (row.unit, row.instance)
    return False
