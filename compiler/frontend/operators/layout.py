"""Operators that only move or rename elements: reshapes, views, joins, gathers with known places."""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.tensors import element_type
from compiler.ir import Access, DType, Operand, index, select

_FARTHEST = ((1 << 31) - 1, (1 << 63) - 1)  # ends that some runtimes read as "to the last" in either direction


def _shape(op: Op) -> str:
    rank = op.rank()
    begin = int(np.clip(_from_end(op.whole("start", 0), rank), 0, rank))
    end = int(np.clip(_from_end(op.whole("end", rank), rank), 0, rank))
    return op.const(op.shape()[begin:end], DType.I64)


def _from_end(place: int, rank: int) -> int:
    return place + rank if place < 0 else place


def _size(op: Op) -> str:
    return op.const(prod(op.shape()), DType.I64)


def _reshape(op: Op) -> str:
    wanted = op.ints("shape", 1, "The shape")
    shape = op.shape()
    if not op.whole("allowzero", 0):
        op.need(
            all(d != 0 or i < len(shape) for i, d in enumerate(wanted)),
            "a 0 in the shape copies a dimension that is not there.",
        )
        wanted = [shape[i] if d == 0 else d for i, d in enumerate(wanted)]
    return op.b.reshape(op.x(), _fitted(op, wanted, prod(shape)))


