"""Draws of operators that move elements: views, joins, pads, gathers, scatters, sorts."""

from __future__ import annotations

import math

import numpy as np

from tests.compiler.odd.draft import FLOATS, WHOLES, Draft, Unfit

ANY = (*FLOATS, *WHOLES, np.bool_)


def transpose(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    order = [int(i) for i in d.rng.permutation(d.like(a).ndim)]
    d.node("Transpose", [a], **({"perm": order} if order and d.chance(0.8) else {}))


def reshape(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    shape, size = d.like(a).shape, d.like(a).size
    if not size:
        d.node("Reshape", [a, d.whole_const(*(0 for _ in shape))])
        return
    new, left = [], size
    for _ in range(d.whole(0, 3)):
        new.append(d.one(*[n for n in range(1, left + 1) if left % n == 0]))
        left //= new[-1]
    new.append(left)
    for i, n in enumerate(new):
        if i < len(shape) and n == shape[i] and d.chance(0.3):
            new[i] = 0
    if d.chance(0.4):
        new[d.whole(0, len(new) - 1)] = -1
    d.node("Reshape", [a, d.whole_const(*new)])


def flatten(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    rank = d.like(a).ndim
    d.node("Flatten", [a], axis=d.whole(0 if d.opset < 11 else -rank, rank))


def squeeze(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    shape = d.like(a).shape
    if d.chance():
        axes = sorted({d.whole(0, len(shape)) for _ in range(d.whole(1, 2))})
        rank = len(shape) + len(axes)
        given = [x - rank if d.opset >= 11 and d.chance(0.3) else x for x in axes]
        kind = "Unsqueeze"
    else:
        ones = [i for i, n in enumerate(shape) if n == 1]
        kind = "Squeeze"
        if not ones or d.chance(0.2):
            d.node(kind, [a])
            return
        given = [i - len(shape) if d.opset >= 11 and d.chance(0.3) else i for i in ones if d.chance(0.7)] or ones[:1]
    if d.opset < 13:
        d.node(kind, [a], axes=given)
    else:
        d.node(kind, [a, d.whole_const(*given)])


def join(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, rank=None, dtypes=ANY)
    shape = list(d.like(a).shape)
    if not shape:
        raise Unfit("nothing to join along")
    axis = d.axis(len(shape))
    parts = [a]
    for _ in range(d.whole(0, 3)):
        other = list(shape)
        other[axis] = d.whole(0, 3) if d.chance(0.7) else other[axis]
        parts.append(a if d.chance(0.2) else d.either(d.array(other, d.like(a).dtype)))
    d.node("Concat", [parts[i] for i in d.rng.permutation(len(parts))], axis=axis)


def split(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, dtypes=ANY)
    shape = d.like(a).shape
    if not shape:
        raise Unfit("nothing to split")
    axis = d.axis(len(shape))
    n = shape[axis]
    if d.chance() or n == 0:
        cuts = sorted(d.whole(0, n) for _ in range(d.whole(1, 2)))
        sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
        if d.opset < 13:
            d.node("Split", [a], len(sizes), axis=axis, split=sizes)
        else:
            d.node("Split", [a, d.whole_const(*sizes)], len(sizes), axis=axis)
        return
    count = d.whole(1, n)
    if d.opset >= 18:
        d.node("Split", [a], count, axis=axis, num_outputs=count)
    else:
        d.node("Split", [a], count, axis=axis)


def cut(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, dtypes=ANY)
    shape = d.like(a).shape
    axes = d.axes(len(shape), min(1, len(shape)))
    if not axes:
        raise Unfit("nothing to cut")
    starts = [d.whole(-shape[i] - 2, shape[i] + 1) for i in axes]
    ends = [d.one(d.whole(-shape[i] - 2, shape[i] + 2), 2**31 - 1, -(2**31)) for i in axes]
    if d.opset < 10:
        d.node("Slice", [a], starts=starts, ends=ends, axes=[i % len(shape) for i in axes])
        return
    steps = [d.one(1, 1, 2, 3, -1, -2) for _ in axes]
    parts = [d.whole_const(*v) for v in (starts, ends, axes, steps)]
    d.node("Slice", [a, *parts[: d.one(4, 4, 4, 3)]])


def pad(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, dtypes=FLOATS if d.opset < 13 else (*FLOATS, np.int64, np.int32))
    array = d.like(a)
    rank = array.ndim
    modes = ["constant", "reflect", "edge"] + (["wrap"] if d.opset >= 19 else [])
    mode = d.one(*modes) if array.size else "constant"
    axes = d.axes(rank) if d.opset >= 18 and mode == "constant" and d.chance(0.4) else list(range(rank))
    most = [array.shape[i] - 1 if mode == "reflect" else 3 for i in axes]
    least = [-min(1, max(0, array.shape[i] - 2)) if mode == "constant" and d.chance(0.4) else 0 for i in axes]
    pads = [d.whole(lo, max(hi, lo)) for lo, hi in zip(least * 2, most * 2, strict=True)]
    if d.opset < 11:
        d.node("Pad", [a], pads=pads, mode=mode, **({"value": 0.5} if d.chance() else {}))
        return
    more = [d.either(d.array((), array.dtype))] if mode == "constant" and d.chance(0.6) else []
    tail = [*(more or [""]), d.whole_const(*axes)] if len(axes) < rank or axes != list(range(rank)) else more
    d.node("Pad", [a, d.whole_const(*pads), *tail], mode=mode)


def tile(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    rank = d.like(a).ndim
    if d.chance():
        d.node("Tile", [a, d.const(np.array([d.one(1, 1, 2, 3, 0) for _ in range(rank)], np.int64))])
        return
    shape = list(d.like(a).shape)
    new = [d.whole(1, 3) if n == 1 else d.one(n, 1) for n in shape]
    new = [d.one(1, 2) for _ in range(d.whole(0, 1))] + new
    d.node("Expand", [a, d.const(np.array(new, np.int64))])


def blocks(d: Draft) -> None:
    size = d.one(1, 2, 3)
    dtype = d.one(*FLOATS)
    if d.chance():
        a = d.input(d.array((d.one(1, 2), size * size * d.whole(1, 2), d.whole(1, 3), d.whole(1, 3)), dtype))
        mode = {"mode": d.one("DCR", "CRD")} if d.opset >= 11 and d.chance(0.7) else {}
        d.node("DepthToSpace", [a], blocksize=size, **mode)
    else:
        a = d.input(d.array((d.one(1, 2), d.whole(1, 3), size * d.whole(1, 2), size * d.whole(1, 2)), dtype))
        d.node("SpaceToDepth", [a], blocksize=size)


def _places(d: Draft, shape: tuple[int, ...], size: int) -> str:
    if not size:
        raise Unfit("no element to choose")
    return d.either(
        np.asarray(d.rng.integers(-size if d.opset >= 11 else 0, size, shape)).astype(d.one(np.int64, np.int32))
    )


def gather(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, dtypes=ANY)
    shape = d.like(a).shape
    if not shape:
        raise Unfit("nothing to gather from")
    axis = d.axis(len(shape))
    kind = d.one("Gather", "GatherElements", "GatherND") if d.opset >= 11 else "Gather"
    if kind == "Gather":
        d.node(kind, [a, _places(d, d.shape(d.whole(0, 2)), shape[axis])], axis=axis)
    elif kind == "GatherElements":
        other = tuple(d.whole(1, max(1, n)) if i != axis % len(shape) else d.whole(1, 4) for i, n in enumerate(shape))
        d.node(kind, [a, _places(d, other, shape[axis])], axis=axis)
    else:
        batch = d.whole(0, min(1, len(shape) - 1)) if d.opset >= 12 else 0
        depth = d.whole(1, len(shape) - batch)
        lead = (*shape[:batch], *d.shape(d.whole(0 if batch else 1, 2), most=3))
        parts = [d.rng.integers(-n, n, lead) for n in shape[batch : batch + depth] if n]
        if len(parts) < depth:
            raise Unfit("no element to choose")
        d.node(kind, [a, d.either(np.stack(parts, -1).astype(np.int64))], **({"batch_dims": batch} if batch else {}))


def scatter(d: Draft) -> None:
    if d.opset < 11:
        raise Unfit("older form")
    a = d.value(lambda x: x.ndim > 0 and x.size > 0, dtypes=(*FLOATS, np.int64, np.int32))
    array = d.like(a)
    if not array.ndim or not array.size:
        raise Unfit("nothing to scatter into")
    ways = ["none"] + (["add", "mul"] if d.opset >= 16 else []) + (["min", "max"] if d.opset >= 18 else [])
    how = d.one(*ways)
    given = {"reduction": how} if d.opset >= 16 else {}
    if d.chance():
        axis = d.axis(array.ndim)
        shape = tuple(d.whole(1, n) for n in array.shape)
        n = array.shape[axis]
        places = d.rng.integers(-n, n, shape)
        if how == "none":  # an element written twice may hold either
            order = np.argsort(d.rng.random(array.shape), axis=axis)
            places = order[tuple(slice(0, k) for k in shape)]
        d.node(
            "ScatterElements",
            [a, d.either(places.astype(np.int64)), d.either(d.array(shape, array.dtype))],
            axis=axis,
            **given,
        )
        return
    depth = d.whole(1, array.ndim)
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in array.shape[:depth]), indexing="ij"), -1).reshape(-1, depth)
    many = d.whole(1, len(grid))
    places = grid[d.rng.permutation(len(grid))[:many] if how == "none" else d.rng.integers(0, len(grid), many)]
    updates = d.array((many, *array.shape[depth:]), array.dtype)
    d.node("ScatterND", [a, d.either(places.astype(np.int64)), d.either(updates)], **given)


def ordered(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0 and x.size > 0, dtypes=(*FLOATS, np.int64, np.int32))
    shape = d.like(a).shape
    if not shape or not d.like(a).size:
        raise Unfit("nothing to sort")
    axis = d.axis(len(shape)) if d.opset >= 11 else d.whole(0, len(shape) - 1)
    k = d.whole(1, shape[axis])
    if d.opset < 10:
        d.node("TopK", [a], 2, axis=axis, k=k)
    elif d.opset < 11:
        d.node("TopK", [a, d.whole_const(k)], 2, axis=axis)
    else:
        d.node("TopK", [a, d.whole_const(k)], 2, axis=axis, largest=d.whole(0, 1), sorted=1)


def hot(d: Draft) -> None:
    depth = d.whole(1, 5)
    places = d.either(
        d.rng.integers(-depth - 1, depth + 2, d.shape(d.whole(0, 3), most=3)).astype(d.one(np.int64, np.int32))
    )
    values = d.const(d.array((2,), d.one(np.float32, np.int64)))
    axis = {"axis": d.axis(d.like(places).ndim + 1)} if d.chance(0.7) else {}
    d.node("OneHot", [places, d.const(np.array(depth, np.int64)), values], **axis)


def triangle(d: Draft) -> None:
    if d.chance():
        a = d.value(lambda x: x.ndim > 1, dtypes=ANY)
        more = [d.const(np.array(d.whole(-4, 4), np.int64))] if d.chance(0.7) else []
        d.node("Trilu", [a, *more], upper=d.whole(0, 1))
        return
    a = d.value(rank=2, dtypes=ANY)
    d.node("EyeLike", [a], k=d.whole(-3, 3), **({"dtype": d.one(1, 6, 7, 11)} if d.chance() else {}))


def turned(d: Draft) -> None:
    rank, first = d.whole(2, 4), d.chance()
    a = d.value(lambda x: x.size > 0, rank=rank, dtypes=FLOATS)
    shape = d.like(a).shape
    if not d.like(a).size:
        raise Unfit("nothing to turn")
    time, batch = (0, 1) if first else (1, 0)
    lengths = d.either(d.rng.integers(1, shape[time] + 1, shape[batch]).astype(np.int64))
    d.node("ReverseSequence", [a, lengths], time_axis=time, batch_axis=batch)


def sizes(d: Draft) -> None:
    a = d.value(dtypes=ANY)
    kind = d.one("Shape", "Size", "ConstantOfShape", "Range")
    if kind == "Shape":
        given = {n: d.whole(-4, 4) for n in ("start", "end") if d.chance(0.4)} if d.opset >= 15 else {}
        d.node(kind, [a], **given)
    elif kind == "Size":
        d.node(kind, [a])
    elif kind == "ConstantOfShape":
        from onnx import numpy_helper

        value = (
            {"value": numpy_helper.from_array(d.array((1,), d.one(np.float32, np.int64, np.bool_)))}
            if d.chance(0.7)
            else {}
        )
        (shape,) = d.node("Shape", [a])
        d.node(kind, [shape], **value)
    else:
        dtype = d.one(np.int64, np.int32, np.float32)
        step = d.one(1, 2, -1, 3)
        d.node(kind, [d.const(np.array(v, dtype)) for v in (d.whole(-3, 3), d.whole(-6, 9), step)])


def found(d: Draft) -> None:
    """Operators whose results' sizes depend on the data."""
    kind = d.one("NonZero", "Compress", "Unique")
    a = d.value(lambda x: x.size > 0 and x.ndim > 0, dtypes=(np.float32, np.int64, np.int32))
    array = d.like(a)
    if not array.size or not array.ndim:
        raise Unfit("nothing to find")
    if kind == "NonZero":
        d.node(kind, [a])
    elif kind == "Compress":
        axis = {"axis": d.axis(array.ndim)} if d.chance(0.7) else {}
        n = array.shape[axis["axis"]] if axis else array.size
        d.node(kind, [a, d.const(d.array((max(1, d.whole(1, n)),), np.bool_))], **axis)
    else:
        axis = {"axis": d.axis(array.ndim)} if d.chance() else {}
        d.node(kind, [a], d.whole(1, 4), sorted=1, **axis)


def middle(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0 and x.size > 0, dtypes=FLOATS)
    rank = d.like(a).ndim
    axes = d.axes(rank, min(1, rank))
    if not axes:
        raise Unfit("no axis")
    d.node("CenterCropPad", [a, d.whole_const(*(d.whole(1, 7) for _ in axes))], axes=axes)


def folded(d: Draft) -> None:
    block, image = [d.whole(1, 2), d.whole(1, 3)], [d.whole(3, 5), d.whole(3, 5)]
    pads = [d.whole(0, 1) for _ in range(4)]
    strides, dilations = [d.whole(1, 2) for _ in range(2)], [d.one(1, 1, 2) for _ in range(2)]
    steps = [(image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(2)]
    if min(steps) < 1:
        raise Unfit("no block fits")
    a = d.input(d.array((d.one(1, 2), d.whole(1, 2) * math.prod(block), math.prod(steps))))
    d.node("Col2Im", [a, d.whole_const(*image), d.whole_const(*block)], pads=pads, strides=strides, dilations=dilations)


MAKERS = [
    transpose,
    transpose,
    reshape,
    reshape,
    flatten,
    squeeze,
    join,
    split,
    cut,
    cut,
    pad,
    tile,
    blocks,
    gather,
    gather,
    scatter,
    ordered,
    hot,
    triangle,
    turned,
    sizes,
    found,
    middle,
    folded,
]
