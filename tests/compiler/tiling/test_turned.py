"""Columns left over behind full planes move past the other factor."""

import pytest

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.tiling import loop_nests
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds, values
from tests.compiler.tiling.test_shared_passes import widened

CODES, HALVES = (DType.U8, DType.I8), (DType.F16, DType.F16)


def windowed(rows, columns, kinds):
    """A convolution of three taps over ``rows`` positions of 64 channels, to so many channels."""
    b = Builder("windowed")
    x = b.input("x", TensorType(kinds[0], (rows + 2, 64)))
    w = b.constant(values(TensorType(kinds[1], (columns, 3, 64)), 1))
    b.source = ("windowed",)
    reads = [
        Operand(x, Access((0, 0), ((1, 0, 1, 0), (0, 0, 0, 1)))),
        Operand(w, Access((0, 0, 0), ((0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))),
    ]
    return b.finish({"y": b.compute((rows, columns, 3, 64), reads, widened(*kinds), parallel=2, reducer="sum")}, {}, {})


@pytest.mark.parametrize(
    ("rows", "columns", "kinds", "left"),
    [(300, 192, HALVES, 32), (700, 352, CODES, 32), (300, 310, HALVES, 0), (300, 320, HALVES, 0), (40, 192, HALVES, 0)],
)
def test_columns_left_over_move(rows, columns, kinds, left):
    graph = windowed(rows, columns, kinds)
    found = loop_nests.swapped_remainder(loop_nests.plain(graph.nodes[0]), 1, targets.load("lpu"))
    assert [(w.stationary, w.node.points // rows) for w in found] == ([(1, columns - left), (0, left)] if left else [])


@pytest.mark.parametrize(("rows", "columns", "kinds"), [(300, 192, HALVES), (700, 352, CODES)])
def test_programs_with_both_factors_in_planes_compute_the_same(rows, columns, kinds):
    graph = windowed(rows, columns, kinds)
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    moved = {i.count1 for i in binary.rows if i.opcode == Op.MATMUL}
    assert columns % 160 in moved
