"""Operators that choose elements by index."""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir.access import Access
from compiler.ir.graph import Operand
from compiler.ir.terms import Term, index, select
from compiler.ir.types import DType


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
    k = int(op.known(1, "k").reshape(-1)[0]) if op.has(1) else 0
    rank = op.rank()
    op.need(rank >= 2, "takes matrices.")
    k = max(-(1 << 31), min(1 << 31, k))
    edge = index(rank - 2) + k
    name = "ge" if op.whole("upper", 1) else "le"
    return op.point(lambda x: select(index(rank - 1).op(name, edge), x, 0), op.x())


def _scatter_nd(op: Op) -> str:
    """With known places: a gather from the data followed by the updates."""
    places = op.known(1, "The places to write to")
    data = op.shape()
    depth = places.shape[-1]
    op.need(depth <= len(data), "its indices do not fit its data.")
    inner = prod(data[depth:])
    flat = _flat_places(op, places.reshape(-1, depth), data[:depth])
    source = np.arange(prod(data)).reshape(-1, inner)
    return _scatter(op, source, flat[:, None] * inner + np.arange(inner), prod(data))


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
    rows = (shape[0], n)

    def place(w: Term) -> Term:
        return (index(1) - w).op("mod", n) if mode == "circular" else index(1) - w

    places = op.point(place, op.b.reshape(first, (shape[0], 1)), shape=rows)
    held = op.point(lambda p: p.op("max", 0).op("min", many - 1), places)
    access = Access.identity(len(shape))
    read = Access((0, 0), (access.matrix[0], access.matrix[axis]))
    matrix = tuple((0,) * len(shape) if j == axis else row for j, row in enumerate(access.matrix))
    indices: list[Operand | None] = [None] * len(shape)
    indices[axis] = Operand(held, read)
    new = op.b.gather(op.x(1), shape, Access(access.offset, matrix), indices)
    inside = op.point(lambda p: p.op("ge", 0).op("and", p.op("lt", many)), places)
    wide = op.b.reshape(inside, [shape[0] if j == 0 else n if j == axis else 1 for j in range(len(shape))])
    return op.point(select, wide, new, op.x())


def _flat_places(op: Op, places: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    sizes_array = np.array(sizes)
    places = np.where(places < 0, places + sizes_array, places)
    op.need(((places >= 0) & (places < sizes_array)).all(), "an index is outside its dimension.")
    strides = np.array([prod(sizes[j + 1 :]) for j in range(len(sizes))], np.int64)
    return np.asarray((places * strides).sum(-1))


def _scatter_elements(op: Op) -> str:
    places = op.known(1, "The places to write to")
    axis = op.axis(op.whole("axis", 0), op.rank())
    grid = np.indices(places.shape)
    grid[axis] = places
    flat = _flat_places(op, np.moveaxis(grid, 0, -1).reshape(-1, op.rank()), op.shape())
    return _scatter(op, np.arange(prod(op.shape())), flat, prod(op.shape()))


def _scatter(op: Op, source: np.ndarray, flat: np.ndarray, count: int) -> str:
    """Elements ``flat`` of the flattened data replaced by the updates in order, or joined with them."""
    reduction = op.text("reduction", "none")
    op.need(op.dtype(0) == op.dtype(2), "its updates have another type than its data.")
    data = op.b.reshape(op.x(), (count,))
    updates = op.b.reshape(op.x(2), (prod(op.shape(2)),))
    places = flat.reshape(-1)
    op.need(places.size == op.b.shape(updates)[0], "its updates do not fit its indices.")
    rounds = _rounds(places) if reduction != "none" else [np.arange(places.size)]
    for chosen in rounds:
        combined = op.take(updates, 0, chosen)
        if reduction != "none":
            op.need(reduction in ("add", "mul", "max", "min"), f"the reduction {reduction!r} is unknown.")
            old = op.take(data, 0, places[chosen])
            combined = op.point(lambda a, b: a.op(reduction, b), old, combined)
        origin = source.reshape(-1).copy()
        origin[places[chosen]] = count + np.arange(chosen.size)
        data = op.take(op.b.join([data, combined], 0), 0, origin)
    return op.b.reshape(data, op.shape())


def _rounds(places: np.ndarray) -> list[np.ndarray]:
    """Updates split so that none of them has a place twice, in order."""
    seen: dict[int, int] = {}
    turn = np.empty(places.size, np.int64)
    for i, place in enumerate(places.tolist()):
        turn[i] = seen[place] = seen.get(place, -1) + 1
    return [np.flatnonzero(turn == t) for t in range(int(turn.max(initial=-1)) + 1)]


def _non_zero(op: Op) -> str:
    known = op.known(0, "Where the input is not zero")
    return op.const(np.array(np.nonzero(known)), DType.I64)


def _compress(op: Op) -> str:
    chosen = np.flatnonzero(op.known(1, "The condition"))
    if "axis" in op.attributes:
        return op.take(op.x(), op.axis(op.whole("axis"), op.rank()), chosen)
    return op.take(op.b.reshape(op.x(), (prod(op.shape()),)), 0, chosen)


TABLE: dict[str, Rule] = {
    "Gather": _gather, "GatherElements": _gather_elements, "GatherND": _gather_nd, "OneHot": _one_hot, "Trilu": _trilu,
    "ScatterND": _scatter_nd, "ScatterElements": _scatter_elements, "Scatter": _scatter_elements, "NonZero": _non_zero,
    "Compress": _compress, "TensorScatter": _tensor_scatter,
}  # fmt: skip
