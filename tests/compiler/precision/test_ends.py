"""Largest activations taken at the ends of what they are activations of."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import Term, arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.precision.ends import ends
from tests.tiers import some


def gelu(x):
    return x * 0.5 * (((x + x * x * x * 0.044715) * 0.79788456).op("tanh") + 1.0)


def gelu_erf(x):
    return x * ((x / 1.4142135).op("erf") + 1.0) * 0.5


def gelu_short(x):
    gate = (x * ((x * x).op("mul", 0.0356774) + 0.79788456)).op("tanh")
    return Term("muladd", (x, gate, x), DType.F32) * 0.5


def silu(x):
    return x * x.op("sigmoid")


def quick_gelu(x):
    return x * (x * 1.702).op("sigmoid")


def mish(x):
    return x * (x.op("exp") + 1.0).op("log").op("tanh")


def shifted(x):
    return (x + 1.0) * x.op("sigmoid")


def negative(x):
    return x * -0.5 * ((x * 0.8).op("tanh") + 1.0)


def uneven(x):
    return x * (x.op("tanh") + 2.0)


def wave(x):
    return x * ((x - x * x * x).op("tanh") + 1.0)


def pooled(activation, rows=12, read_again=False):
    """A map ``activation(a + b)`` over rows, and the largest element of each."""
    b = Builder("pooled")
    x = b.input("x", TensorType(DType.F32, (5, rows)))
    b.source = ("activation",)
    shift = b.constant(np.linspace(-1, 1, 5).astype(np.float32))
    reads = [Operand(x, Access.identity(2)), Operand(shift, Access((0,), ((1, 0),)))]
    y = b.compute((5, rows), reads, activation(arg(0, DType.F32) + arg(1, DType.F32)))
    b.source = ("pool",)
    z = b.compute((5, rows), [Operand(y, Access.identity(2))], arg(0, DType.F32), parallel=1, reducer="max")
    return b.finish({"z": z, **({"y": y} if read_again else {})}, {}, {})


@settings(max_examples=some(60), deadline=None)
@given(
    st.sampled_from([gelu, gelu_erf, gelu_short, silu, quick_gelu]),
    st.floats(0.01, 30.0),
    st.floats(-4.0, 4.0),
    st.integers(0, 1000),
)
def test_the_largest_is_at_an_end(activation, width, middle, seed):
    before = pooled(activation)
    after = ends(before)
    verify(after)
    assert [n.reducer for n in after.nodes if isinstance(n, Compute)] == [None, "min", "max"]
    assert not any(s.op in ("tanh", "erf", "sigmoid") for s in after.nodes[0].expr.steps)
    x = {"x": np.random.default_rng(seed).normal(middle, width, (5, 12)).astype(np.float32)}
    want, got = run(before, x)["z"], run(after, x)["z"]
    np.testing.assert_allclose(got, want, rtol=3e-7, atol=1e-6)  # 1 + tanh leaves few digits far left


@pytest.mark.parametrize("activation", [mish, shifted, negative, uneven, wave, lambda x: x * x.op("tanh"), lambda x: x])
def test_other_functions_stay(activation):
    graph = pooled(activation)
    assert ends(graph) is graph


def test_what_others_read_and_what_is_short_stays():
    for graph in (pooled(gelu, read_again=True), pooled(gelu, rows=4)):
        assert ends(graph) is graph


@pytest.mark.parametrize("dtype", [DType.F16, DType.U8])
def test_a_rounded_activation_is_rounded_behind(dtype):
    def stored(x):
        whole = silu(x)
        return whole.cast(dtype) if dtype.is_float else (whole * 20.0).nearest(dtype)

    b = Builder("stored")
    x = b.input("x", TensorType(DType.F32, (3, 40)))
    b.source = ("activation",)
    y = b.compute((3, 40), [Operand(x, Access.identity(2))], stored(Term("neg", (arg(0, DType.F32),), DType.F32)))
    z = b.compute((3, 40), [Operand(y, Access.identity(2))], arg(0, dtype), parallel=1, reducer="max")
    before = b.finish({"z": z}, {}, {})
    after = ends(before)
    verify(after)
    assert len(after.nodes) == len(before.nodes) + 1
    feed = {"x": np.random.default_rng(2).normal(0, 3, (3, 40)).astype(np.float32)}
    assert np.array_equal(run(after, feed)["z"], run(before, feed)["z"])
