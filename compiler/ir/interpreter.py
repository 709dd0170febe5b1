"""What each primitive means, in NumPy: the reference for backends, and how constants are folded.

Float results are exact in the sense of ``compiler.numerics``: contractions add products with k ascending over the reduction
loops in row-major order, other reductions are the tree over the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from compiler.ir.access import Access
from compiler.ir.expr import Expr
from compiler.ir.graph import (
    Compute,
    Gather,
    Graph,
    Guard,
    Join,
    Merge,
    Node,
    Operand,
    Reshape,
    Scatter,
    Sort,
    View,
    reads_of,
)
from compiler.numerics.contract import contract
from compiler.numerics.reduce import reduce
from compiler.numerics.scalar import evaluate
from compiler.numerics.scatter import scatter

Array = np.ndarray[Any, Any]
Values = Mapping[str, Array]
Ranges = tuple[tuple[int, int], ...]  # (start, count) of every loop
_LIMIT = 1 << 22  # points evaluated at a time
_SPAN = 1 << 24  # elements that a padded window may hold


class InterpreterFault(Exception):
    """A run-time fault: an index outside its dimension, or feeds that do not fit the graph."""


def run(
    graph: Graph,
    feeds: Values,
    state: dict[str, Array] | None = None,
    observe: Callable[[Node, Mapping[str, Array]], None] | None = None,
) -> dict[str, Array]:
    """Outputs by name for ``feeds`` by input name. ``state`` (updated in place) holds the variables between calls.

    ``observe`` sees every node when it is done, with all values that are still known (calibration reads them).
    """
    values = {**graph.constants, **{name: _fed(name, graph, feeds) for name in graph.inputs}}
    memory = {} if state is None else state
    for variable in graph.states:
        values[variable.input] = memory.setdefault(variable.input, variable.initial)
    last_use = _last_uses(graph)
    for i, node in enumerate(graph.nodes):
        if holds(node.guard, values):
            values[node.output] = evaluate_node(node, values, graph.types[node.output].shape)
        if observe is not None:
            observe(node, values)
        _forget((v for v in (*reads_of(node), node.output) if last_use.get(v, i) <= i), values)
    memory.update({s.input: values[s.update] for s in graph.states})
    return {name: _cut(name, graph, values) for name in graph.outputs}


def _last_uses(graph: Graph) -> dict[str, int]:
    """By value the last node that reads it; beyond all of them for what stays known."""
    read = {v: i for i, node in enumerate(graph.nodes) for v in reads_of(node)}
    return read | dict.fromkeys((*graph.kept, *graph.constants, *graph.inputs), len(graph.nodes))


def _forget(names: Iterable[str], values: dict[str, Array]) -> None:
    for name in names:
        values.pop(name, None)


def _fed(name: str, graph: Graph, feeds: Values) -> Array:
    """An input, which must be of its type."""
    if name not in feeds:
        raise InterpreterFault(f"input {name!r} is missing")
    array, kind = np.asarray(feeds[name]), graph.types[name]
    if (array.dtype, array.shape) != (kind.dtype.numpy, kind.shape):
        raise InterpreterFault(f"input {name!r} is {array.dtype}{list(array.shape)}, not {kind}")
    return array


def _cut(name: str, graph: Graph, values: Values) -> Array:
    """An output without what lies behind its length."""
    if name not in graph.lengths:
        return values[name]
    axis, length = graph.lengths[name]
    return values[name][(slice(None),) * axis + (slice(0, int(values[length].reshape(-1)[0])),)]


def holds(guard: Guard | None, values: Values) -> bool:
    """Whether what is guarded is executed; a condition that was not computed itself lies in a branch not taken."""
    return guard is None or (guard.value in values and bool(values[guard.value].reshape(-1)[0]) is guard.holds)


def evaluate_node(node: Node, values: Values, shape: tuple[int, ...]) -> Array:
    """One primitive on arrays, whatever its guard; ``shape`` is its output's."""
    return _EVALUATED[type(node)](node, values, shape)


def _view(node: View, values: Values, shape: tuple[int, ...]) -> Array:
    return np.array(read(node.operand, values, _whole(shape), broadcast=True))


def _merge(node: Merge, values: Values, _: tuple[int, ...]) -> Array:
    held = [value for guard, value in node.parts if holds(guard, values)]
    if not held:
        raise InterpreterFault(f"{node.name}: no part of the merge holds")
    return values[held[-1]]


def _whole(loops: tuple[int, ...]) -> Ranges:
    return tuple((0, n) for n in loops)


