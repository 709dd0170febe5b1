"""Values that lie across each other are added from a copy where that takes fewer cycles, and the sums stay the same."""

import numpy as np
import pytest

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.passes.legalise import legalise
from compiler.tiling import across
from compiler.tiling.lower import lower
from tests.compiler.checks import check_program

LPU = targets.load("lpu")


def crossed(rows, columns):
    """The sum of a value and of another one that lies the other way round."""
    b = Builder("crossed")
    one, other = (
        b.input(n, TensorType(DType.F32, s)) for n, s in (("one", (rows, columns)), ("other", (columns, rows)))
    )
    straight, turned = Access.identity(2), Access((0, 0), ((0, 1), (1, 0)))
    b.source = ("sum",)
    x, y = arg(0, DType.F32), arg(1, DType.F32)
    made = b.compute((rows, columns), [Operand(one, straight), Operand(other, turned)], x + y)
    return b.finish({"y": made}, {}, {})


def beats(graph):
    tiles = lower(legalise(graph, LPU), LPU)[0].tiles
    return {op: sum(t.beats for t in tiles if t.instruction.opcode == op) for op in (Op.MOVE, Op.VECTOR)}


@pytest.mark.parametrize(("rows", "columns"), [(64, 320), (96, 784), (200, 130)])
def test_a_sum_of_values_across_each_other_reads_a_copy_and_stays_the_same(rows, columns, monkeypatch):
    graph = crossed(rows, columns)
    rng = np.random.default_rng(rows)
    feed = {n: rng.standard_normal(graph.types[n].shape).astype(np.float32) for n in graph.inputs}
    check_program(graph, "lpu", [feed])
    with_copy = beats(graph)
    monkeypatch.setattr(across, "_worth", lambda *_: False)
    without = beats(graph)
    assert with_copy[Op.MOVE] > without[Op.MOVE]
    assert sum(with_copy.values()) * across.CLEARLY < sum(without.values())


def test_values_that_lie_alike_are_not_copied():
    b = Builder("alike")
    one, other = (b.input(n, TensorType(DType.F32, (96, 784))) for n in ("one", "other"))
    b.source = ("sum",)
    here = Access.identity(2)
    made = b.compute((96, 784), [Operand(one, here), Operand(other, here)], arg(0, DType.F32) + arg(1, DType.F32))
    assert beats(b.finish({"y": made}, {}, {}))[Op.MOVE] == 0
