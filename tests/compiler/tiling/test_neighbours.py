"""Parts of a join that share a line: whoever reads or writes one part keeps clear of the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Graph, Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from tests.compiler.checks import binary_of
from tests.compiler.oracle.hazards import Oracle
from tests.tiers import some

F32 = DType.F32
HERE = Access.identity(2)


def growing(rows: int, width: int, parts: int) -> Graph:
    """Rows, and behind them rows that are made of the rows before, again and again; every line border is shared."""
    b = Builder("growing")
    rng = np.random.default_rng(rows)
    made = [b.compute((rows, width), [Operand(b.input("x", TensorType(F32, (rows, width))), HERE)], arg(0, F32) * 2.0)]
    left, right = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))
    for _ in range(parts):
        weights = b.constant(rng.standard_normal((width, width)).astype(np.float32))
        loops = (rows, width, width)
        product = arg(0, F32) * arg(1, F32)
        sums = b.compute(loops, [Operand(made[-1], left), Operand(weights, right)], product, parallel=2, reducer="sum")
        made.append(b.compute((rows, width), [Operand(sums, HERE)], arg(0, F32).op("abs")))
    return b.finish({"first": made[0], "all": b.join(made, 0)}, {}, {})


@pytest.mark.parametrize("name", ["lpu", "lpu2"])
@settings(max_examples=some(5), deadline=None)
@given(st.sampled_from((3, 150, 201)), st.integers(1, 9), st.integers(1, 3))
def test_parts_that_grow_out_of_each_other_are_legal_back_to_back(name: str, rows: int, width: int, parts: int) -> None:
    target = targets.load(name)
    _, binary = binary_of(growing(rows, width, parts), target)
    assert Oracle(binary, target).violations(inferences=2) == []


def test_a_part_is_sent_before_or_after_its_neighbour_is_copied() -> None:
    b = Builder("neighbour")
    x = b.input("x", TensorType(F32, (1,)))
    outside = Operand(x, Access((-1,), ((1, 1),)), 0)  # reads nothing: it is ready long before the copy
    sums = b.compute((1, 1), [outside], arg(0, F32), parallel=1, reducer="sum")
    both = b.join([b.constant(np.ones(1, np.float32)), sums], 0)
    target = targets.load("lpu")
    _, binary = binary_of(b.finish({"sums": sums, "both": both}, {}, {}), target)
    assert Oracle(binary, target).violations(inferences=2) == []