def read(operand: Operand, values: Values, ranges: Ranges, *, broadcast: bool = False) -> Array:
    """The operand at every point of the ranges; loops that it does not use have size 1 unless ``broadcast``."""
    array, access = values[operand.value], operand.access
    counts = tuple(n for _, n in ranges)
    if 0 in counts:
        return np.zeros(counts, array.dtype)
    shape = tuple(n if broadcast or access.uses(i) else 1 for i, n in enumerate(counts))
    for i, (start, _) in enumerate(ranges):
        access = access.shifted(i, start)
    spans = [access.range(j, counts) for j in range(array.ndim)]
    if prod(high - low + 1 for low, high in spans) > max(_SPAN, 4 * array.size):
        return _scattered(operand, array, ranges, shape)
    array = _window(array, spans, operand.fill)
    base = array[tuple(slice(o - low, None) for o, (low, _) in zip(access.offset, spans, strict=True))]
    bits = base.view(f"u{base.itemsize}")  # whatever the type: NumPy describes not all of them to others
    return as_strided(bits, shape, _strides(access, array, len(ranges)), writeable=False).view(array.dtype)


def _strides(access: Access, array: Array, loops: int) -> list[int]:
    """Bytes from one step of a loop to the next."""
    return [sum(row[i] * s for row, s in zip(access.matrix, array.strides, strict=True)) for i in range(loops)]


def _window(array: Array, spans: list[tuple[int, int]], fill: float | None) -> Array:
    """The part of the array between the spans, with ``fill`` where they leave it."""
    sides = list(zip(spans, array.shape, strict=True))
    inner = tuple(slice(min(max(low, 0), n), max(min(high + 1, n), 0)) for (low, high), n in sides)
    if all(low >= 0 and high < n for (low, high), n in sides):
        return array[inner]
    assert fill is not None, "an access without a fill stays inside"
    out = np.full([high - low + 1 for low, high in spans], fill, array.dtype)
    part = array[inner]
    if part.size:
        begin = [s.start - low for s, (low, _) in zip(inner, spans, strict=True)]
        out[tuple(slice(b, b + n) for b, n in zip(begin, part.shape, strict=True))] = part
    return out


def _scattered(operand: Operand, array: Array, ranges: Ranges, shape: tuple[int, ...]) -> Array:
    """The operand point by point, for accesses that step over far more than they read."""
    inside: Array = np.ones((), bool)
    places = []
    for j, n in enumerate(array.shape):
        place: Array = np.asarray(operand.access.offset[j])
        for i, c in enumerate(operand.access.matrix[j]):
            start, count = ranges[i]
            if c:
                place = place + c * np.arange(start, start + count).reshape(
                    [-1 if i == a else 1 for a in range(len(ranges))]
                )
        inside = inside & (place >= 0) & (place < n)
        places.append(np.clip(place, 0, max(n - 1, 0)))
    fill = np.asarray(0 if operand.fill is None else operand.fill, array.dtype)
    found = array[tuple(places)] if array.size else fill
    return np.broadcast_to(np.where(inside, found, fill), shape)


def _compute(node: Compute, values: Values, shape: tuple[int, ...]) -> Array:
    if 0 in shape:
        return np.zeros(shape, (node.post or node.expr).dtype.numpy)
    if node.is_contraction:
        return _finish(node, values, _whole(node.loops), _contraction(node, values))
    out = np.empty(shape, (node.post or node.expr).dtype.numpy)
    _fill(node, values, list(_whole(node.loops)), out)
    return out


def _fill(node: Compute, values: Values, ranges: list[tuple[int, int]], out: Array) -> None:
    """``out`` for a part of the parallel loops, cut in halves until it is small."""
    counts = [n for _, n in ranges]
    widest = max(range(node.parallel), key=lambda i: counts[i], default=None)
    if prod(counts) > _LIMIT and widest is not None and counts[widest] > 1:
        start, count = ranges[widest]
        half = count // 2
        index: list[slice] = [slice(None)] * node.parallel
        for begin, size in ((start, half), (start + half, count - half)):
            ranges[widest] = (begin, size)
            index[widest] = slice(begin - start, begin - start + size)
            _fill(node, values, ranges, out[tuple(index)])
        ranges[widest] = (start, count)
        return
    part = tuple(ranges)
    value = _evaluate(node.expr, node.operands, values, part)
    if node.reducer is not None:
        value = np.broadcast_to(value, counts).reshape((*counts[: node.parallel], prod(counts[node.parallel :])))
        value = reduce(node.reducer, value)
    out[...] = _finish(node, values, part, value)


