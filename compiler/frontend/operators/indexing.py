"""Operators that choose elements by index."""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir import Access, DType, Operand, Term, index, select


def _index(op: Op, i: int) -> str:
    op.need(op.dtype(i) in (DType.I32, DType.I64), "its indices must be int32 or int64.")
    return op.x(i)


def _gather(op: Op) -> str:
    axis = op.axis(op.whole("axis", 0), op.rank())
    places = op.b.known(_index(op, 1))
    if places is not None:
        shape = op.shape()
        taken = op.take(op.x(), axis, places)
        return op.b.reshape(taken, (*shape[:axis], *places.shape, *shape[axis + 1 :]))
    return op.gather(op.x(), axis, op.x(1))


def _gather_elements(op: Op) -> str:
    axis = op.axis(op.whole("axis", 0), op.rank())
    out = op.b.shape(_index(op, 1))
    op.need(op.rank(1) == op.rank(0), "its indices have another number of dimensions than its data.")
    op.need(
        all(b <= a for j, (a, b) in enumerate(zip(op.shape(), out, strict=True)) if j != axis),
        "its indices are wider than its data.",
    )
    access = Access.identity(op.rank())
    matrix = tuple((0,) * op.rank() if j == axis else row for j, row in enumerate(access.matrix))
    indices: list[Operand | None] = [None] * op.rank()
    indices[axis] = Operand(op.x(1), access)
    return op.b.gather(op.x(), out, Access(access.offset, matrix), indices)


def _gather_nd(op: Op) -> str:
    batch = op.whole("batch_dims", 0)
    data, index_shape = op.shape(0), op.b.shape(_index(op, 1))
    depth = index_shape[-1]
    op.need(
        0 <= batch <= min(len(data), len(index_shape) - 1) and batch + depth <= len(data),
        "its indices do not fit its data.",
    )
    op.need(data[:batch] == index_shape[:batch], "its batch dimensions differ.")
    out = (*index_shape[:-1], *data[batch + depth :])
    rows = [[0] * len(out) for _ in data]
    for j in range(batch):
        rows[j][j] = 1
    for j in range(batch + depth, len(data)):
        rows[j][len(index_shape) - 1 + j - batch - depth] = 1
    indices: list[Operand | None] = [None] * len(data)
    reads = [tuple(int(i == j) for i in range(len(out))) for j in range(len(index_shape) - 1)]
    for d in range(depth):
        access = Access((0,) * (len(index_shape) - 1) + (d,), (*reads, (0,) * len(out)))
        indices[batch + d] = Operand(op.x(1), access)
    return op.b.gather(op.x(), out, Access((0,) * len(data), tuple(map(tuple, rows))), indices)


def _one_hot(op: Op) -> str:
    depth = int(op.known(1, "The depth").reshape(-1)[0])
    op.need(0 < depth < 1 << 24, f"the depth {depth} is not usable.")
    axis = op.axis(op.whole("axis", -1), op.rank() + 1)
    op.need(op.dtype(2) in DType, "its values have no known type.")
    place = op.b.reshape(op.x(), (*op.shape()[:axis], 1, *op.shape()[axis:]))
    off, on = (op.b.reshape(op.slice(op.x(2), 0, i, 1), ()) for i in (0, 1))
    out = (*op.shape()[:axis], depth, *op.shape()[axis:])
    place = op.cast(place, DType.I64)
    place = op.point(lambda p: select(p.op("lt", 0), p + depth, p), place)
    return op.point(lambda p, a, b: select(p.op("eq", index(axis)), a, b), place, on, off, shape=out)


def _trilu(op: Op) -> str:
    rank = op.rank()
    op.need(rank >= 2, "takes matrices.")
    k = op.b.reshape(op.cast(op.x(1), DType.I64), ()) if op.has(1) else op.const(0, DType.I64)
    name = "ge" if op.whole("upper", 1) else "le"
    step = op.point(lambda k: k.op("max", -(1 << 31)).op("min", 1 << 31), k)
    return op.point(
        lambda x, k: select(index(rank - 1).op(name, index(rank - 2) + k), x, 0), op.x(), step, shape=op.shape()
    )


_REDUCERS = {"none": None, "add": "sum", "mul": "prod", "max": "max", "min": "min"}


def _reducer(op: Op) -> str | None:
    how = op.text("reduction", "none")
    op.need(how in _REDUCERS, f"the reduction {how!r} is unknown.")
    op.need(op.dtype(0) == op.dtype(2), "its updates have another type than its data.")
    op.need(how == "none" or op.dtype() != DType.BOOL, "combines truth values.")
    return _REDUCERS[how]


