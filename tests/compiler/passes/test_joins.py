"""A map behind a join is computed where the parts are made."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Join, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import fuse
from compiler.passes.joins import behind_parts
from tests.tiers import some

F32 = DType.F32


def joined(sizes, axis, bias, shared):
    """Maps of inputs side by side, and a map of all, with a bias along ``bias``; ``shared``: a part has another reader."""
    b = Builder("joined")
    b.source = ("joined",)
    shapes = [tuple(size if j == axis else 3 for j in range(2)) for size in sizes]
    parts = []
    for number, shape in enumerate(shapes):
        x = b.input(f"x{number}", TensorType(F32, shape))
        parts.append(b.compute(shape, [Operand(x, Access.identity(2))], arg(0, F32) * 3.0))
    whole = b.join(parts, axis)
    values = b.constant(np.arange(b.shape(whole)[bias], dtype="f4"))
    along = Access((0,), (tuple(int(i == bias) for i in range(2)),))
    term = (arg(0, F32) + arg(1, F32)).op("max", 0.5)
    out = b.compute(b.shape(whole), [Operand(whole, Access.identity(2)), Operand(values, along)], term)
    return b.finish({"out": out} | ({"part": parts[0]} if shared else {}), {}, {})


@settings(max_examples=some(60), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=2, max_size=3), st.integers(0, 1), st.integers(0, 1), st.booleans())
def test_a_map_of_joined_values_ends_the_operations_that_make_them(sizes, axis, bias, shared):
    graph = joined(sizes, axis, bias, shared)
    made = verify(fuse(behind_parts(graph)))
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.types[name].shape).astype("f4") for name in graph.inputs}
    before, after = run(graph, feeds), run(made, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert isinstance(made.nodes[-1], Join) != shared
    work = [sum(n.operations for n in g.nodes if isinstance(n, Compute)) for g in (graph, made)]
    assert work[0] == work[1]
