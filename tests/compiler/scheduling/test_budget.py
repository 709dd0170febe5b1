"""Long programs: work that grows with their length, and a refusal before the work where they are too long."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import compiler
from compiler.errors import DoesNotFit
from compiler.ir import expr
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.expr import Expr, Step, spliced
from compiler.ir.graph import Graph, Operand
from compiler.ir.terms import arg, expression, term_of
from compiler.ir.types import DType, TensorType
from compiler.memory import plan as memory
from compiler.memory.plan import LiveRange, plan
from compiler.passes import optimise
from compiler.passes.fuse import MAX_STEPS
from compiler.tiling import budget
from compiler.tiling.budget import EFFORT, OPERATION, Tiles, TooLong
from tests.tiers import some

F32 = DType.F32


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    """Operands 0 to 2, literals that are equal but for the sign of a zero, and sums and products of any of them."""
    steps = [Step("arg", (), F32, draw(st.integers(0, 2)))]
    for _ in range(draw(st.integers(0, 8))):
        one, other = (draw(st.integers(0, len(steps) - 1)) for _ in range(2))
        kinds = (
            Step("arg", (), F32, draw(st.integers(0, 2))),
            Step("const", (), F32, draw(st.sampled_from((0.0, -0.0, 1.0)))),
            Step("neg", (one,), F32),
            Step(draw(st.sampled_from(("add", "mul"))), (one, other), F32),
        )
        steps.append(draw(st.sampled_from(kinds)))
    return Expr(tuple(steps))


@settings(max_examples=some(100))
@given(expressions(), expressions(), st.integers(0, 2), st.integers(1, 20))
def test_steps_put_into_steps_are_the_expression_of_the_terms(outer, inner, position, most):
    whole = expression(term_of(outer, {position: term_of(inner)}))
    found = spliced(outer, position, inner.steps, most)  # compared as written: 0.0 and -0.0 are equal numbers
    assert repr(found) == repr(whole if len(whole.steps) <= most else None)


def chain(length: int) -> Graph:
    b = Builder("chain")
    b.source = ("c",)
    value = b.input("x", TensorType(F32, (4,)))
    for _ in range(length):
        value = b.compute((4,), [Operand(value, Access.identity(1))], arg(0, F32).op("sin"))
    return b.finish({"y": value}, {}, {})


def test_what_is_too_long_to_be_fused_is_not_asked_again(monkeypatch):
    looked_at = []
    distinct = expr.distinct

    def counted(steps, most):
        looked_at.append(len(steps))
        return distinct(steps, most)

    monkeypatch.setattr(expr, "distinct", counted)
    made = optimise(chain(1000))
    assert len(made.nodes) == -(-1000 // (MAX_STEPS - 1))
    assert sum(n > MAX_STEPS for n in looked_at) <= 4 * len(made.nodes)
    assert len(looked_at) <= 1000 + 4 * len(made.nodes)


def test_tiles_beyond_the_most_are_refused_before_they_are_made():
    tiles = Tiles(3)
    for _ in range(3):
        tiles.append(SimpleNamespace())
    with pytest.raises(TooLong, match=r"at least 4 instructions.* may have 3"):
        tiles.append(SimpleNamespace())
    with pytest.raises(TooLong, match="at least 1003 instructions"):
        tiles.expect(1000)
    assert len(tiles) == 3


def model(nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(constants))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def value(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_a_filter_as_large_as_its_image_is_refused_by_name_and_count():
    weights = numpy_helper.from_array(np.ones((1, 1, 501, 501), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="wide")
    graph = compiler.load(model([node], [value("x", (1, 1, 2000, 2000))], [value("y", None)], [weights]))
    with pytest.raises(TooLong, match=r"^wide.*at least \d{7,} instructions.*smaller"):
        compiler.compile(graph)


def test_products_that_no_pass_merges_are_refused_before_tiles_are_made(monkeypatch):
    monkeypatch.setattr(budget, "EFFORT", 20 * OPERATION)
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    names = ["x", *(f"v{n}" for n in range(30))]
    nodes = [helper.make_node("MatMul", [a, "w"], [b]) for a, b in pairwise(names)]
    graph = compiler.load(model(nodes, [value("x", (2, 4))], [value(names[-1], (2, 4))], [weights]))
    stages: list[str] = []
    with pytest.raises(TooLong, match=r"has 31 operations and inputs.* at most 19"):
        compiler.compile(graph, on_stage=stages.append)
    assert stages == ["fuse"]


def test_what_is_too_long_and_too_large_says_what_memory_is_missing(monkeypatch):
    monkeypatch.setattr(budget, "EFFORT", 500)
    weights = numpy_helper.from_array(np.ones((8, 8, 9, 9), np.float32), "w")
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="wide")
    graph = compiler.load(model([node], [value("x", (1, 8, 400, 400))], [value("y", None)], [weights]))
    with pytest.raises(DoesNotFit, match="needs at least") as refused:
        compiler.compile(graph, "edge")
    assert refused.value.asked >= 4 * 8 * (400**2 + 392**2)
    assert "target" in {lever["lever"] for lever in refused.value.levers}


def test_real_programs_are_far_from_the_limit():
    assert EFFORT >= 2 * 27_400 + 400 * OPERATION  # text detection in float32 has the most instructions of the models


@settings(max_examples=some(25), deadline=None)
@given(st.data())
def test_buffers_lie_where_a_look_at_each_neighbour_has_them(data):
    buffers = [
        LiveRange(f"b{n}", 320 * data.draw(st.integers(1, 5)), start, start + data.draw(st.integers(1, 40)))
        for n, start in enumerate(data.draw(st.lists(st.integers(0, 60), min_size=1, max_size=12)))
    ]
    ii = data.draw(st.sampled_from((None, 45, 100)))
    found = []
    for few, many in ((1, 1000), (1, 1), (13, 1000), (13, 1)):  # neighbours by name or by row, each or all at once
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(memory, "FEW", few)
            patch.setattr(memory, "MANY", many)
            found.append(plan(buffers, ii))
    assert all(one == found[0] for one in found)
