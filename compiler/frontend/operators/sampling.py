"""Operators that read between elements: grid sampling, region alignment, deformable convolution.

All are index arithmetic, a gather of a few neighbours per place (the taps) and a weighted sum over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule, summed
from compiler.frontend.operators.spatial import Window, window
from compiler.ir import Access, DType, Operand, Term, arg, index, select

_CUBIC = -0.75


@dataclass(frozen=True)
class Taps:
    """Neighbours along one dimension of the data: ``places`` (int64) and ``weights``, both [..., taps]."""

    places: str
    weights: str


def taps(op: Op, x: str, size: int, mode: str, outside: Callable[[Term, int], tuple[Term, Term | None]]) -> Taps:
    """The taps around the coordinates ``x`` of a dimension of ``size`` elements.

    ``outside`` maps a whole coordinate to the place to read and the condition under which it counts (None: always).
    """
    dtype = op.b.dtype(x)
    count, first = {"nearest": (1, 0), "linear": (2, 0), "cubic": (4, -1)}[mode]
    shape = (*op.b.shape(x), count)
    wide = op.b.reshape(x, (*op.b.shape(x), 1))
    place = index(len(shape) - 1)

    def floor(v: Term) -> Term:
        return v if mode == "nearest" else v.op("floor")

    places = op.point(lambda v: floor(v).cast(DType.I64) + place + first, wide, shape=shape)

    def weight(v: Term, at: Term) -> Term:
        distance = (v - at.cast(dtype)).op("abs")
        found = _kernel(mode, distance)
        _, counts = outside(at, size)
        return found if counts is None else select(counts, found, 0.0)

    weights = op.point(weight, wide, places)
    return Taps(op.point(lambda at: outside(at, size)[0], places), weights)


def _kernel(mode: str, d: Term) -> Term:
    if mode == "nearest":
        return d * 0.0 + 1.0
    if mode == "linear":
        return (1.0 - d).op("max", 0.0)
    near = ((_CUBIC + 2) * d - (_CUBIC + 3)) * d * d + 1.0
    far = ((d * _CUBIC - 5 * _CUBIC) * d + 8 * _CUBIC) * d - 4 * _CUBIC
    return select(d.op("le", 1.0), near, far)


def clamped(at: Term, size: int) -> tuple[Term, Term | None]:
    return at.op("max", 0).op("min", size - 1), None


def zeroed(at: Term, size: int) -> tuple[Term, Term | None]:
    return at.op("max", 0).op("min", size - 1), at.op("ge", 0).op("and", at.op("lt", size))


def _reflect(x: Term, low: float, high: float) -> Term:
    """Mirrored at the borders until it lies between them."""
    span = high - low
    if span <= 0:
        return x * 0.0 + low
    beyond = select(x.op("lt", low), low - x, x - high)
    turns = (beyond / span).op("floor")
    rest = beyond - turns * span
    even = turns.op("mod", 2.0).op("eq", 0.0)
    under = select(even, rest + low, high - rest)
    over = select(even, high - rest, rest + low)
    return select(x.op("lt", low), under, select(x.op("gt", high), over, x))


def _grid_sample(op: Op) -> str:
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(op.text("mode", "linear"), op.text("mode", "linear"))
    padding, corners = op.text("padding_mode", "zeros"), bool(op.whole("align_corners", 0))
    spatial, grid = op.shape()[2:], op.shape(1)
    rank = len(spatial)
    op.need(mode in ("nearest", "linear", "cubic"), f"the mode {mode!r} is unknown.")
    op.need(padding in ("zeros", "border", "reflection"), f"the padding {padding!r} is unknown.")
    op.need(
        rank >= 1 and len(grid) == rank + 2 and grid[-1] == rank and grid[0] == op.shape()[0], "its grid does not fit."
    )
    op.need(op.dtype().is_float and min(spatial) > 0, "samples floats.")
    found = []
    for j, size in enumerate(spatial):
        place = op.b.reshape(op.slice(op.x(1), rank + 1, rank - 1 - j, 1), grid[:-1])
        place = op.cast(place, summed(op.dtype(1)))
        low, high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)

        def moved(v: Term, size: int = size, low: float = low, high: float = high) -> Term:
            x = (v + 1.0) / 2.0 * float(size - 1) if corners else ((v + 1.0) * float(size) - 1.0) / 2.0
            x = x.op("round") if mode == "nearest" else x
            if padding == "border" and mode != "cubic":  # a cubic's taps are held within the border one by one
                return select(x.op("lt", low).op("or", x.op("gt", high)), x.op("max", 0.0).op("min", size - 1.0), x)
            return _reflect(x, low, high) if padding == "reflection" else x

        def outside(at: Term, size: int, low: float = low, high: float = high) -> tuple[Term, Term | None]:
            if padding == "reflection":
                at = _reflect(at.cast(DType.F32), low, high).cast(DType.I64)
            return (zeroed if padding == "zeros" else clamped)(at, size)

        x = op.point(lambda v, moved=moved: moved(v).op("max", -(2.0**30)).op("min", 2.0**30), place)
        found.append(taps(op, x, size, mode, outside))
    return _sampled(op, op.x(), found, (grid[0],), grid[1:-1])


def _sampled(op: Op, data: str, found: Sequence[Taps], batch: tuple[int, ...], out: tuple[int, ...]) -> str:
    """``data`` [batch, channels, ...] at taps of shape [batch, out, taps] per dimension: [batch, channels, out]."""
    channels = op.b.shape(data)[1]
    outer = (*batch, channels, *out)
    counts = [op.b.shape(t.places)[-1] for t in found]
    first, last = 2, 2 + len(out)
    loops = (*outer, *counts)

    def read(value: str, tap: int) -> Operand:
        rows = [
            _unit(0, len(loops)),
            *(_unit(i, len(loops)) for i in range(first, last)),
            _unit(last + tap, len(loops)),
        ]
        return Operand(value, Access((0,) * len(rows), tuple(rows)))

    access = Access(
        (0,) * (2 + len(found)), (_unit(0, len(loops)), _unit(1, len(loops)), *((0,) * len(loops) for _ in found))
    )
    gathered = op.b.gather(data, loops, access, [None, None, *(read(t.places, i) for i, t in enumerate(found))])
    operands = [Operand(gathered, Access.identity(len(loops))), *(read(t.weights, i) for i, t in enumerate(found))]
    return _weighted(op, operands, loops, len(outer), op.b.dtype(data))


def _weighted(op: Op, operands: list[Operand], loops: tuple[int, ...], outer: int, dtype: DType) -> str:
    """The sum of products of all operands over the loops behind ``outer``."""
    wide = op.b.dtype(operands[1].value)
    term = arg(0, dtype).cast(wide)
    for i, operand in enumerate(operands[1:], 1):
        term = term * arg(i, op.b.dtype(operand.value)).cast(wide)
    post = arg(-1, wide).cast(dtype) if wide != dtype else None
    return op.b.compute(loops, operands, term, parallel=outer, reducer="sum", post=post)


def _unit(place: int, width: int) -> tuple[int, ...]:
    return tuple(int(i == place) for i in range(width))


def _roi_align(op: Op) -> str:
    sides = op.whole("output_height", 1), op.whole("output_width", 1)
    ratio = op.whole("sampling_ratio", 0)
    op.need(
        0 < ratio <= 64,
        "its sampling_ratio of 0 lets the work depend on the sizes of the regions, which have no bound. Export it with a "
        "sampling_ratio between 1 and 64.",
    )
    mode = op.text("mode", "avg")
    op.need(mode in ("avg", "max") and min(sides) > 0, "its mode or its output size is unknown.")
    half = (
        op.text("coordinate_transformation_mode", "half_pixel" if op.opset >= 16 else "output_half_pixel")
        == "half_pixel"
    )
    regions, channels = op.shape(1)[0], op.shape()[1]
    wide = summed(op.dtype(1))
    found = _region_taps(op, sides, ratio, half, wide)
    loops = (regions, channels, sides[0], sides[1], ratio, ratio, 2, 2)

    def read(value: str, j: int) -> Operand:
        rows = (_unit(0, 8), _unit(2 + j, 8), _unit(4 + j, 8), _unit(6 + j, 8))
        return Operand(value, Access((0,) * 4, rows))

    access = Access((0,) * 4, ((0,) * 8, _unit(1, 8), (0,) * 8, (0,) * 8))
    which = Operand(op.cast(op.x(2), DType.I64), Access((0,), (_unit(0, 8),)))
    data = op.b.gather(op.x(), loops, access, [which, None, *(read(t.places, j) for j, t in enumerate(found))])
    operands = [Operand(data, Access.identity(8)), *(read(t.weights, j) for j, t in enumerate(found))]
    dtype = op.dtype()
    term = arg(0, dtype).cast(wide) * arg(1, wide) * arg(2, wide)
    if mode == "max":
        best = op.b.compute(loops, operands, term, parallel=4, reducer="max")
        return op.cast(best, dtype)
    post = (arg(-1, wide) / float(ratio * ratio)).cast(dtype)
    return op.b.compute(loops, operands, term, parallel=4, reducer="sum", post=post)


def _region_taps(op: Op, sides: tuple[int, int], ratio: int, half: bool, wide: DType) -> list[Taps]:
    """Along each axis: where the ``ratio`` samples of every bin of every region lie between elements, and their weights."""
    regions = op.shape(1)[0]
    scale, offset = op.real("spatial_scale", 1.0), 0.5 if half else 0.0
    found = []
    for j, (bins, size) in enumerate(zip(sides, op.shape()[2:], strict=True)):
        begin, end = (
            op.point(lambda v: v.cast(wide) * scale - offset, op.b.reshape(op.slice(op.x(1), 1, c, 1), (regions, 1, 1)))
            for c in (1 - j, 3 - j)
        )

        def along(b: Term, e: Term, bins: int = bins) -> Term:
            length = e - b if half else (e - b).op("max", 1.0)
            width = length / float(bins)
            step = (index(2).cast(wide) + 0.5) * width / float(ratio)
            return b + index(1).cast(wide) * width + step

        x = op.point(along, begin, end, shape=(regions, bins, ratio))
        inside = op.point(lambda v, size=size: v.op("ge", -1.0).op("and", v.op("le", float(size))), x)
        held = op.point(lambda v, size=size: v.op("max", 0.0).op("min", size - 1.0), x)
        made = taps(op, held, size, "linear", clamped)
        mask = op.b.reshape(inside, (regions, bins, ratio, 1))
        found.append(Taps(made.places, op.point(lambda w, m: select(m, w, 0.0), made.weights, mask)))
    return found


def _deform_conv(op: Op) -> str:
    kernel = op.wholes("kernel_shape", op.shape(1)[2:])
    groups, offset_groups = op.whole("group", 1), op.whole("offset_group", 1)
    w = window(op, kernel)
    rank, taps_count = len(kernel), prod(kernel)
    batch, channels = op.shape()[:2]
    _need_window(op, w, groups, offset_groups)
    dtype, wide = op.dtype(), summed(op.dtype())
    shape = (batch, offset_groups, *kernel, *w.out)
    offsets = op.b.reshape(op.x(2), (batch, offset_groups, *kernel, rank, *w.out))
    found = []
    for j, size in enumerate(op.shape()[2:]):
        own = op.b.reshape(op.slice(offsets, 2 + rank, j, 1), shape)

        def place(v: Term, j: int = j) -> Term:
            tap, at = index(2 + j), index(2 + rank + j)
            whole = tap * w.dilations[j] + at * w.strides[j] - w.before[j]
            return (v.cast(wide) + whole.cast(wide)).op("max", -(2.0**30)).op("min", 2.0**30)

        found.append(taps(op, op.point(place, own), size, "linear", zeroed))
    each = channels // offset_groups
    loops = (batch, offset_groups, each, *kernel, *w.out, *(2,) * rank)
    n = len(loops)

    def read(value: str, j: int | None) -> Operand:
        rows = [_unit(0, n), _unit(1, n), *(_unit(i, n) for i in range(3, 3 + 2 * rank))]
        rows += [] if j is None else [_unit(3 + 2 * rank + j, n)]
        return Operand(value, Access((0,) * len(rows), tuple(rows)))

    channel = tuple(each if i == 1 else int(i == 2) for i in range(n))
    access = Access((0,) * (2 + rank), (_unit(0, n), channel, *((0,) * n for _ in range(rank))))
    data = op.b.gather(op.x(), loops, access, [None, None, *(read(t.places, j) for j, t in enumerate(found))])
    operands = [Operand(data, Access.identity(n)), *(read(t.weights, j) for j, t in enumerate(found))]
    if op.has(4):
        operands.append(read(op.b.reshape(op.x(4), shape), None))
    sampled = _weighted(op, operands, loops, 3 + 2 * rank, dtype)
    places = prod(w.out)
    sampled = op.b.reshape(sampled, (batch, groups, channels // groups * taps_count, places))
    weights = op.b.reshape(op.x(1), (groups, op.shape(1)[0] // groups, channels // groups * taps_count))
    done = op.contract("ngkp,gok->ngop", sampled, weights)
    done = op.b.reshape(done, (batch, op.shape(1)[0], *w.out))
    if not op.has(3):
        return done
    return op.point(lambda y, b: y + b, done, op.b.reshape(op.x(3), (op.shape(1)[0], *[1] * rank)))


def _need_window(op: Op, w: Window, groups: int, offset_groups: int) -> None:
    """The shapes of the offsets and the weights fit the input, the window and these groups."""
    (batch, channels), weights = op.shape()[:2], op.shape(1)
    fits = op.shape(2) == (batch, offset_groups * prod(w.kernel) * len(w.kernel), *w.out)
    fits = fits and channels % offset_groups == 0 and weights[2:] == tuple(w.kernel)
    op.need(fits, "its offsets do not fit its input and window.")
    op.need(groups > 0 and channels == weights[1] * groups and weights[0] % groups == 0, "its groups do not fit.")


def crop_and_resize(op: Op, axes: Sequence[int], sizes: Sequence[int], mode: str) -> str:
    """Resize from the part of the input that ``roi`` names (in shares of its size); beyond the input stands one value.

    ``roi`` holds the starts of all axes, then the ends, and may be computed while the model runs.
    """
    value, dtype = op.x(), op.dtype()
    op.need(dtype.is_float, "interpolates whole numbers. Cast them to float32 first.")
    wide = summed(dtype)
    outside: str | None = None
    for k, (axis, size) in enumerate(zip(axes, sizes, strict=True)):
        shape = op.b.shape(value)
        n = shape[axis]
        start, end = (op.cast(op.slice(op.x(1), 0, at, 1), wide) for at in (k, k + len(axes)))

        def place(s: Term, e: Term, n: int = n, size: int = size) -> Term:
            if size == 1:
                return (e - s) * ((n - 1) / 2) + s * float(n - 1)
            return index(0).cast(wide) * (e - s) * float(n - 1) / float(size - 1) + s * float(n - 1)

        x = op.point(place, start, end, shape=(size,))
        beyond = op.point(lambda v, n=n: v.op("lt", 0.0).op("or", v.op("gt", float(n - 1))), x)
        row = op.b.reshape(beyond, [size if j == axis else 1 for j in range(len(shape))])
        outside = row if outside is None else op.point(lambda a, b: a.op("or", b), outside, row)
        held = op.point(lambda v, n=n: v.op("max", 0.0).op("min", n - 1.0), x)
        if mode == "nearest":
            held = op.point(lambda v: (v - 0.5).op("ceil"), held)
        found = taps(op, held, n, mode, clamped)
        gathered = op.gather(value, axis, found.places)
        loops = (*shape[:axis], size, *shape[axis + 1 :], op.b.shape(found.places)[1])
        width = len(loops)
        order = [*range(axis + 1), width - 1, *range(axis + 1, width - 1)]
        rows = tuple(_unit(i, width) for i in order)
        weights = Access((0, 0), (_unit(axis, width), _unit(width - 1, width)))
        operands = [Operand(gathered, Access((0,) * width, rows)), Operand(found.weights, weights)]
        value = _weighted(op, operands, loops, width - 1, dtype)
    filler = float(np.float32(op.real("extrapolation_value", 0.0)))
    return value if outside is None else op.point(lambda v, o: select(o, filler, v), value, outside)


TABLE: dict[str, Rule] = {"GridSample": _grid_sample, "RoiAlign": _roi_align, "DeformConv": _deform_conv}
