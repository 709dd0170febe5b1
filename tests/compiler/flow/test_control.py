"""If and Loop whose course the data decides, through the whole compiler, against ONNX Runtime."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler import targets
from compiler.ir.interpreter import InterpreterFault, run
from compiler.ir.parse import parse
from compiler.ir.text import blobs, to_text
from compiler.ir.verifier import verify
from compiler.passes import optimise
from compiler.simulator import SimulationError
from tests.compiler.checks import check_rows, same
from tests.compiler.flow.models import (
    F32,
    I64,
    MODELS,
    SHAPE,
    arm,
    choice,
    feeds,
    if_model,
    loop_model,
    model,
    value,
)


def expected(data, feed):
    """What ONNX Runtime answers."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(data, options).run(None, feed)[0]


@pytest.mark.parametrize("name", MODELS)
def test_every_way_gives_the_result_of_onnx_runtime_and_costs_no_more_than_the_bound(name):
    data, bounds = MODELS[name]
    graph = compiler.load(data, bounds=bounds)
    program = compiler.compile(graph)
    assert not program.resources.exact
    assert "depends on the data at" in program.resources.reason
    check_rows(program.binary, program.target, program.resources)
    costs = set()
    for seed in range(6):
        feed = feeds(data, seed)
        outputs, counters = compiler.simulate(program.to_bytes(), feed)
        (got,) = outputs.values()
        np.testing.assert_allclose(got, expected(data, feed), rtol=1e-5)
        assert same(got, run(graph, feed)[next(iter(outputs))])
        assert counters.within(program.resources)
        assert not counters.exact
        costs.add(counters.cycles)
    assert len(costs) > 1, "different inputs cost different numbers of cycles"
    assert max(costs) <= program.resources.cycles == program.binary.latency


def test_an_if_costs_its_dearer_side_and_the_bound_is_reached_exactly():
    data = if_model(yes=[("Mul", 2.0), ("Add", 1.0), ("Sub", 3.0)], no=[("Add", 1.0)])
    program = compiler.compile(compiler.load(data))
    x = np.ones(SHAPE, np.float32)
    counted = [compiler.simulate(program.to_bytes(), {"c": np.array(c), "x": x})[1] for c in (True, False)]
    bound = program.resources
    for field in ("cycles", "operations", "executed_operations"):
        assert max(getattr(c, field) for c in counted) == getattr(bound, field)
    assert max(c.memory.read for c in counted) == bound.memory.read
    assert max(c.memory.written for c in counted) == bound.memory.written
    straight = compiler.compile(compiler.load(data, constants={"c": np.ones((), bool)}))
    assert straight.resources.exact
    assert straight.resources.cycles < bound.cycles


def test_a_loop_that_stops_early_executes_fewer_cycles_than_its_bound():
    program = compiler.compile(compiler.load(loop_model(6)))
    small, large = (np.full(SHAPE, v, np.float32) for v in (0.001, 40.0))
    _, long = compiler.simulate(program.to_bytes(), {"x": small})
    _, short = compiler.simulate(program.to_bytes(), {"x": large})
    assert short.cycles < long.cycles <= program.resources.cycles
    assert short.operations < long.operations == program.resources.operations


def test_feeds_one_after_the_other_take_their_own_ways():
    data, _ = MODELS["nested"]
    program = compiler.compile(compiler.load(data))
    given = [feeds(data, seed) for seed in range(4)]
    outputs, counters = compiler.simulate(program.to_bytes(), given)
    for feed, output in zip(given, outputs, strict=True):
        np.testing.assert_allclose(output["z"], expected(data, feed), rtol=1e-5)
    assert counters.within(program.resources)
    assert counters.cycles == max(compiler.simulate(program.to_bytes(), f)[1].cycles for f in given)


@pytest.mark.parametrize("name", MODELS)
def test_passes_keep_every_bit_and_the_text_reads_back(name):
    data, bounds = MODELS[name]
    graph = compiler.load(data, bounds=bounds)
    small = optimise(graph, check=verify)
    assert parse(to_text(small), blobs(small)) == small
    assert parse(to_text(graph), blobs(graph)) == graph
    for seed in range(8):
        feed = feeds(data, seed)
        for key, want in run(graph, feed).items():
            assert same(run(small, feed)[key], want)


def test_a_loop_without_a_bound_names_the_bound_to_supply():
    with pytest.raises(compiler.ModelError, match=r"grow.*bounds=\{'grow': 20\}"):
        compiler.load(loop_model())


def test_a_bound_for_a_loop_that_is_not_there_is_refused():
    with pytest.raises(compiler.ModelError, match=r"no loop 'grwo' to bound; it has grow"):
        compiler.load(loop_model(), bounds={"grwo": 3})


