"""What the compiler makes satisfies the independent checks too."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.graph import Graph
from compiler.isa.element import NUMPY
from compiler.simulator import timeline
from tests.compiler.checks import binary_of
from tests.compiler.graphs import graphs
from tests.compiler.oracle.compiled import MODELS, samples
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.lanes import Lanes
from tests.compiler.oracle.programs import Sample
from tests.tiers import some

NAMES = [f"{name}-{target}" for name in MODELS for target in ("lpu", "lpu2")]


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> Sample:
    return next(s for s in samples() if s.name == request.param)


def test_the_schedule_is_legal_back_to_back(sample: Sample) -> None:
    assert Oracle(sample.binary, targets.load(sample.binary.target)).violations(inferences=2) == []


def test_the_results_are_those_of_another_runtime(sample: Sample) -> None:
    session = onnxruntime.InferenceSession(MODELS[sample.name.split("-")[0]](), providers=["CPUExecutionProvider"])
    for feed, got in zip(sample.feeds, sample.expected, strict=True):
        wanted = session.run(["y"], feed)[0]
        assert np.abs(got["y"] - wanted).max() <= 1e-3 * np.abs(wanted).max()


def test_words_are_looked_up_to_the_same_bits_a_lane_at_a_time() -> None:
    for sample in samples():
        if sample.name.startswith("words"):
            lanes = Lanes(sample.binary, targets.load(sample.binary.target).weights.latency)
            for feed, got in zip(sample.feeds, sample.expected, strict=True):
                result = lanes.run({"x": feed["x"].tobytes()})["y"]
                np.testing.assert_array_equal(np.frombuffer(result, NUMPY["f32"]).reshape(got["y"].shape), got["y"])


def test_at_least_two_units_work_at_the_same_time_when_inferences_follow_each_other(sample: Sample) -> None:
    busy: dict[int, set[str]] = {}
    for event in timeline(sample.binary.to_bytes()):
        for cycle in range(event.start, event.start + event.beats):
            busy.setdefault(cycle % sample.binary.interval, set()).add(event.unit)
    assert max(len(units) for units in busy.values()) >= 2


@settings(
    deadline=None, max_examples=some(40), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(graphs(), st.sampled_from(("lpu", "lpu2")))
def test_the_schedule_of_any_small_graph_is_legal_back_to_back(graph: Graph, name: str) -> None:
    target = targets.load(name)
    _, binary = binary_of(graph, target)
    assert Oracle(binary, target).violations(inferences=2) == []
