"""The error that a report promises holds, within a factor, for ordinary inputs that calibration did not see."""

from dataclasses import dataclass

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.commands import listing
from compiler.errors import ModelError
from compiler.ir.interpreter import run
from compiler.passes import optimise
from compiler.precision.calibrate import ENOUGH, Measure, observe
from compiler.precision.convert import convert
from compiler.precision.error import ENDLESS, errors, measure
from compiler.precision.feeds import seeded, unseen
from compiler.precision.prepare import calibrated
from tests.tiers import some

INPUTS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "wide": lambda rng, shape: rng.uniform(-3, 3, shape),
    "between": lambda rng, shape: rng.uniform(-1, 1, shape),
}
FACTOR = 12.0  # dB: errors of few inputs may be four times those of few others


def model(nodes, inputs, outputs, weights):
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in some.items()]
        for some in (inputs, outputs)
    ]
    arrays = [numpy_helper.from_array(np.asarray(a, np.float32), name) for name, a in weights.items()]
    made = helper.make_model(
        helper.make_graph(nodes, "net", *ports, arrays), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    return onnx.ModelProto.FromString(made.SerializeToString())


@dataclass(frozen=True)
class Cell:
    """One step of a recurrent layer; its inputs have rank three, or four and are reshaped."""

    kind: str
    size: int
    hidden: int
    seed: int
    rank: int = 3

    def made(self):
        gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[self.kind]
        rng, edge = np.random.default_rng(self.seed), self.hidden**-0.5
        shapes = {
            "w": (gates * self.hidden, self.size),
            "r": (gates * self.hidden, self.hidden),
            "b": (2 * gates * self.hidden,),
        }
        weights = {name: rng.uniform(-edge, edge, (1, *shape)) for name, shape in shapes.items()}
        states = ["h", "c"] if self.kind == "LSTM" else ["h"]
        one, more = (1, 1, self.hidden), (1,) * (self.rank - 3)
        inputs = {"x": (*more, 1, 1, self.size), **dict.fromkeys(states, (*more, *one))}
        outputs = {"y": (1, *one), **dict.fromkeys([f"{s}_next" for s in states], one)}
        node = helper.make_node(
            self.kind,
            ["x", "w", "r", "b", "", *states],
            list(outputs),
            hidden_size=self.hidden,
            **({"linear_before_reset": self.seed % 2} if self.kind == "GRU" else {}),
        )
        if not more:
            return model([node], inputs, outputs, weights)
        flat = [helper.make_node("Squeeze", [name, "first"], [f"{name}_flat"]) for name in inputs]
        node.input[0], node.input[5:] = "x_flat", [f"{s}_flat" for s in states]
        made = model([*flat, node], inputs, outputs, weights)
        made.graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.int64), "first"))
        return made


@dataclass(frozen=True)
class Dense:
    """Dense layers for rows of a table."""

    sizes: tuple[int, ...]
    rows: int
    act: str
    seed: int

    def made(self):
        rng, nodes, weights, last = np.random.default_rng(self.seed), [], {}, "x"
        for n, (before, after) in enumerate(zip(self.sizes, self.sizes[1:], strict=False)):
            weights[f"w{n}"] = rng.standard_normal((before, after)) * (2 / before) ** 0.5
            weights[f"b{n}"] = rng.standard_normal(after) * 0.1
            nodes.append(helper.make_node("Gemm", [last, f"w{n}", f"b{n}"], [f"s{n}"]))
            nodes.append(helper.make_node(self.act, [f"s{n}"], [last := f"a{n}"]))
        del nodes[-1]
        nodes[-1].output[0] = "y"
        return model(nodes, {"x": (self.rows, self.sizes[0])}, {"y": (self.rows, self.sizes[-1])}, weights)


cells = st.builds(
    Cell,
    st.sampled_from(["RNN", "GRU", "LSTM"]),
    st.integers(4, 40),
    st.integers(4, 40),
    st.integers(0, 99),
    st.integers(3, 4),
)
dense = st.builds(
    Dense,
    st.lists(st.integers(4, 48), min_size=2, max_size=4).map(tuple),
    st.integers(1, 4),
    st.sampled_from(["Relu", "Tanh", "Sigmoid"]),
    st.integers(0, 99),
)


def measured(graph, made, kind, count=16):
    """By output what is lost over inputs of a kind."""
    rng = np.random.default_rng(len(kind))
    feeds = [
        {n: INPUTS[kind](rng, graph.types[n].shape).astype(np.float32) for n in graph.inputs} for _ in range(count)
    ]
    return measure(made, Measure(feeds, [run(graph, feed) for feed in feeds], {}))


