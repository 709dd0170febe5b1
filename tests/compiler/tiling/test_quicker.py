"""Few products go where their result is there first; many stay on the planes."""

import pytest

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_narrow import feeds, values
from tests.compiler.tiling.test_shared_passes import widened

CODES, HALVES = (DType.U8, DType.I8), (DType.F16, DType.F16)


def dense(inputs, outputs, kinds, other=0):
    """One row by a matrix, beside ``other`` numbers that come in for somebody else."""
    kind, weights = kinds
    b = Builder("dense")
    x = b.input("x", TensorType(kind, (inputs,)))
    w = b.constant(values(TensorType(weights, (outputs, inputs)), 1))
    operands = [Operand(x, Access((0,), ((0, 1),))), Operand(w, Access((0, 0), ((1, 0), (0, 1))))]
    b.source = ("dense",)
    made = {"y": b.compute((outputs, inputs), operands, widened(*kinds), parallel=1, reducer="sum")}
    if other:
        z = b.input("z", TensorType(DType.F32, (other,)))
        b.source = ("largest",)
        made["largest"] = b.compute(
            (other,),
            [Operand(z, Access((0,), ((1,),)))],
            arg(0, DType.F32),
            parallel=0,
            reducer="max",
        )
    return b.finish(made, {}, {})


@pytest.mark.parametrize(
    ("inputs", "outputs", "kinds", "other", "planes"),
    [
        (88, 22, CODES, 800, False),
        (22, 88, CODES, 800, False),
        (200, 200, CODES, 800, True),
        (88, 22, HALVES, 800, True),
        (88, 22, CODES, 0, True),  # the vector unit would be what the interval waits for
    ],
)
def test_a_few_integer_products_are_summed_in_the_tree(inputs, outputs, kinds, other, planes):
    graph = dense(inputs, outputs, kinds, other)
    _, binary = check_program(graph, "lpu", [feeds(graph, 2)])
    assert any(i.opcode == Op.MATMUL for i in binary.rows) == planes
