"""Few products go where their result is there first; many stay on the planes."""

import pytest

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from tests.compiler.checks import check_program
from tests.compiler.schedule.test_narrow import feeds, values
from tests.compiler.schedule.test_shared_passes import widened

CODES, HALVES = (DType.U8, DType.I8), (DType.F16, DType.F16)


def dense(inputs, outputs, kinds):
    """One row by a matrix."""
    kind, weights = kinds
    b = Builder("dense")
    x = b.input("x", TensorType(kind, (inputs,)))
    w = b.constant(values(TensorType(weights, (outputs, inputs)), 1))
    operands = [Operand(x, Access((0,), ((0, 1),))), Operand(w, Access((0, 0), ((1, 0), (0, 1))))]
    b.source = ("dense",)
    return b.finish({"y": b.compute((outputs, inputs), operands, widened(*kinds), parallel=1, reducer="sum")}, {}, {})


@pytest.mark.parametrize(
    ("inputs", "outputs", "kinds", "planes"),
    [(88, 22, CODES, False), (22, 88, CODES, False), (200, 200, CODES, True), (88, 22, HALVES, True)],
)
def test_a_few_integer_products_are_summed_in_the_tree(inputs, outputs, kinds, planes):
    graph = dense(inputs, outputs, kinds)
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    assert any(i.opcode == Op.MATMUL for i in binary.rows) == planes
