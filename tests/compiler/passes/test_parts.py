"""Reductions of rows that are made one after the other, in chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import folds, parts
from tests.compiler.checks import binary_of, check_program, same

ROWS_LAST = Access((0, 0), ((0, 1), (1, 0)))  # loops: a column, a row


def looked_up(rows, reducer, term=None, post=None):
    """A look-up of ``rows`` rows of 64 numbers, reduced over the rows."""
    b = Builder("looked_up")
    numbers = b.input("numbers", TensorType(DType.I32, (rows,)))
    b.source = ("table",)
    table = b.constant(np.random.default_rng(3).normal(0, 9, (50, 64)).astype(np.float32))
    which = Operand(numbers, Access((0,), ((1, 0),)))
    x = b.gather(table, (rows, 64), Access((0, 0), ((0, 0), (0, 1))), (which, None))
    term = arg(0, DType.F32) if term is None else term
    y = b.compute((64, rows), [Operand(x, ROWS_LAST)], term, parallel=1, reducer=reducer, post=post)
    return b.finish({"y": y}, {}, {})


def feed(rows):
    return {"numbers": np.random.default_rng(1).integers(0, 50, rows).astype(np.int32)}


@settings(max_examples=25, deadline=None)
@given(st.integers(257, 900), st.sampled_from(["sum", "max", "min"]), st.booleans())
def test_results_keep_their_bits(rows, reducer, squared):
    square = arg(0, DType.F32) * arg(0, DType.F32)
    before = looked_up(rows, reducer, square if squared else None, arg(-1, DType.F32) * 0.5)
    after = parts(before, least=1)
    verify(after)
    x = feed(rows)
    want, got = run(before, x)["y"], run(folds(after, least=1), x)["y"]
    assert same(got, want)
    assert np.array_equal(np.signbit(got), np.signbit(want))
    assert squared or len(after.nodes) == len(before.nodes) + 1  # squares only where chunks are whole


def test_a_sum_follows_the_rows_that_are_looked_up():
    before = looked_up(2048, "sum")
    after = parts(before)
    assert [n.loops for n in after.nodes if isinstance(n, Compute)] == [(64, 8, 256), (64, 8)]
    plans = [binary_of(g, targets.load("lpu"))[0] for g in (before, after)]
    assert plans[1].latency < plans[0].latency * 0.75
    check_program(after, "lpu", [feed(2048)])


def product(reduced):
    """640 rows by 128 columns of constant weights, and the largest element along loop ``reduced``."""
    b = Builder("product")
    x = b.input("x", TensorType(DType.I8, (640, 32)))
    b.source = ("product",)
    w = b.constant(np.random.default_rng(1).integers(-9, 9, (512, 32)).astype(np.int8))
    factors = [Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1)))), Operand(w, Access((0, 0), ((0, 1, 0), (0, 0, 1))))]
    codes = arg(0, DType.I8).widen("mul", arg(1, DType.I8), DType.I32)
    image = b.compute((640, 512, 32), factors, codes, parallel=2, reducer="sum")
    loops, access = [((512, 640), ROWS_LAST), ((640, 512), Access.identity(2))][reduced]
    y = b.compute(loops, [Operand(image, access)], arg(0, DType.I32), parallel=1, reducer="max")
    return b.finish({"y": y}, {}, {})


@pytest.mark.parametrize(("reduced", "more"), [(0, 1), (1, 0)])
def test_rows_of_a_product_come_one_after_the_other_and_columns_together(reduced, more):
    graph = product(reduced)
    assert len(parts(graph).nodes) == len(graph.nodes) + more
