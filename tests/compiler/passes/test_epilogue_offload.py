"""Epilogues of more passes than one are shared with the vector unit where the interval is all that counts, bit for bit."""

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.passes.epilogue_offload import offload_epilogues
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds, values
from tests.compiler.tiling.test_shared_passes import widened
from tests.tiers import some

HALF, FULL = DType.F16, DType.F32


def products(rows, columns, layers):
    """Products of a small input, each followed by a polynomial that reads its sum twice."""
    b = Builder("products")
    value = b.input("x", TensorType(HALF, (rows, columns)))
    w = b.constant(values(TensorType(HALF, (columns, columns)), 1))
    for _ in range(layers):
        left = Operand(value, Access((0, 0), ((1, 0, 0), (0, 0, 1))))
        right = Operand(w, Access((0, 0), ((0, 1, 0), (0, 0, 1))))
        total = arg(-1, FULL) * 0.01
        post = (total * ((total * 0.5 + 0.25).op("max", 0.0).op("min", 1.0))).cast(HALF)
        value = b.compute(
            (rows, columns, columns), [left, right], widened(HALF, HALF), parallel=2, reducer="sum", post=post
        )
    return b.finish({"y": value}, {}, {})


@settings(max_examples=some(8), deadline=None)
@given(rows=st.integers(40, 160), columns=st.integers(24, 160), layers=st.integers(1, 3))
def test_shared_epilogues_keep_their_bits(rows, columns, layers):
    graph = products(rows, columns, layers)
    check_program(graph, "lpu", [feeds(graph, seed) for seed in range(3)], objective="interval")


def test_planes_with_more_to_do_than_the_links_are_relieved():
    graph = products(160, 160, 24)
    assert len(offload_epilogues(graph, targets.load("lpu")).nodes) > len(graph.nodes)
