"""A processor with too little memory: other orders and bands first, then a refusal with measured levers."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler import targets
from compiler.driver import quiet
from compiler.ir.interpreter import run
from compiler.passes import optimise, shape_for_units
from compiler.scheduling.build import plans, tiled
from compiler.targets import catalogue
from compiler.targets.loader import parse
from compiler.tiling import external
from tests.compiler.checks import check_rows, same
from tests.compiler.passes.test_bands import WIDE, images, work
from tests.compiler.tiling.test_shared_passes import KINDS, dense, grouped, heads

GRAPH = compiler.load(images(WIDE, side=48))
X = np.random.default_rng(3).standard_normal((1, 3, 48, 48)).astype(np.float32)


def machine(memory, name="lpu"):
    """The processor with one arena at a time and so much memory."""
    text = catalogue.text(name).replace(f'name = "{name}"', 'name = "short"')
    text = re.sub(r"(?m)^copies = .*$", 'copies = { value = 1, source = "chosen" }', text)
    return parse(re.sub(r"(?m)^bytes = .*$", f'bytes = {{ value = {memory}, source = "chosen" }}', text, count=1))


def small(share):
    """That share of the memory that the program takes of its own accord."""
    taken = compiler.compile(GRAPH, machine(320 * 50_000)).resources.storage.total
    return machine(taken * share // 100 // 320 * 320)


@pytest.mark.parametrize("share", [92, 70])
def test_a_program_that_does_not_fit_runs_one_operation_after_the_other_and_then_in_bands(share):
    target = small(share)
    program = compiler.compile(GRAPH, target)
    assert program.resources.storage.total <= target.memory_bytes
    assert program.resources.operations == work(shape_for_units(optimise(GRAPH)))
    outputs, counters = compiler.simulate(program.to_bytes(), {"x": X}, target)
    assert counters == program.resources
    check_rows(program.binary, target, program.resources)
    for name, value in run(GRAPH, {"x": X}).items():
        assert same(outputs[name], value)


def test_what_fits_in_no_way_is_refused_with_what_each_lever_really_does():
    target = small(15)
    with pytest.raises(compiler.DoesNotFit) as refused:
        compiler.compile(GRAPH, target)
    levers = {lever["lever"]: lever for lever in refused.value.levers}
    assert refused.value.available == target.memory_bytes
    assert levers["bands"]["measured"]
    assert 0 < levers["bands"]["effect"] < refused.value.gap
    assert levers["bands"]["cycles"] > 0
    other = next(lever for lever in refused.value.levers if lever["text"].startswith("lpu has"))
    assert other["measured"]
    roomy = compiler.compile(GRAPH, machine(320 * 50_000))
    assert f"it fits there, in {roomy.resources.cycles} cycles" in other["text"]


@pytest.mark.parametrize(("name", "precision"), [("edge", "float32"), ("edge", "float16"), ("lpu", "float16")])
def test_fewer_bits_are_not_advised_where_they_are_used_or_weights_lie_outside(name, precision):
    with pytest.raises(compiler.DoesNotFit) as refused:
        compiler.compile(GRAPH, machine(320 * 8, name), precision)
    assert "precision" not in {lever["lever"] for lever in refused.value.levers}


def test_fewer_bits_are_advised_by_the_bytes_of_the_weights():
    with pytest.raises(compiler.DoesNotFit) as refused:
        compiler.compile(GRAPH, machine(320 * 8))
    lever = next(lever for lever in refused.value.levers if lever["lever"] == "precision")
    assert lever["effect"] == sum(a.nbytes for a in GRAPH.constants.values() if a.ndim == 4) // 2


def words(count, width, length):
    """A table of rows, of which some are looked up at run time."""
    table = numpy_helper.from_array(np.zeros((count, width), np.float32), "table")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [length])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [length, width])
    return helper.make_model(
        helper.make_graph([helper.make_node("Gather", ["table", "ids"], ["y"])], "words", [ids], [y], [table]),
        opset_imports=[helper.make_opsetid("", 17)],
    )


def test_what_no_order_makes_fit_is_refused_without_a_schedule(monkeypatch):
    graph = compiler.load(words(60_000, 64, 2_000))
    monkeypatch.setattr("compiler.tiling.external._redirected", None)  # nothing is fetched
    with pytest.raises(compiler.DoesNotFit, match="needs at least") as refused:
        compiler.compile(graph, "edge")
    assert refused.value.asked >= 60_000 * 64 * 4
    assert any(lever["text"].startswith("lpu has") for lever in refused.value.levers)


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(["lpu", "systolic", "edge"]),
    st.integers(1, 3),
    st.booleans(),
    st.one_of(
        st.builds(dense, st.integers(1, 60), st.integers(1, 90), st.integers(1, 90), st.sampled_from(KINDS)),
        st.builds(lambda n, k: grouped(n, 2, 2, 7, *k), st.integers(1, 20), st.sampled_from(KINDS)),
        st.builds(heads, st.integers(1, 5), st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    ),
)
def test_no_plan_takes_less_than_its_tiles_ask_for(name, at, turns, graph):
    target = targets.load(name)
    extent = [*external.extents(target)][:at][-1]
    made = tiled(graph, target, quiet, extent, in_turns=turns)
    least, most = made.least, made.most
    (plan,) = plans(made, quiet, 1, ("balanced",))
    assert target.on_chip(plan.map.total, 0) >= least
    assert most >= least
