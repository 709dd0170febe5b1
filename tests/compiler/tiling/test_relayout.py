"""Copies in another order for the planes, taken only where product and copy together are no slower."""

import pytest

from compiler import targets
from compiler.ir.types import DType
from compiler.isa.instruction import Op
from compiler.passes.legalise import legalise
from compiler.tiling import lower as lowering
from tests.compiler.tiling.test_parted import pointwise

LPU = targets.load("lpu")


def cycles(graph):
    """Of the mover and of all planes together: the mover works before them."""
    tiles = lowering.lower(legalise(graph, LPU), LPU)[0].tiles
    move, products = (sum(t.beats for t in tiles if t.instruction.opcode == op) for op in (Op.MOVE, Op.MATMUL))
    return move, move + products // LPU.matrix.instances


@pytest.mark.parametrize("shape", [(440, 440, (7, 7)), (512, 256, (7, 7)), (64, 320, (9, 9)), (208, 208, (14, 14))])
def test_a_copy_never_costs_more_than_it_saves(shape, monkeypatch):
    graph = pointwise(*shape, (DType.U8, DType.I8))
    _, with_copies = cycles(graph)
    monkeypatch.setattr(lowering, "_relaid_home", lambda *_: None)
    copied, without = cycles(graph)
    assert copied == 0
    assert with_copies <= 1.1 * without
