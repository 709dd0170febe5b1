"""Reductions that take several elements at a time."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import Term, arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import folds
from tests.compiler.checks import binary_of, check_program, same


def reduced(shape, parallel, reducer, dtype, step):
    """A reduction over the dimensions from ``parallel`` on, of what is computed in the graph."""
    b = Builder("reduced")
    x = b.input("x", TensorType(dtype, shape))
    b.source = ("reduced",)
    x = b.compute(shape, [Operand(x, Access.identity(len(shape)))], Term("neg", (arg(0, dtype),), dtype))
    term = arg(0, dtype) if step is None else Term(step, (arg(0, dtype),), dtype)
    y = b.compute(shape, [Operand(x, Access.identity(len(shape)))], term, parallel=parallel, reducer=reducer)
    return b.finish({"y": y}, {}, {})


def feed(shape, dtype):
    rng = np.random.default_rng(7)
    values = rng.normal(0, 9, shape) * rng.choice([0.0, -0.0, 1.0, 1.0, 1.0], shape)
    return {"x": values.astype(dtype.numpy)}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.sampled_from(["sum", "max", "min"]),
    st.sampled_from([DType.F32, DType.F16, DType.I8, DType.I32]),
    st.sampled_from([None, "abs", "neg"]),
    st.data(),
)
def test_results_keep_their_bits(shape, reducer, dtype, step, data):
    shape = tuple(shape)
    before = reduced(shape, data.draw(st.integers(0, len(shape) - 1)), reducer, dtype, step)
    after = folds(before, least=1)
    verify(after)
    x = feed(shape, dtype)
    want, got = run(before, x)["y"], run(after, x)["y"]
    assert same(got, want)
    assert dtype == DType.I8 or np.array_equal(np.signbit(got), np.signbit(want))


def test_two_negative_zeros_stay_negative():
    graph = reduced((9, 2), 1, "sum", DType.F32, None)
    assert np.signbit(run(folds(graph, least=1), {"x": np.zeros((9, 2), np.float32)})["y"]).all()


def mean_of_image():
    """Products of 64 by 1,024 filters over an image, and the mean of each channel."""
    b = Builder("mean")
    x = b.input("x", TensorType(DType.I8, (64, 13, 13)))
    b.source = ("mean",)
    w = b.constant(np.random.default_rng(1).integers(-9, 9, (1024, 64)).astype(np.int8))
    factors = [
        Operand(x, Access((0,) * 3, ((0, 0, 0, 1), (0, 1, 0, 0), (0, 0, 1, 0)))),
        Operand(w, Access((0,) * 2, ((1, 0, 0, 0), (0, 0, 0, 1)))),
    ]
    product = arg(0, DType.I8).widen("mul", arg(1, DType.I8), DType.I32)
    image = b.compute(
        (1024, 13, 13, 64), factors, product, parallel=3, reducer="sum", post=arg(-1, DType.I32).cast(DType.F32)
    )
    y = b.compute((1024, 13, 13), [Operand(image, Access.identity(3))], arg(0, DType.F32), parallel=1, reducer="sum")
    return b.finish({"y": y}, {}, {})


def gated(is_joined):
    """A value of a graph, the sums of its rows, and the value times those, beside another one as large or not."""
    b = Builder("gated")
    shape, rows = (64, 1024), Access((0,), ((1, 0),))
    x, other = (b.input(name, TensorType(DType.F32, shape)) for name in ("x", "other"))
    b.source = ("gated",)
    image = b.compute(shape, [Operand(x, Access.identity(2))], Term("neg", (arg(0, DType.F32),), DType.F32))
    sums = b.compute(shape, [Operand(image, Access.identity(2))], arg(0, DType.F32), parallel=1, reducer="sum")
    term, reads = arg(0, DType.F32) * arg(1, DType.F32), [Operand(image, Access.identity(2)), Operand(sums, rows)]
    if is_joined:
        term, reads = term + arg(2, DType.F32), [*reads, Operand(other, Access.identity(2))]
    y = b.compute(shape, reads, term)
    return b.finish({"y": y, "other": other}, {}, {})


def test_what_is_joined_with_a_value_as_large_keeps_its_order_in_memory():
    reductions = [
        next(n for n in folds(gated(is_joined)).nodes if isinstance(n, Compute) and n.reducer)
        for is_joined in (True, False)
    ]
    assert [n.loops[-1] for n in reductions] == [1024, 256]


def test_a_global_mean_takes_a_third_of_the_cycles():
    before = mean_of_image()
    after = folds(before)
    assert [n.loops for n in after.nodes if isinstance(n, Compute)] == [(1024, 13, 13, 64), (1024, 43)]
    plans = [binary_of(g, targets.load("lpu"))[0] for g in (before, after)]
    cycles = [sum(t.beats for t in plan.tiles if t.unit[0] == "vector") for plan in plans]
    assert cycles[1] * 3 < cycles[0]
    check_program(after, "lpu", [{"x": np.random.default_rng(2).integers(-9, 9, (64, 13, 13)).astype(np.int8)}])


def test_small_reductions_and_long_expressions_stay():
    assert all(
        folds(g, least=least).nodes == g.nodes
        for g, least in (
            (reduced((8, 64), 1, "sum", DType.F32, None), 1000),
            (reduced((8, 64), 1, "sum", DType.F32, "erf"), 1),
            (reduced((8, 7, 7), 1, "sum", DType.F32, "neg"), 1),
        )
    )
