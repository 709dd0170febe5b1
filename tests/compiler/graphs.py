"""Random small graphs of primitives, for every test that must hold for any graph."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg, const, select
from compiler.ir.types import DType, TensorType

SIDE = st.integers(1, 5)
SHAPES = st.lists(SIDE, min_size=1, max_size=3).map(tuple)
NUMBERS = (DType.F32, DType.I32, DType.F64, DType.I64)


def feeds_for(graph, seed):
    """Seeded inputs of every type, small enough that nothing overflows soon."""
    rng = np.random.default_rng(seed)
    return {n: _values(rng, graph.types[n]) for n in graph.inputs}


def _values(rng, kind):
    if kind.dtype == DType.BOOL:
        return rng.random(kind.shape) < 0.5
    return (rng.standard_normal(kind.shape) * 3).astype(kind.dtype.numpy)


@st.composite
def graphs(draw, max_nodes=8, dtypes=NUMBERS):
    """A graph with one to three inputs, and outputs drawn from all values."""
    b = Builder("random")
    b.source = ("start",)
    values = [
        b.input(f"in{i}", TensorType(draw(st.sampled_from(dtypes)), draw(SHAPES)))
        for i in range(draw(st.integers(1, 3)))
    ]
    kind = b.types[values[0]]
    seed = draw(st.integers(0, 99))
    values.append(b.constant(_values(np.random.default_rng(seed), kind)))
    for n in range(draw(st.integers(1, max_nodes))):
        b.source = (f"op{n}",)
        make = draw(st.sampled_from(MAKERS))
        made = make(draw, b, values)
        if made is not None:
            values.append(made)
    outputs = draw(st.lists(st.sampled_from(values[2:] + values[:1]), min_size=1, max_size=3, unique=True))
    return b.finish({f"out{i}": v for i, v in enumerate([*outputs, values[-1]])}, {}, {"opset": "0"})


def _pick(draw, values):
    return draw(st.sampled_from(values))


def _elementwise(draw, b, values):
    a = _pick(draw, values)
    dtype, shape = b.types[a].dtype, b.shape(a)
    if dtype == DType.BOOL:
        return b.compute(shape, [Operand(a, Access.identity(len(shape)))], arg(0, dtype).op("not"))
    x = arg(0, dtype)
    others = [v for v in values if b.types[v] == b.types[a]]
    y = arg(1, dtype)
    choices = [
        x + y,
        x * y,
        x.op("max", y),
        -x,
        select(x.op("lt", y), x, 1),
        x * 2 + 1,
        x.op("le", y),
        x - const(3, dtype),
    ]
    if dtype.is_float:
        choices += [x.op("sigmoid") * y, x / (y * y + 1.0), x.op("abs").op("sqrt")]
    access = Access.identity(len(shape))
    return b.compute(shape, [Operand(a, access), Operand(_pick(draw, others), access)], draw(st.sampled_from(choices)))


def _broadcast(draw, b, values):
    a = _pick(draw, values)
    dtype, shape = b.types[a].dtype, b.shape(a)
    if dtype == DType.BOOL:
        return None
    loops = (draw(SIDE), *shape)
    wide = Access(
        (0,) * len(shape), tuple(tuple(int(j + 1 == i) for i in range(len(loops))) for j in range(len(shape)))
    )
    return b.compute(loops, [Operand(a, wide)], arg(0, dtype) + 1)


def _view(draw, b, values):
    a = _pick(draw, values)
    shape = b.shape(a)
    order = draw(st.permutations(range(len(shape))))
    loops, matrix, offset = [0] * len(shape), [], [0] * len(shape)
    for j, n in enumerate(shape):
        step = draw(st.sampled_from([1, 1, 2, -1]))
        start = draw(st.integers(-2, n)) if step > 0 else draw(st.integers(0, n + 1))
        loops[order[j]] = draw(st.integers(1, n + 2))
        offset[j] = start
        matrix.append(tuple(step if i == order[j] else 0 for i in range(len(shape))))
    return b.view(a, loops, Access(tuple(offset), tuple(matrix)), fill=draw(st.sampled_from([0, 1])))


def _reshape(draw, b, values):
    a = _pick(draw, values)
    shape = list(b.shape(a))
    if draw(st.booleans()) or len(shape) == 1:
        return b.reshape(a, (1, *shape) if len(shape) < 3 else (shape[0] * shape[1], *shape[2:]))
    return b.reshape(a, (shape[0] * shape[1], *shape[2:]))


def _contraction(draw, b, values):
    a = _pick(draw, [v for v in values if b.dtype(v) != DType.BOOL] or values[:1])
    dtype, shape = b.types[a].dtype, b.shape(a)
    if dtype == DType.BOOL:
        return None
    n = draw(SIDE)
    weights = b.constant(np.random.default_rng(n).integers(-3, 4, (shape[-1], n)).astype(dtype.numpy))
    loops = (*shape[:-1], n, shape[-1])
    rank = len(shape)
    rows = [tuple(int(i == j) for i in range(len(loops))) for j in range(rank - 1)]
    left = Access((0,) * rank, (*rows, tuple(int(i == rank) for i in range(len(loops)))))
    right = Access((0, 0), tuple(tuple(int(i == loop) for i in range(len(loops))) for loop in (rank, rank - 1)))
    post = draw(st.sampled_from([None, arg(-1, dtype).op("max", 0)]))
    term = arg(0, dtype) * arg(1, dtype)
    return b.compute(loops, [Operand(a, left), Operand(weights, right)], term, parallel=rank, reducer="sum", post=post)


def _window(draw, b, values):
    a = _pick(draw, [v for v in values if b.dtype(v) != DType.BOOL] or values[:1])
    dtype, shape = b.types[a].dtype, b.shape(a)
    if dtype == DType.BOOL:
        return None
    rank, size = len(shape), draw(st.integers(1, 3))
    loops = (*shape, size)
    rows = tuple(tuple(int(i == j) + int(j == rank - 1 and i == rank) for i in range(rank + 1)) for j in range(rank))
    access = Access((0,) * (rank - 1) + (-1,), rows)
    reducer = draw(st.sampled_from(["sum", "max", "min"]))
    return b.compute(loops, [Operand(a, access, 0)], arg(0, dtype), parallel=rank, reducer=reducer)


def _gather(draw, b, values):
    a = _pick(draw, values)
    shape = b.shape(a)
    places = b.constant(
        np.array(draw(st.lists(st.integers(-shape[0], shape[0] - 1), min_size=1, max_size=4)), np.int64)
    )
    n = b.shape(places)[0]
    loops = (n, *shape[1:])
    access = Access.identity(len(shape))
    access = replace(access, matrix=((0,) * len(shape), *access.matrix[1:]))
    index = Operand(places, Access((0,), (tuple(int(i == 0) for i in range(len(loops))),)))
    return b.gather(a, loops, access, [index] + [None] * (len(shape) - 1))


def _join(draw, b, values):
    a = _pick(draw, values)
    same = [v for v in values if b.types[v] == b.types[a]]
    parts = draw(st.lists(st.sampled_from(same), min_size=1, max_size=3))
    return b.join(parts, draw(st.integers(0, len(b.shape(a)) - 1)))


MAKERS = [_elementwise, _elementwise, _broadcast, _view, _reshape, _contraction, _window, _gather, _join]