@settings(max_examples=some(25), deadline=None, derandomize=True)
@given(net=st.one_of(cells, dense))
def test_ordinary_inputs_lose_little_more_than_what_is_promised(net):
    graph = optimise(compiler.load(net.made()))
    calibration = calibrated(graph, None, "int8")
    narrow = convert(graph, "int8", calibration).graph
    for kind in INPUTS:
        for name, found in measured(graph, narrow, kind).items():
            assert found["snr_db"] >= calibration.errors["int8"][name]["snr_db"] - FACTOR, kind
            assert found["relative"] <= 0.05, kind


@settings(max_examples=some(25), deadline=None, derandomize=True)
@given(net=st.one_of(cells, dense))
def test_ranges_hold_nearly_all_of_ordinary_inputs(net):
    graph = optimise(compiler.load(net.made()))
    calibration, _, _ = observe(graph)
    for name in graph.inputs:
        low, high = calibration.ranges[name]
        assert low <= -4.0
        assert high >= 4.0


def test_what_measures_gave_no_range():
    graph = optimise(compiler.load(Cell("GRU", 8, 16, 0).made()))
    known = {feed["x"].tobytes() for feed in seeded(graph)}
    assert known.isdisjoint(feed["x"].tobytes() for feed in unseen(graph))
    feeds = [{n: np.full(graph.types[n].shape, k, np.float32) for n in graph.inputs} for k in range(ENOUGH)]
    found, known, asked = observe(graph, feeds)
    assert found.ranges["x"] == (0.0, 6 * 1.25)
    assert [feed["x"].max() for feed in asked.feeds] == [3, 7]
    assert (found.count, found.unseen) == (6, 2)
    few, known, asked = observe(graph, feeds[1:])
    assert known is asked
    assert (few.count, few.unseen) == (ENOUGH - 1, 0)


def test_the_report_says_what_was_measured_on_what():
    graph = compiler.load(Cell("GRU", 8, 16, 0).made())
    accuracy = compiler.compile(graph, precision="float16").report()["accuracy"]
    assert accuracy["inputs"] == {}
    graph = compiler.load(Dense((17, 44, 33), 1, "Sigmoid", 16).made())
    accuracy = compiler.compile(graph, precision="int8").report()["accuracy"]
    assert (accuracy["calibration"], accuracy["feeds"], accuracy["measured"], accuracy["unseen"]) == (
        "seeded feeds",
        31,
        7,
        True,
    )
    low, high = accuracy["inputs"]["x"]
    assert low < -5.0 < 5.0 < high
    feeds = [{n: np.ones(graph.types[n].shape, np.float32) for n in graph.inputs}] * 3
    kept = compiler.Calibration.from_json(compiler.calibrate(graph, feeds).to_json())
    accuracy = compiler.compile(graph, precision="int8", calibration=kept).report()["accuracy"]
    assert (accuracy["calibration"], accuracy["feeds"], accuracy["measured"], accuracy["unseen"]) == (
        "given feeds",
        3,
        3,
        False,
    )


def test_feeds_that_are_not_numbers_are_refused():
    graph = compiler.load(Dense((3, 2), 1, "Relu", 0).made())
    with pytest.raises(ModelError, match="feed 0: input 'x' holds what is not a number"):
        compiler.calibrate(graph, [{"x": np.full((1, 3), np.nan, np.float32)}])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_any_more_is_an_error_without_end(wrong):
    ends = np.array([[1.0, np.inf, np.nan]], np.float32)
    assert errors([ends], [ends])["max"] == 0.0
    for reference in (np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)):
        found = errors([reference], [np.array([[1.0, wrong]], np.float32)])
        assert (found["max"], found["relative"], found["snr_db"]) == (ENDLESS, ENDLESS, -999.0)
        report = {"outputs": {"y": found}, "calibration": "", "feeds": 1, "measured": 1, "unseen": True, "inputs": {}}
        assert "no numbers" in listing.accuracy(report)[0]


def test_a_given_feed_that_float16_cannot_hold_shows_in_the_report():
    graph = compiler.load(Dense((8, 4), 1, "Relu", 0).made())
    feeds = [{"x": np.full((1, 8), 1e5 if n == 3 else 1.0, np.float32)} for n in range(8)]
    found = compiler.compile(graph, precision="float16", calibration=feeds).report()["accuracy"]["outputs"]["y"]
    assert found["max"] == ENDLESS
    feeds = [{"x": np.full((1, 8), 1e5 if n == 2 else 1.0, np.float32)} for n in range(8)]
    found = compiler.compile(graph, precision="float16", calibration=feeds).report()["accuracy"]["outputs"]["y"]
    assert found["relative"] < 1e-2
