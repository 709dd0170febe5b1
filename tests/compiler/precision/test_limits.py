"""How many contractions a calibration leaves in float16 to keep its goal."""

from collections import Counter
from functools import cache
from importlib import import_module
from unittest.mock import patch

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.passes import optimise
from compiler.precision.convert import choose
from tests.tiers import some

PREPARE = import_module("compiler.precision.prepare")  # the package has a function of this name
LAYERS = 8


@cache
def graph():
    """Convolutions of 8 channels, one of which is the larger the later it comes: each loses more than the one before."""
    rng = np.random.default_rng(3)
    nodes, weights = [], []
    for n in range(LAYERS):
        array = (rng.standard_normal((8, 8, 3, 3)) / 6).astype(np.float32)
        array[0] *= 1 + n
        weights.append(numpy_helper.from_array(array, f"w{n}"))
        source = f"r{n - 1}" if n else "x"
        nodes += [helper.make_node("Conv", [source, f"w{n}"], [f"c{n}"], pads=[1, 1, 1, 1])]
        nodes += [helper.make_node("Relu", [f"c{n}"], [f"r{n}"])]
    ends = (("x", [1, 8, 8, 8]), (f"r{LAYERS - 1}", [1, 8, 8, 8]))
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in ends]
    made = helper.make_graph(nodes, "chain", ports[:1], ports[1:], weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return optimise(compiler.load(onnx.ModelProto.FromString(model.SerializeToString())))


def feeds(count):
    return [{"x": np.random.default_rng(n).standard_normal((1, 8, 8, 8)).astype(np.float32)} for n in range(count)]


def calibration(goal, halvings, examples):
    """The calibration with limits that rise in large steps, how many contractions it leaves in float16, and its dB."""
    with patch.multiple(PREPARE, GOAL=goal, HALVINGS=halvings, STEP=16.0):
        found = PREPARE.calibrated(graph(), examples, "int8")
    halves = Counter(choose(graph(), found).values())["half"]
    return found, halves, min(one["snr_db"] for one in found.errors["int8"].values())


@settings(max_examples=some(15), deadline=None)
@given(st.floats(15.0, 60.0), st.integers(1, 2))
def test_what_falls_back_keeps_the_goal_in_no_more_float16(goal, count):
    risen, most, _ = calibration(goal, 0, feeds(count))
    found, halves, kept = calibration(goal, 2, feeds(count))
    assert halves <= most
    assert kept >= goal or found == risen


def test_a_goal_that_is_nearly_kept_costs_some_of_the_contractions():
    _, none, kept = calibration(0.0, 2, feeds(2))
    _, most, _ = calibration(kept + 0.001, 0, feeds(2))
    _, halves, _ = calibration(kept + 0.001, 2, feeds(2))
    assert none < halves < most


def test_made_up_feeds_keep_the_margin_of_the_last_rise():
    _, _, kept = calibration(0.0, 0, None)
    assert calibration(kept + 0.001, 0, None) == calibration(kept + 0.001, 2, None)