def _scatter_nd(op: Op) -> str:
    data, places = op.shape(), op.b.shape(_index(op, 1))
    op.need(places and 0 < places[-1] <= len(data), "its indices do not fit its data.")
    depth, outer = places[-1], places[:-1]
    loops = (*outer, *data[depth:])
    op.need(op.shape(2) == loops, "its updates do not fit its indices.")
    rows = [[0] * len(loops) for _ in data]
    for j in range(depth, len(data)):
        rows[j][len(outer) + j - depth] = 1
    reads = [tuple(int(i == j) for i in range(len(loops))) for j in range(len(outer))]
    indices: list[Operand | None] = [None] * len(data)
    for d in range(depth):
        indices[d] = Operand(op.x(1), Access((0,) * len(outer) + (d,), (*reads, (0,) * len(loops))))
    target = Access((0,) * len(data), tuple(map(tuple, rows)))
    update = Operand(op.x(2), Access.identity(len(loops)))
    return op.b.scatter(op.x(), loops, target, indices, update, _reducer(op))


def _scatter_elements(op: Op) -> str:
    axis = op.axis(op.whole("axis", 0), op.rank())
    loops = op.b.shape(_index(op, 1))
    op.need(len(loops) == op.rank() and op.shape(2) == loops, "its updates do not fit its indices.")
    op.need(
        all(b <= a for j, (a, b) in enumerate(zip(op.shape(), loops, strict=True)) if j != axis),
        "its indices are wider than its data.",
    )
    access = Access.identity(op.rank())
    rows = tuple((0,) * op.rank() if j == axis else row for j, row in enumerate(access.matrix))
    indices: list[Operand | None] = [None] * op.rank()
    indices[axis] = Operand(op.x(1), access)
    return op.b.scatter(op.x(), loops, Access(access.offset, rows), indices, Operand(op.x(2), access), _reducer(op))


def _max_unpool(op: Op) -> str:
    """Zeros with every element at the place in the flattened output that its index names."""
    shape, spatial = op.shape(), op.rank() - 2
    kernel = op.wholes("kernel_shape")
    strides, pads = op.wholes("strides", [1] * spatial), op.wholes("pads", [0] * 2 * spatial)
    op.need(
        op.b.shape(_index(op, 1)) == shape and len(kernel) == len(strides) == spatial,
        "its indices do not fit its input.",
    )
    op.need(len(pads) == 2 * spatial, "its pads do not fit its input.")
    sizes = [(shape[2 + j] - 1) * strides[j] - pads[j] - pads[spatial + j] + kernel[j] for j in range(spatial)]
    inferred = (*shape[:2], *sizes)
    op.need(min(inferred) > 0, "its output would be empty.")
    wanted = tuple(int(v) for v in op.known(2, "The output's shape").reshape(-1)) if op.has(2) else inferred
    op.need(len(wanted) == len(inferred) and min(wanted) > 0, f"the output {list(wanted)} does not fit its input.")
    zeros = op.const(np.zeros(prod(inferred)), op.dtype())
    count = prod(shape)
    flat = Operand(op.b.reshape(op.x(1), (count,)), Access.identity(1))
    update = Operand(op.b.reshape(op.x(), (count,)), Access.identity(1))
    done = op.b.reshape(op.b.scatter(zeros, (count,), Access((0,), ((0,),)), [flat], update), inferred)
    fill = 0.0 if op.dtype().is_float else 0
    return op.b.view(done, wanted, Access.identity(len(wanted)), fill)


def _tensor_scatter(op: Op) -> str:
    """Along the axis, places from the write index on come from the update, all others from the cache."""
    shape, length = op.shape(), op.shape(1)
    axis = op.axis(op.whole("axis", -2), op.rank())
    mode = op.text("mode", "linear")
    op.need(mode in ("linear", "circular"), f"the mode {mode!r} is unknown.")
    fits = all(a == b or (j == axis and b <= a) for j, (a, b) in enumerate(zip(shape, length, strict=True)))
    op.need(axis > 0 and len(shape) == len(length) and fits, "its update does not fit its cache.")
    n, many = shape[axis], length[axis]
    first = op.cast(op.x(2), DType.I64) if op.has(2) else op.const(np.zeros(shape[0]), DType.I64)

    def place(w: Term) -> Term:
        return (index(1) + w).op("mod", n) if mode == "circular" else index(1) + w

    places = op.point(place, op.b.reshape(first, (shape[0], 1)), shape=(shape[0], many))
    access = Access.identity(len(shape))
    matrix = tuple((0,) * len(shape) if j == axis else row for j, row in enumerate(access.matrix))
    indices: list[Operand | None] = [None] * len(shape)
    indices[axis] = Operand(places, Access((0, 0), (access.matrix[0], access.matrix[axis])))
    return op.b.scatter(op.x(), length, Access(access.offset, matrix), indices, Operand(op.x(1), access))


TABLE: dict[str, Rule] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "Trilu": _trilu,
    "ScatterND": _scatter_nd,
    "ScatterElements": _scatter_elements,
    "Scatter": _scatter_elements,
    "MaxUnpool": _max_unpool,
    "TensorScatter": _tensor_scatter,
}
