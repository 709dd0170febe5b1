"""Scatters that leave lines of their data as they are: whoever reads the result waits for those lines, too."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.compiler.checks import check_program
from tests.compiler.graphs import feeds_for
from tests.tiers import some

INPUT, CONSTANT, MADE = "input", "constant", "made"
OUTPUT, MAP, JOIN, RESHAPE = "output", "map", "join", "reshape"


def doubled(b: Builder, value: str) -> str:
    shape = b.shape(value)
    return b.compute(shape, [Operand(value, Access.identity(len(shape)))], arg(0, DType.F32) * 2)


def scattered(shape, parts, axis, reducer, reader, shown):
    """A join of ``parts`` with a place in the first and in the last column of its first rows written, read by ``reader``;
    ``shown``: the join and its first part are outputs as well."""
    b = Builder("scattered")
    b.source = ("s",)
    rng = np.random.default_rng(len(parts))
    made = []
    for n, part in enumerate(parts):
        if part == CONSTANT:
            made.append(b.constant(rng.standard_normal(shape).astype("f4")))
        else:
            value = b.input(f"x{n}", TensorType(DType.F32, shape))
            made.append(doubled(b, value) if part == MADE else value)
    data = b.join(made, axis)
    rows, columns = b.shape(data)
    places = Operand(b.constant(np.array([0, columns - 1])), Access((0,), ((1, 0),)))
    update = Operand(b.input("update", TensorType(DType.F32, (2, (rows + 1) // 2))), Access.identity(2))
    out = b.scatter(data, b.shape(update.value), Access((0, 0), ((0, 1), (0, 0))), [None, places], update, reducer)
    read = {
        OUTPUT: lambda: out,
        MAP: lambda: doubled(b, out),
        JOIN: lambda: b.join([out, data], 0),
        RESHAPE: lambda: b.reshape(out, (rows * columns,)),
    }
    outputs = {"y": read[reader]()} | ({"data": data, "part": made[0]} if shown else {})
    return b.finish(outputs, {}, {})


@settings(max_examples=some(25), deadline=None)
@given(
    st.tuples(st.sampled_from((1, 4, 9)), st.sampled_from((1, 4, 150))),
    st.lists(st.sampled_from((INPUT, CONSTANT, MADE)), min_size=1, max_size=4),
    st.integers(0, 1),
    st.sampled_from((None, "sum", "prod", "max", "min")),
    st.sampled_from((OUTPUT, MAP, JOIN, RESHAPE)),
    st.booleans(),
)
def test_what_a_scatter_leaves_is_there_before_it_is_read(shape, parts, axis, reducer, reader, shown):
    graph = scattered(shape, parts, axis, reducer, reader, shown)
    for name in ("lpu", "systolic"):
        check_program(graph, name, [feeds_for(graph, 1), feeds_for(graph, 2)])