def test_a_loop_that_would_go_on_beyond_its_bound_is_a_fault_and_no_wrong_answer():
    graph = compiler.load(loop_model(), bounds={"grow": 3})
    program = compiler.compile(graph)
    slow = {"x": np.full(SHAPE, 0.01, np.float32)}
    with pytest.raises(SimulationError, match=r"grow makes more trips than its bound.*outside a dimension of 1"):
        compiler.simulate(program.to_bytes(), slow)
    with pytest.raises(InterpreterFault):
        run(graph, slow)
    quick = {"x": np.full(SHAPE, 30.0, np.float32)}
    np.testing.assert_array_equal(compiler.simulate(program.to_bytes(), quick)[0]["y"], 2 * quick["x"])


def test_a_limit_given_at_run_time_counts_as_well():
    data = loop_model(given=True)
    program = compiler.compile(compiler.load(data, bounds={"grow": 5}))
    x = np.full(SHAPE, 0.01, np.float32)
    for trips in range(6):
        feed = {"x": x, "m": np.array(trips)}
        np.testing.assert_array_equal(compiler.simulate(program.to_bytes(), feed)[0]["y"], x * 2**trips)
    with pytest.raises(SimulationError):
        compiler.simulate(program.to_bytes(), {"x": x, "m": np.array(6)})


def test_branches_of_different_shapes_are_refused_with_what_to_change():
    nodes = [choice("odd", "c", "y", arm("a", [("Mul", 2.0)]), _other_shape())]
    data = model(nodes, [value("c", 9), value("x", F32, SHAPE)], [value("y", F32, [None, 8])])
    with pytest.raises(compiler.ModelError, match=r"odd: If: its result 1 is f32\[4,8\] in one branch and f32\[2,8\]"):
        compiler.load(data)


def _other_shape():
    parts = [helper.make_node("Split", ["x"], ["h", "l"], axis=0)]
    return helper.make_graph(parts, "b", [], [value("h", F32, [2, 8])])


def test_an_if_that_only_chooses_between_values_is_a_branch_too():
    arms = [
        helper.make_graph(
            [helper.make_node("Constant", [], [n], value=numpy_helper.from_array(np.full(SHAPE, k, np.float32), n))],
            n,
            [],
            [value(n, F32, SHAPE)],
        )
        for n, k in (("a", 1), ("b", 2))
    ]
    data = model([choice("pick", "c", "y", *arms)], [value("c", 9)], [value("y", F32, SHAPE)])
    program = compiler.compile(compiler.load(data))
    for c in (True, False):
        outputs, _ = compiler.simulate(program.to_bytes(), {"c": np.array(c)})
        np.testing.assert_array_equal(outputs["y"], np.full(SHAPE, 1 if c else 2, np.float32))


def test_a_processor_without_a_control_unit_says_so():
    text = (Path(targets.__file__).parent / "lpu.toml").read_text()
    start, end = text.index("[control]"), text.index("# Arithmetic-unit")
    without = targets.parse(text[:start] + text[end:])
    with pytest.raises(compiler.ModelError, match=r"outer: .*has no control unit"):
        compiler.compile(compiler.load(if_model()), without)


def test_results_of_every_trip_are_as_many_as_there_were_trips():
    body = helper.make_graph(
        [
            helper.make_node("Add", ["v", "v"], ["v2"]),
            helper.make_node("Identity", ["v2"], ["each"]),
            helper.make_node("Identity", ["on"], ["more"]),
        ],
        "body",
        [value("i", I64), value("on", 9), value("v", F32, SHAPE)],
        [value("more", 9), value("v2", F32, SHAPE), value("each", F32, SHAPE)],
    )
    loop = helper.make_node("Loop", ["m", "", "x"], ["y", "all"], body=body, name="collect")
    inputs = [value("x", F32, SHAPE), value("m", I64)]
    data = model([loop], inputs, [value("y", F32, SHAPE), value("all", F32, [None, *SHAPE])])
    known = compiler.load(data, constants={"m": np.array(3)})
    x = np.ones(SHAPE, np.float32)
    np.testing.assert_array_equal(run(known, {"x": x})["all"], np.stack([2 * x, 4 * x, 8 * x]))
    program = compiler.compile(compiler.load(data, bounds={"collect": 3}))
    for trips in range(4):
        outputs, counters = compiler.simulate(program.to_bytes(), {"x": x, "m": np.array(trips)})
        np.testing.assert_array_equal(
            outputs["all"], np.stack([x] * 3)[:trips] * np.array([2, 4, 8])[:trips, None, None]
        )
        assert counters.within(program.resources)
