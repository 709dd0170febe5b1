"""What every step of a loop would compute again is computed once, and read as a view."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import optimise, repeats

F32 = DType.F32


def expanded(rows, columns, steps, kept=False):
    """A row of numbers expanded to ``rows``, through maps and sums, and at the end weighing another value."""
    b = Builder("expanded")
    b.source = ("expanded",)
    mask, x = b.input("mask", TensorType(F32, (columns,))), b.input("x", TensorType(F32, (rows, columns)))
    value = b.view(mask, (rows, columns), Access((0,), ((0, 1),)))
    for step in steps:
        if step == "map":
            value = b.compute((rows, columns), [Operand(value, Access.identity(2))], arg(0, F32).op("abs") + 1.0)
        else:
            total = b.compute(
                (rows, columns), [Operand(value, Access.identity(2))], arg(0, F32), parallel=1, reducer="sum"
            )
            value = b.compute(
                (rows, columns),
                [Operand(value, Access.identity(2)), Operand(total, Access((0,), ((1, 0),)))],
                arg(0, F32) * arg(1, F32),
            )
    both = [Operand(value, Access.identity(2)), Operand(x, Access.identity(2))]
    out = b.compute((rows, columns), both, arg(0, F32) * arg(1, F32))
    return b.finish({"out": out, "value": value} if kept else {"out": out}, {}, {})


def points(graph):
    return sum(n.points * n.reduction for n in graph.nodes if isinstance(n, Compute))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 5),
    columns=st.integers(1, 5),
    steps=st.lists(st.sampled_from(("map", "sum")), max_size=4),
    kept=st.booleans(),
)
def test_values_stay_and_nothing_is_computed_for_every_row(rows, columns, steps, kept):
    graph = expanded(rows, columns, steps, kept)
    shorter = verify(repeats(graph))
    rng = np.random.default_rng(0)
    feeds = {"mask": rng.standard_normal(columns).astype("f4"), "x": rng.standard_normal((rows, columns)).astype("f4")}
    before, after = run(graph, feeds), run(shorter, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert points(shorter) <= points(graph)


def test_only_what_weighs_the_rows_is_done_for_each_of_them():
    made = optimise(expanded(64, 16, ["map", "sum", "map"]))
    assert points(made) <= 64 * 16 + 4 * 16


def test_an_output_is_made_as_it_is():
    graph = expanded(8, 4, ["map"], kept=True)
    assert next(n.output for n in repeats(graph).nodes if isinstance(n, Compute)) == "value"