def _finish(node: Compute, values: Values, ranges: Ranges, value: Array) -> Array:
    if node.post is None:
        return value
    outer = tuple(o.keep(range(node.parallel)) for o in node.operands)
    result = _evaluate(node.post, outer, values, ranges[: node.parallel], value)
    return np.broadcast_to(result, tuple(n for _, n in ranges[: node.parallel]))


def _evaluate(
    expr: Expr, operands: tuple[Operand, ...], values: Values, ranges: Ranges, reduced: Array | None = None
) -> Array:
    def operand(position: int) -> Array:
        if position == -1:
            assert reduced is not None
            return reduced
        return read(operands[position], values, ranges)

    def index(loop: int) -> Array:
        start, count = ranges[loop]
        return np.arange(start, start + count).reshape([-1 if i == loop else 1 for i in range(len(ranges))])

    return evaluate([(s.op, s.args, s.dtype.numpy, s.imm) for s in expr.steps], operand, index)


def _contraction(node: Compute, values: Values) -> Array:
    """A sum of products as one batched matrix product; ``k`` runs over the reduction loops in row-major order."""
    left, right = node.operands[:2]
    outer, inner = range(node.parallel), list(node.inner)
    batch = [i for i in outer if left.access.uses(i) and right.access.uses(i)]
    columns = [i for i in outer if right.access.uses(i) and i not in batch]
    rows = [i for i in outer if i not in batch and i not in columns]

    def extents(loops: list[int]) -> tuple[int, ...]:
        return tuple(node.loops[i] for i in loops)

    def matrix(operand: Operand, keep: list[int]) -> Array:
        order = [*batch, *keep, *inner]
        rest = [i for i in outer if i not in order]
        loops = tuple((0, 1 if i in rest else n) for i, n in enumerate(node.loops))
        array = read(operand, values, loops, broadcast=True).transpose(*order, *rest)
        return array.reshape(prod(extents(batch)), prod(extents(keep)), prod(extents(inner)))

    a = matrix(left, rows)
    b = matrix(right, columns).swapaxes(1, 2)
    dtype = node.expr.dtype.numpy
    result = contract(None, a, b, dtype).reshape(extents([*batch, *rows, *columns]))
    return result.transpose(np.argsort([*batch, *rows, *columns]))


def _coordinates(node: Gather | Scatter, access: Access, shape: tuple[int, ...], values: Values) -> list[Array]:
    """The coordinates, one array per dimension of ``shape``, that a gather reads or a scatter writes."""
    coordinates = []
    for j, index in enumerate(node.indices):
        place = np.asarray(access.offset[j])
        for i, c in enumerate(access.matrix[j]):
            if c:
                along = [-1 if i == axis else 1 for axis in range(len(node.loops))]
                place = place + c * np.arange(node.loops[i]).reshape(along)
        if index is not None:
            place = place + read(index, values, _whole(node.loops)).astype(np.int64)
        place = np.where(place < 0, place + shape[j], place)
        if place.size and (place.min() < 0 or place.max() >= shape[j]):
            raise InterpreterFault(f"{node.name}: an index is outside 0..{shape[j] - 1}")
        coordinates.append(place)
    return coordinates


def _scatter(node: Scatter, values: Values, _: tuple[int, ...]) -> Array:
    out = np.array(values[node.data], order="C")
    places = np.zeros(node.loops, np.int64)
    for place, n in zip(_coordinates(node, node.target, out.shape, values), out.shape, strict=True):
        places = places * n + place
    update = read(node.update, values, _whole(node.loops), broadcast=True)
    scatter(out.reshape(-1), places, update, node.reducer)
    return out


def _gather(node: Gather, values: Values, _: tuple[int, ...]) -> Array:
    data = values[node.data.value]
    coordinates = _coordinates(node, node.data.access, data.shape, values)
    if not coordinates:
        return np.broadcast_to(data, node.loops).copy()
    return np.broadcast_to(data[tuple(coordinates)], node.loops).copy()


_EVALUATED: dict[type[Node], Callable[..., Array]] = {
    Compute: _compute,
    View: _view,
    Reshape: lambda node, values, shape: np.ascontiguousarray(values[node.input]).reshape(shape),
    Join: lambda node, values, _: np.concatenate([values[p] for p in node.parts], axis=node.axis),
    Merge: _merge,
    Sort: lambda node, values, _: np.sort(values[node.input], axis=-1)[..., : node.keep],
    Scatter: _scatter,
    Gather: _gather,
}
