"""Epilogues that ask where they are (a causal mask): exact however a contraction's loops are cut, shared or turned."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg, index, select
from compiler.ir.types import DType, TensorType
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import factor, feeds
from tests.compiler.tiling.test_parted import only
from tests.tiers import some

F16, F32 = DType.F16, DType.F32
SIZES = st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 400), st.integers(1, 40))


def masked(sizes, asked, kind, *, constant):
    """A batch of products [batch, rows, columns] over a depth; what lies beyond a line through the ``asked`` loops is 7."""
    batch, rows, columns, depth = sizes
    b = Builder("masked")
    x = b.input("x", TensorType(kind, (batch, rows, depth)))
    w = factor(b, TensorType(kind, (batch, depth, columns)), constant)
    b.source = ("masked",)
    operands = [
        Operand(x, Access((0, 0, 0), ((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 0, 1)))),
        Operand(w, Access((0, 0, 0), ((1, 0, 0, 0), (0, 0, 0, 1), (0, 0, 1, 0)))),
    ]
    place = sum((index(loop) * (2 * at - 1) for at, loop in enumerate(asked[1:], 1)), index(asked[0]))
    post = select(place.op("le", sum(sizes[loop] for loop in asked) // 2), arg(-1, F32), 7.0)
    term = arg(0, kind).widen("mul", arg(1, kind), F32)
    y = b.compute((batch, rows, columns, depth), operands, term, parallel=3, reducer="sum", post=post)
    return b.finish({"y": y}, {}, {})


@settings(max_examples=some(40), deadline=None)
@given(
    SIZES, st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), st.sampled_from([F16, F32]), st.booleans()
)
def test_a_mask_by_coordinates_is_exact(sizes, asked, kind, constant):
    graph = masked(sizes, asked, kind, constant=constant)
    check_program(graph, "lpu", [feeds(graph, 1)])


@pytest.mark.parametrize("found", ["packed_columns", "packed_remainder", "swapped_remainder"])
@pytest.mark.parametrize("asked", [[0], [1], [2], [2, 1]])
@pytest.mark.parametrize("sizes", [(6, 4, 18, 8), (4, 60, 12, 16), (1, 200, 40, 12)])
def test_loops_that_are_asked_for_are_not_cut(sizes, asked, found):
    graph = masked(sizes, asked, F16, constant=False)
    with pytest.MonkeyPatch.context() as patch:
        only(patch, found)
        check_program(graph, "lpu", [feeds(graph, 1)])