def _fitted(op: Op, wanted: list[int], elements: int) -> list[int]:
    """The shape with its -1 replaced by what is left."""
    open_places = [i for i, d in enumerate(wanted) if d == -1]
    rest = prod(d for d in wanted if d != -1)
    op.need(len(open_places) <= 1 and all(d >= -1 for d in wanted), f"the shape {wanted} is not one.")
    if open_places:
        op.need(rest > 0 and elements % rest == 0, f"{elements} elements do not fill {wanted}.")
        wanted = [elements // rest if d == -1 else d for d in wanted]
    op.need(prod(wanted) == elements, f"{elements} elements do not fill {wanted}.")
    return wanted


def _flatten(op: Op) -> str:
    axis = op.whole("axis", 1)
    op.need(-op.rank() <= axis <= op.rank(), f"the axis {axis} is outside its input.")
    axis = axis % op.rank() if axis < 0 else axis
    return op.b.reshape(op.x(), (prod(op.shape()[:axis]), prod(op.shape()[axis:])))


def _squeeze(op: Op) -> str:
    shape = op.shape()
    ones = [j for j, n in enumerate(shape) if n == 1]
    axes = op.axes(op.ints("axes", 1, "The axes", ones), len(shape))
    op.need(all(shape[a] == 1 for a in axes), f"a dimension of {list(shape)} that is to vanish is not 1.")
    return op.b.reshape(op.x(), [n for j, n in enumerate(shape) if j not in axes])


def _unsqueeze(op: Op) -> str:
    axes = op.ints("axes", 1, "The axes")
    rank = op.rank() + len(axes)
    axes = list(op.axes(axes, rank))
    rest = iter(op.shape())
    return op.b.reshape(op.x(), [1 if j in axes else next(rest) for j in range(rank)])


def _transpose(op: Op) -> str:
    order = op.wholes("perm", list(range(op.rank()))[::-1])
    op.need(sorted(order) == list(range(op.rank())), f"the order {order} does not name each dimension once.")
    return op.transpose(op.x(), order)


def _expand(op: Op) -> str:
    wanted = op.ints("", 1, "The shape")
    op.need(all(d >= 0 for d in wanted), f"the shape {wanted} is not one.")
    return op.expand(op.x(), op.broadcast(op.shape(), tuple(wanted)))


def _concat(op: Op) -> str:
    axis = op.axis(op.whole("axis", 1 if op.opset < 4 else None), op.rank())
    parts = [op.x(i) for i in range(len(op.inputs))]
    first = op.b.types[parts[0]]
    for part in parts:
        kind = op.b.types[part]
        same = kind.dtype == first.dtype and len(kind.shape) == len(first.shape)
        op.need(
            same and all(a == b for j, (a, b) in enumerate(zip(kind.shape, first.shape, strict=True)) if j != axis),
            f"{kind} and {first} do not fit side by side.",
        )
    return op.b.join(parts, axis)


def _split(op: Op) -> tuple[str, ...]:
    axis = op.axis(op.whole("axis", 0), op.rank())
    n = op.shape()[axis]
    count = op.whole("num_outputs", op.outputs)
    op.need(0 < count <= op.outputs, f"{count} parts for {op.outputs} outputs.")
    even = -(-n // count)
    sizes = op.ints("split", 1, "The split", [max(0, min(even, n - i * even)) for i in range(count)])
    op.need(sum(sizes) == n and min(sizes) >= 0, f"{sizes} do not make {n}.")
    starts = np.cumsum([0, *sizes])
    return tuple(op.slice(op.x(), axis, int(s), size) for s, size in zip(starts, sizes, strict=False))


def _slice(op: Op) -> str:
    starts = op.ints("starts", 1, "The starts")
    ends = op.ints("ends", 2, "The ends")
    axes = op.axes(op.ints("axes", 3, "The axes", list(range(len(starts)))), op.rank())
    steps = op.ints("", 4, "The steps", [1] * len(starts))
    op.need(len(starts) == len(ends) == len(axes) == len(steps), "starts, ends, axes and steps differ in length.")
    result = op.x()
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        op.need(step != 0, "a step is 0.")
        places = _between(op, start, end, step, op.b.shape(result)[axis])
        result = op.slice(result, axis, places.start if places else 0, len(places), step if places else 1)
    return result


def _between(op: Op, start: int, end: int, step: int, size: int) -> range:
    """The places of a slice as the standard clamps them: backwards from within 0 to size - 1, down to within -1 to size - 1."""
    start, last = (place + size if place < 0 else place for place in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(last, 0), size), step)
    places = range(min(max(start, 0), size - 1), min(max(last, -1), size - 1), step)
    if end in _FARTHEST and len(places) < len(range(places.start, -1, step)):
        op.fail(
            f"counts backwards to {end}, which runtimes take for different ends. Write {-(1 << 63)} for the very first."
        )
    return places


def _pad(op: Op) -> str:
    name = "paddings" if "paddings" in op.attributes else "pads"
    pads = op.ints(name, 1, "The pads")
    rank = op.rank()
    axes = op.axes(op.ints("", 3, "The axes", list(range(rank))), rank)
    op.need(len(pads) == 2 * len(axes), f"{len(pads)} pads for {len(axes)} dimensions.")
    mode = op.text("mode", "constant")
    sides = {axis: (pads[i], pads[i + len(axes)]) for i, axis in enumerate(axes)}
    op.need(all(abs(p) < 1 << 31 for p in pads), "a pad is too large.")
    if mode == "constant":
        return _pad_constant(op, sides)
    result = op.x()
    for axis, (before, after) in sides.items():
        result = op.take(result, axis, _mirrored(op, mode, op.shape()[axis], before, after))
    return result


def _pad_constant(op: Op, sides: dict[int, tuple[int, int]]) -> str:
    fill: float = op.real("value", 0.0)
    computed: str | None = None
    if op.has(2):
        known = op.b.known(op.x(2))
        computed = op.b.reshape(op.x(2), ()) if known is None else None
        fill = fill if known is None else known.reshape(-1)[0].item()
    shape = [n + sum(sides.get(j, (0, 0))) for j, n in enumerate(op.shape())]
    op.need(min(shape, default=1) >= 0, "takes away more than there is.")
    offset = tuple(-sides.get(j, (0, 0))[0] for j in range(len(shape)))
    access = Access(offset, Access.identity(len(shape)).matrix)
    padded = op.b.view(op.x(), shape, access, float(fill) if op.dtype().is_float else int(fill))
    if computed is None or padded == op.x():
        return padded
    op.need(op.dtype(2) == op.dtype(), "the value that pads has another type than its data.")
    inside = op.b.view(op.const(np.ones(op.shape()), DType.BOOL), shape, access, 0)
    return op.point(select, inside, padded, computed, shape=shape)


def _mirrored(op: Op, mode: str, n: int, before: int, after: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Source places of a padded dimension."""
    op.need(n > 0, "has nothing to repeat.")
    places = np.arange(-before, n + after)
    if mode == "edge":
        return np.clip(places, 0, n - 1)
    if mode == "wrap":
        return places % n
    op.need(mode == "reflect", f"the mode {mode!r} is unknown.")
    if n == 1:
        return np.zeros_like(places)
    places = places % (2 * n - 2)
    return np.where(places < n, places, 2 * n - 2 - places)


def _tile(op: Op) -> str:
    repeats = op.ints("", 1, "The repeats")
    if op.opset < 6 and op.has(2):
        counts = [1] * op.rank()
        counts[op.axis(int(op.known(2, "The axis").reshape(-1)[0]), op.rank())] = repeats[0]
        repeats = counts
    op.need(
        len(repeats) == op.rank() and min(repeats, default=1) >= 0, f"{repeats} repeats for {op.rank()} dimensions."
    )
    wide = [n for pair in zip(repeats, op.shape(), strict=True) for n in pair]
    split = op.b.reshape(op.x(), [n for size in op.shape() for n in (1, size)])
    return op.b.reshape(op.expand(split, wide), [r * n for r, n in zip(repeats, op.shape(), strict=True)])


def _depth_to_space(op: Op) -> str:
    n, c, h, w = _image(op)
    s = op.whole("blocksize")
    op.need(s > 0 and c % (s * s) == 0, f"{c} channels do not make blocks of {s} x {s}.")
    if op.text("mode", "DCR") == "DCR":
        split, order = (n, s, s, c // (s * s), h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, order = (n, c // (s * s), s, s, h, w), (0, 1, 4, 2, 5, 3)
    moved = op.transpose(op.b.reshape(op.x(), split), order)
    return op.b.reshape(moved, (n, c // (s * s), h * s, w * s))


def _space_to_depth(op: Op) -> str:
    n, c, h, w = _image(op)
    s = op.whole("blocksize")
    op.need(s > 0 and h % s == 0 and w % s == 0, f"{h} x {w} does not divide into blocks of {s}.")
    split = op.b.reshape(op.x(), (n, c, h // s, s, w // s, s))
    order = (0, 3, 5, 1, 2, 4) if op.text("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return op.b.reshape(op.transpose(split, order), (n, c * s * s, h // s, w // s))


def _image(op: Op) -> tuple[int, int, int, int]:
    shape = op.shape()
    op.need(len(shape) == 4, "takes a tensor of four dimensions.")
    return shape[0], shape[1], shape[2], shape[3]


def _constant(op: Op) -> str:
    tensor = op.tensor("value")
    if tensor is not None:
        return op.b.constant(tensor)
    for name, make in (("value_int", op.whole), ("value_ints", op.wholes)):
        if name in op.attributes:
            return op.const(make(name), DType.I64)
    for name in ("value_float", "value_floats"):
        if name in op.attributes:
            return op.const(op.real(name) if name == "value_float" else op.reals(name), DType.F32)
    return op.fail("holds neither numbers nor a tensor of numbers (texts and sparse tensors are not supported).")


def _constant_of_shape(op: Op) -> str:
    shape = op.ints("", 0, "The shape")
    value = op.tensor("value")
    value = np.zeros(1, np.float32) if value is None else value.reshape(-1)
    op.need(value.size == 1 and min(shape, default=0) >= 0, "needs one value and a shape of whole numbers.")
    return op.expand(op.b.constant(value.reshape(())), shape)


def _range(op: Op) -> str:
    start, limit, delta = (
        op.known(i, name).reshape(()).item() for i, name in enumerate(("The start", "The limit", "The step"))
    )
    op.need(delta != 0, "the step is 0.")
    count = max(0, int(np.ceil((limit - start) / delta)))
    op.need(count < 1 << 26, f"{count} elements are too many.")
    dtype = op.dtype()
    return op.const(
        np.asarray(start, dtype.numpy) + np.arange(count).astype(dtype.numpy) * np.asarray(delta, dtype.numpy), dtype
    )


def _eye_like(op: Op) -> str:
    shape = op.shape()
    op.need(len(shape) == 2, "takes a matrix.")
    dtype = element_type(op.whole("dtype"), "The result") if "dtype" in op.attributes else op.dtype()
    op.need(max(shape) < 1 << 14, "is too large.")
    return op.const(np.eye(shape[0], shape[1], k=op.whole("k", 0)), dtype)


def _center_crop_pad(op: Op) -> str:
    wanted = op.ints("", 1, "The shape")
    axes = op.axes(op.wholes("axes", list(range(op.rank()))), op.rank())
    result = op.x()
    for axis, size in zip(axes, wanted, strict=True):
        n = op.b.shape(result)[axis]
        offset = (n - size) // 2 if n >= size else -((size - n) // 2)
        shape = list(op.b.shape(result))
        shape[axis] = size
        access = Access(
            tuple(offset if j == axis else 0 for j in range(len(shape))), Access.identity(len(shape)).matrix
        )
        result = op.b.view(result, shape, access, 0.0 if op.dtype().is_float else 0)
    return result


def _reverse_sequence(op: Op) -> str:
    """Place t of a row of length n comes from n - 1 - t while t < n."""
    shape = op.shape()
    batch, time = (op.axis(op.whole(name, i), len(shape)) for name, i in (("batch_axis", 1), ("time_axis", 0)))
    op.need(batch != time and op.shape(1) == (shape[batch],), "its lengths do not fit its batch.")
    lengths = op.b.reshape(op.cast(op.x(1), DType.I64), (shape[batch], 1))
    places = op.point(
        lambda n: select(index(1).op("lt", n), n - 1 - index(1), index(1)), lengths, shape=(shape[batch], shape[time])
    )
    access = Access.identity(len(shape))
    rows = tuple((0,) * len(shape) if j == time else row for j, row in enumerate(access.matrix))
    indices: list[Operand | None] = [None] * len(shape)
    indices[time] = Operand(places, Access((0, 0), (access.matrix[batch], access.matrix[time])))
    return op.b.gather(op.x(), shape, Access(access.offset, rows), indices)


def _col2im(op: Op) -> str:
    """Every output place adds up one element of each tap that covers it; per axis a table says which, or none."""
    image, block = op.ints("", 1, "The image's shape"), op.ints("", 2, "The block's shape")
    rank = len(image)
    op.need(op.rank() == 3 and len(block) == rank >= 1 and min(*image, *block) > 0, "its shapes do not fit its input.")
    strides, dilations = op.wholes("strides", [1] * rank), op.wholes("dilations", [1] * rank)
    pads = op.wholes("pads", [0] * 2 * rank)
    op.need(len(strides) == len(dilations) == rank and len(pads) == 2 * rank, "its window does not fit its image.")
    op.need(min(*strides, *dilations) > 0, "a stride or a dilation is not positive.")
    counts = [
        (image[j] + pads[j] + pads[j + rank] - (block[j] - 1) * dilations[j] - 1) // strides[j] + 1 for j in range(rank)
    ]
    batch, rows, columns = op.shape()
    op.need(
        min(counts) > 0 and columns == prod(counts) and rows % prod(block) == 0, "its input does not fit its shapes."
    )
    channels = rows // prod(block)
    split = op.b.reshape(op.x(), (batch, channels, *block, *counts))
    wide = (batch, channels, *block, *(n + 1 for n in counts))
    split = op.b.view(split, wide, Access.identity(len(wide)), 0.0 if op.dtype().is_float else 0)
    loops = (batch, channels, *image, *block)
    data = [[0] * len(loops) for _ in wide]
    data[0][0] = data[1][1] = 1
    indices: list[Operand | None] = [None] * len(wide)
    for j in range(rank):
        data[2 + j][2 + rank + j] = 1
        offset = np.arange(image[j])[None, :] + pads[j] - np.arange(block[j])[:, None] * dilations[j]
        place = np.where((offset >= 0) & (offset % strides[j] == 0), offset // strides[j], counts[j])
        table = op.const(np.minimum(place, counts[j]), DType.I64)
        indices[2 + rank + j] = Operand(table, Access.of_loops((2 + rank + j, 2 + j), len(loops)))
    gathered = op.b.gather(split, loops, Access((0,) * len(wide), tuple(map(tuple, data))), indices)
    return op.reduce("sum", gathered, range(2 + rank, 2 + 2 * rank), keep=False)


def _has_element(op: Op) -> str:
    return op.const(bool(op.inputs) and op.inputs[0] is not None, DType.BOOL)


TABLE: dict[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Concat": _concat,
    "Split": _split,
    "Slice": _slice,
    "Pad": _pad,
    "Tile": _tile,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "Constant": _constant,
    "ReverseSequence": _reverse_sequence,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "EyeLike": _eye_like,
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "OptionalHasElement": _has_element,
}
