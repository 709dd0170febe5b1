"""Contractions of narrow types on the planes: bytes summed in 32 bits, float16 in float32, whatever the epilogue makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from tests.compiler.checks import check_program
from tests.tiers import some

PAIRS = [(DType.U8, DType.I8), (DType.I8, DType.U8), (DType.I8, DType.I8), (DType.U8, DType.U8), (DType.F16, DType.F16)]
LEFT, RIGHT = Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))


def values(kind, seed):
    rng = np.random.default_rng(seed)
    if kind.dtype.is_float:
        return rng.standard_normal(kind.shape).astype(kind.dtype.numpy)
    limits = np.iinfo(kind.dtype.numpy)
    return rng.integers(limits.min, limits.max + 1, kind.shape).astype(kind.dtype.numpy)


def feeds(graph, seed):
    return {name: values(graph.types[name], seed) for name in graph.inputs}


def factor(b, kind, constant):
    return b.constant(values(kind, 7)) if constant else b.input("w", kind)


def requantised(b, n, sums, out):
    """Scale per column, then rounded and kept inside ``out``."""
    scale = b.constant(np.linspace(0.001, 0.01, n).astype(np.float32))
    scaled = arg(-1, sums).cast(DType.F32) * arg(2, DType.F32)
    if out.is_float:
        return scaled.cast(out), [Operand(scale, Access((0,), ((0, 1, 0),)))]
    low, high = np.iinfo(out.numpy).min, np.iinfo(out.numpy).max
    rounded = scaled.op("round").op("max", float(low)).op("min", float(high)).cast(out)
    return rounded, [Operand(scale, Access((0,), ((0, 1, 0),)))]


def product(m, k, n, pair, out, constant):
    b = Builder("product")
    x = b.input("x", TensorType(pair[0], (m, k)))
    w = factor(b, TensorType(pair[1], (k, n)), constant)
    sums = DType.F32 if pair[0].is_float else DType.I32
    term = arg(0, pair[0]).widen("mul", arg(1, pair[1]), sums)
    post, extra = requantised(b, n, sums, out) if out else (None, [])
    b.source = ("product",)
    y = b.compute((m, n, k), [Operand(x, LEFT), Operand(w, RIGHT), *extra], term, parallel=2, reducer="sum", post=post)
    return b.finish({"y": y}, {}, {})


@settings(max_examples=some(25), deadline=None)
@given(
    st.integers(1, 150),
    st.integers(1, 700),
    st.integers(1, 400),
    st.sampled_from(PAIRS),
    st.sampled_from([None, DType.F32, DType.I8, DType.U8]),
    st.booleans(),
    st.sampled_from(["lpu", "lpu2"]),
)
def test_a_product_of_narrow_types_is_exact_and_costs_what_was_said(m, k, n, pair, out, constant, target):
    graph = product(m, k, n, pair, out, constant)
    check_program(graph, target, [feeds(graph, 1)])


@pytest.mark.parametrize("pair", PAIRS)
def test_large_narrow_products_run_on_the_planes(pair):
    graph = product(64, 640, 320, pair, None, constant=True)
    _, binary = check_program(graph, "lpu", [feeds(graph, 3)])
    depth, width = targets.load("lpu").matrix.tiles[pair[0].value]
    used = [i for i in binary.rows if i.opcode == Op.MATMUL]
    assert {(i.count2, i.count3) for i in used} == {(depth, min(width, 320))}
    assert not any(i.opcode == Op.VECTOR for i in binary.rows)


@settings(max_examples=some(15), deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(1, 30),
    st.integers(1, 2),
    st.sampled_from(PAIRS),
    st.integers(0, 100),
)
def test_a_padded_window_reads_its_fill(height, width, channels, columns, stride, pair, fill):
    b = Builder("window")
    x = b.input("x", TensorType(pair[0], (channels, height, width)))
    w = b.constant(values(TensorType(pair[1], (columns, channels, 3, 3)), 5))
    out = (columns, -(-height // stride), -(-width // stride))
    rows = ((0, 0, 0, 0, 0, 1), (0, stride, 0, 1, 0, 0), (0, 0, stride, 0, 1, 0))
    taps = ((1, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 1), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0))
    sums = DType.F32 if pair[0].is_float else DType.I32
    operands = [
        Operand(x, Access((0, -1, -1), rows), float(fill) if pair[0].is_float else fill),
        Operand(w, Access((0, 0, 0, 0), taps)),
    ]
    b.source = ("window",)
    term = arg(0, pair[0]).widen("mul", arg(1, pair[1]), sums)
    y = b.compute((*out, 3, 3, channels), operands, term, parallel=3, reducer="sum")
    graph = b.finish({"y": y}, {}, {})
    check_program(graph, "lpu", [feeds(graph, 2)])
