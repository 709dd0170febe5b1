"""What the simulator computes equals a model that takes one lane at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.isa.binary import Binary
from compiler.isa.counting import counts
from compiler.isa.element import NUMPY
from compiler.isa.instruction import Flag, Op
from compiler.isa.stream import Gather, GatherAxis, Guard, Loop, Stream
from compiler.simulator import simulate
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.lanes import Lanes
from tests.compiler.oracle.programs import Builder, Feed, Sample, flat, row_major, samples
from tests.tiers import some


def _both(binary: Binary, feeds: list[Feed]) -> tuple[list[Feed], list[Feed]]:
    lanes = Lanes(binary, targets.load(binary.target).weights.latency)
    ports = {port.name: port for port in binary.ports}
    slow = []
    for feed in feeds:
        results = lanes.run({name: array.tobytes() for name, array in feed.items()})
        slow.append({n: np.frombuffer(d, NUMPY[ports[n].dtype]).reshape(ports[n].shape) for n, d in results.items()})
    return simulate(binary.to_bytes(), feeds)[0], slow


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_every_sample_gives_the_same_bits(sample: Sample) -> None:
    fast, slow = _both(sample.binary, sample.feeds)
    for got, wanted in zip(fast, slow, strict=True):
        for name, value in wanted.items():
            if "softmax" in sample.name:  # the C library's exp is not ours to the last bit
                np.testing.assert_allclose(got[name], value, rtol=1e-6)
            else:
                np.testing.assert_array_equal(got[name], value)


TYPES = {"f32": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}


@settings(deadline=None, max_examples=some(40))
@given(st.sampled_from(sorted(TYPES)), st.tuples(*[st.integers(1, 5)] * 3), st.booleans(), st.integers(0, 9))
def test_a_product_of_any_type_and_size_gives_the_same_bits(
    dtype: str, size: tuple[int, int, int], guarded: bool, seed: int
) -> None:
    m, k, n = size
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(0, 100, shape) if dtype[0] in "iu" else rng.standard_normal(shape) for shape in ((k, n), (m, k))
    ]
    w, x = (a.astype(NUMPY[dtype]) for a in arrays)
    b = Builder()
    at_w = b.constant(w)
    at_x, at_y = b.place(x.nbytes), b.place(m * n * 4)
    guards = (Guard(m * k, -1, (k, 1)),) if guarded else ()
    sx = b.stream(row_major(dtype, at_x, m, k))
    read = b.stream(row_major(dtype, at_x, m, k, guards=guards, fill=2))
    sy = b.stream(row_major(TYPES[dtype], at_y, m, n))
    b.add(Op.RECV, out=sx, port=b.port("x", dtype, (m, k)), count1=m, count2=k)
    b.add(Op.LOADW, unit=3, slot=1, a=b.stream(row_major(dtype, at_w, k, n)), count1=k, count2=n)
    b.add(Op.MATMUL, unit=3, slot=1, flags=Flag.FIRST | Flag.LAST, a=read, out=sy, count1=m, count2=k, count3=n)
    b.add(Op.SEND, a=sy, port=b.port("y", TYPES[dtype], (m, n), output=True), count1=m, count2=n)
    fast, slow = _both(b.build(), [{"x": x}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])


@settings(deadline=None, max_examples=some(40))
@given(
    st.sampled_from(sorted(TYPES)),
    st.integers(1, 4),
    st.integers(2, 4),
    st.tuples(*[st.integers(1, 3)] * 3),
    st.booleans(),
    st.integers(0, 9),
)
def test_blocks_on_the_diagonal_multiply_only_their_own_rows(
    dtype: str, m: int, blocks: int, size: tuple[int, int, int], infinite: bool, seed: int
) -> None:
    outer, run, n = size
    k = outer * blocks * run
    rng = np.random.default_rng(seed)
    arrays = [
        rng.integers(0, 100, shape) if dtype[0] in "iu" else rng.standard_normal(shape) for shape in ((k, n), (m, k))
    ]
    w, x = (a.astype(NUMPY[dtype]) for a in arrays)
    if infinite and dtype[0] == "f":
        x[0, 0] = np.inf
    b = Builder()
    at_w = b.constant(w)
    at_x, at_y = b.place(x.nbytes), b.place(m * n * blocks * 4)
    sx, sy = b.stream(row_major(dtype, at_x, m, k)), b.stream(row_major(TYPES[dtype], at_y, m, n * blocks))
    b.add(Op.RECV, out=sx, port=b.port("x", dtype, (m, k)), count1=m, count2=k)
    b.add(Op.LOADW, a=b.stream(row_major(dtype, at_w, k, n)), blocks=blocks, start3=run, count1=k, count2=n)
    both = Flag.FIRST | Flag.LAST
    b.add(Op.MATMUL, flags=both, blocks=blocks, a=sx, out=sy, count1=m, count2=k, count3=n * blocks)
    b.add(Op.SEND, a=sy, port=b.port("y", TYPES[dtype], (m, n * blocks), output=True), count1=m, count2=n * blocks)
    binary = b.build()
    fast, slow = _both(binary, [{"x": x}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])
    with np.errstate(invalid="ignore"):
        apart = [x[:, (np.arange(k) // run) % blocks == j] for j in range(blocks)]
        lonely = np.isfinite(np.stack([a.astype("f8").sum(axis=1) for a in apart], axis=1))
    if dtype[0] == "f":
        assert (np.isfinite(fast[0]["y"]).reshape(m, blocks, n).all(axis=2) == lonely).all()
    counted = sum(counts(targets.load("lpu"), binary, i).operations for i in binary.rows)
    assert counted == 2 * m * k * n


@settings(deadline=None, max_examples=some(60))
@given(
    st.sampled_from((1, 2, 3, 4, 7)),
    st.sampled_from(("f32", "f16", "i32", "i8", "i64")),
    st.integers(1, 4),
    st.integers(1, 9),
    st.integers(0, 9),
)
def test_a_reduction_of_any_kind_gives_the_same_bits(reducer: int, dtype: str, p: int, r: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((p, r)) * 50).astype(NUMPY[dtype])
    b = Builder()
    at_x, at_y = b.place(x.nbytes), b.place(p * x.itemsize)
    sx, sy = b.stream(row_major(dtype, at_x, p, r)), b.stream(flat(dtype, at_y, p))
    square = b.program(("arg", (), dtype, 0), ("mul", (0, 0), dtype), ("index", (), dtype, 1), ("add", (1, 2), dtype))
    after = b.program(("arg", (), dtype, -1), ("const", (), dtype, 3), ("max", (0, 1), dtype))
    b.add(Op.RECV, out=sx, port=b.port("x", dtype, (p, r)), count1=p, count2=r)
    b.add(Op.VECTOR, a=sx, out=sy, pre=square, reducer=reducer, post=after, count1=p, count2=r)
    b.add(Op.SEND, a=sy, port=b.port("y", dtype, (p,), output=True), count1=p, count2=1)
    fast, slow = _both(b.build(), [{"x": x}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])


@given(st.permutations(range(3)), st.tuples(*[st.integers(1, 4)] * 3), st.integers(0, 2), st.integers(0, 5))
@settings(deadline=None, max_examples=some(40))
def test_a_copy_in_any_order_with_padding_gives_the_same_bits(
    order: list[int], shape: tuple[int, int, int], pad: int, seed: int
) -> None:
    x = np.random.default_rng(seed).integers(-99, 99, shape).astype("i2")
    b = Builder()
    strides = list(x.strides)
    out_shape = tuple(shape[o] + (2 * pad if n == 1 else 0) for n, o in enumerate(order))
    total = int(np.prod(out_shape))
    at_x, at_y = b.place(x.nbytes), b.place(total * 2)
    loops = tuple(Loop(out_shape[n], strides[o]) for n, o in enumerate(order))
    guards = (Guard(shape[order[1]], -pad, (0, 1, 0)),)
    turned = b.stream(Stream("i16", at_x - pad * strides[order[1]], (), loops[:2], loops[2:], guards, 7))
    sy = b.stream(row_major("i16", at_y, out_shape[0] * out_shape[1], out_shape[2]))
    sx = b.stream(flat("i16", at_x, x.size))
    b.add(Op.RECV, out=sx, port=b.port("x", "i16", shape), count1=x.size, count2=1)
    b.add(Op.MOVE, a=turned, out=sy, count1=out_shape[0] * out_shape[1], count2=out_shape[2])
    b.add(
        Op.SEND,
        a=sy,
        port=b.port("y", "i16", out_shape, output=True),
        count1=total // out_shape[2],
        count2=out_shape[2],
    )
    fast, slow = _both(b.build(), [{"x": x}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])
    width = [(0, 0)] * 3
    width[1] = (pad, pad)
    np.testing.assert_array_equal(fast[0]["y"], np.pad(x.transpose(order), width, constant_values=7))


@settings(deadline=None, max_examples=25)
@given(st.sampled_from(("i64", "i32", "u8", "i16")), st.integers(1, 3), st.integers(1, 9), st.integers(0, 9))
def test_rows_in_order_give_the_same_bits_and_cycles(dtype: str, rows: int, n: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 5, (rows, n)).astype(NUMPY[dtype])
    b = Builder()
    at_x, at_y = b.place(x.nbytes), b.place(x.nbytes)
    sx, sy = b.stream(row_major(dtype, at_x, rows, n)), b.stream(row_major(dtype, at_y, rows, n))
    b.add(Op.RECV, out=sx, port=b.port("x", dtype, (rows, n)), count1=rows, count2=n)
    b.add(Op.SORT, a=sx, out=sy, count1=rows, count2=n)
    b.add(Op.SEND, a=sy, port=b.port("y", dtype, (rows, n), output=True), count1=rows, count2=n)
    binary = b.build()
    fast, slow = _both(binary, [{"x": x}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])
    assert Oracle(binary, targets.load(binary.target)).violations() == []


@settings(deadline=None, max_examples=some(40))
@given(
    st.sampled_from((0, 1, 2, 3, 4)),
    st.sampled_from(("f32", "f16", "i32", "u8")),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(0, 99),
)
def test_scattered_rows_give_the_same_bits_and_cycles(reducer: int, dtype: str, n: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal((n, width)) * 9).astype(NUMPY[dtype])
    start = (rng.standard_normal((3, width)) * 9).astype(NUMPY[dtype])
    size = x.itemsize
    b = Builder()
    at_z = b.constant(start)
    at_x, at_p, at_y = b.place(x.nbytes), b.place(n * 4), b.place(start.nbytes)
    sx, sp = b.stream(row_major(dtype, at_x, n, width)), b.stream(flat("i32", at_p, n))
    sy, sz = (b.stream(row_major(dtype, at, 3, width)) for at in (at_y, at_z))
    into = b.stream(Stream(dtype, at_y, (), (Loop(n, 0),), (Loop(width, size),)))
    places = b.pool.gather(Gather((GatherAxis(sp, 3, width * size, 0, (0, 0)),)))
    b.add(Op.MOVE, a=sz, out=sy, count1=3, count2=width)
    b.add(Op.RECV, out=sx, port=b.port("x", dtype, (n, width)), count1=n, count2=width)
    b.add(Op.RECV, out=sp, port=b.port("p", "i32", (n,)), count1=n, count2=1)
    b.add(Op.SCATTER, a=sx, out=into, gather=places, reducer=reducer, count1=n, count2=width)
    b.add(Op.SEND, a=sy, port=b.port("y", dtype, (3, width), output=True), count1=3, count2=width)
    binary = b.build()
    fast, slow = _both(binary, [{"x": x, "p": rng.integers(-3, 3, n).astype("i4")}])
    np.testing.assert_array_equal(fast[0]["y"], slow[0]["y"])
    assert Oracle(binary, targets.load(binary.target)).violations() == []
