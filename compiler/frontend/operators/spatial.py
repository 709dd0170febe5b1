"""Windows: pads, strides and dilations of convolutions and poolings, and the poolings themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.frontend.limits import DEFAULT
from compiler.frontend.op import Op, Rule
from compiler.ir import Access, DType, Operand, arg, index, select
from compiler.numerics.reduce import identity


@dataclass(frozen=True)
class Window:
    """Per spatial dimension: taps, steps, pads before, size of the output."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    out: tuple[int, ...]


def window(op: Op, kernel: Sequence[int], *, ceil: bool = False) -> Window:
    """The window that an operation's attributes describe over its first input."""
    spatial = op.shape()[2:]
    n = len(spatial)
    strides, dilations = op.wholes("strides", [1] * n), op.wholes("dilations", [1] * n)
    pads, auto = op.wholes("pads", [0] * 2 * n), op.text("auto_pad", "NOTSET")
    op.need(
        len(kernel) == len(strides) == len(dilations) == n and len(pads) == 2 * n, "its window does not fit its input."
    )
    op.need(
        min((*kernel, *strides, *dilations), default=1) > 0 and min(pads, default=0) >= 0,
        "a size in its window is not positive.",
    )
    op.need(
        max((*kernel, *strides, *dilations, *pads), default=0) < DEFAULT.parameter, "a size in its window is too large."
    )
    before, out = [], []
    for j in range(n):
        reach = (kernel[j] - 1) * dilations[j] + 1
        first, last = pads[j], pads[j + n]
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = (-(-spatial[j] // strides[j]) - 1) * strides[j] + reach - spatial[j]
            odd = op.kind.endswith("Pool") and total < 0
            op.need(
                not odd,
                f"{auto} would skip elements of its input, which runtimes do at different ends. State pads instead.",
            )
            total = max(0, total)
            first = total // 2 if auto == "SAME_UPPER" else total - total // 2
            last = total - first
        elif auto == "VALID":
            first = last = 0
        room = spatial[j] + first + last - reach
        op.need(room >= 0, f"its window of {reach} is larger than the {spatial[j]} elements it slides over.")
        size = room // strides[j] + 1
        if ceil and auto == "NOTSET" and room % strides[j] and size * strides[j] < spatial[j] + first:
            size += 1  # a last window that begins inside the input or its first pad
        before.append(first)
        out.append(size)
    return Window(tuple(kernel), tuple(strides), tuple(dilations), tuple(before), tuple(out))


def sliding(op: Op, value: str, w: Window, fill: float) -> tuple[tuple[int, ...], Operand]:
    """Loops (batch, channel, place, tap) and how the value is read over them."""
    shape, n = op.b.shape(value), len(w.kernel)
    loops = (*shape[:2], *w.out, *w.kernel)

    def row(places: dict[int, int]) -> tuple[int, ...]:
        return tuple(places.get(i, 0) for i in range(len(loops)))

    rows = [row({2 + j: w.strides[j], 2 + n + j: w.dilations[j]}) for j in range(n)]
    access = Access((0, 0, *(-p for p in w.before)), (row({0: 1}), row({1: 1}), *rows))
    return loops, Operand(value, access, None if access.stays_inside(shape, loops) else fill)


def _max_pool(op: Op) -> tuple[str | None, ...]:
    w = window(op, op.wholes("kernel_shape"), ceil=bool(op.whole("ceil_mode", 0)))
    dtype = op.dtype()
    loops, operand = sliding(op, op.x(), w, identity("max", dtype.numpy))
    outer = len(loops) - len(w.kernel)
    best = op.b.compute(loops, [operand], arg(0, dtype), parallel=outer, reducer="max")
    if op.outputs < 2:
        return (best,)
    return best, _max_places(op, w, loops, operand, best)


def _max_places(op: Op, w: Window, loops: tuple[int, ...], operand: Operand, best: str) -> str:
    """The first place at which each maximum stands, counted row by row, or column by column by attribute; the first is that
    of the rows in both."""
    shape, n = op.shape(), len(w.kernel)
    rows, columns = [prod(shape[2 + j + 1 :]) for j in range(n)], [prod(shape[2 : 2 + j]) for j in range(n)]
    by_row = by_column = index(0) * (shape[1] * prod(shape[2:])) + index(1) * prod(shape[2:])
    for j in range(n):
        at = index(2 + j) * w.strides[j] + index(2 + n + j) * w.dilations[j] - w.before[j]
        by_row, by_column = by_row + at * rows[j], by_column + at * columns[j]
    place, post = by_row, None
    if op.whole("storage_order", 0):
        place, post = by_row * prod(shape) + by_column, arg(-1, DType.I64).op("mod", prod(shape))
    access = Access((0,) * (2 + n), tuple(tuple(int(i == j) for i in range(len(loops))) for j in range(2 + n)))
    dtype = op.dtype()
    term = select(arg(0, dtype).op("eq", arg(1, dtype)), place, np.iinfo(np.int64).max)
    return op.b.compute(loops, [operand, Operand(best, access)], term, parallel=2 + n, reducer="min", post=post)


def _average_pool(op: Op) -> str:
    w = window(op, op.wholes("kernel_shape"), ceil=bool(op.whole("ceil_mode", 0)))
    dtype = op.dtype()
    loops, operand = sliding(op, op.x(), w, 0.0)
    outer = len(loops) - len(w.kernel)
    counts = _counts(op, w)
    operands = [operand]
    if (counts == counts.reshape(-1)[0]).all():
        post = arg(-1, dtype) / float(counts.reshape(-1)[0])
    else:
        value = op.const(counts, dtype)
        access = Access(
            (0,) * len(w.out), tuple(tuple(int(i == 2 + j) for i in range(len(loops))) for j in range(len(w.out)))
        )
        operands.append(Operand(value, access))
        post = arg(-1, dtype) / arg(1, dtype)
    return op.b.compute(loops, operands, arg(0, dtype), parallel=outer, reducer="sum", post=post)


def _counts(op: Op, w: Window) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Elements that each average is over: all of the window, or only what lies inside the input."""
    pads, spatial = op.wholes("pads", [0] * 2 * len(w.kernel)), op.shape()[2:]
    total = np.ones((1,) * len(w.kernel))
    for j, size in enumerate(w.out):
        places = np.arange(size)[:, None] * w.strides[j] + np.arange(w.kernel[j]) * w.dilations[j] - w.before[j]
        end = spatial[j]
        if op.whole("count_include_pad", 0):  # pads count, what a rounded-up last window adds behind them does not
            end += (
                pads[j + len(w.kernel)] if op.text("auto_pad", "NOTSET") == "NOTSET" else w.kernel[j] * w.dilations[j]
            )
            inside = places < end
        else:
            inside = (places >= 0) & (places < end)
        total = total * inside.sum(1).reshape([-1 if i == j else 1 for i in range(len(w.kernel))])
    return np.maximum(total, 1)


def _lp_pool(op: Op) -> str:
    w = window(op, op.wholes("kernel_shape"), ceil=bool(op.whole("ceil_mode", 0)))
    p, dtype = float(op.whole("p", 2)), op.dtype()
    loops, operand = sliding(op, op.x(), w, 0.0)
    outer = len(loops) - len(w.kernel)
    term = arg(0, dtype).op("abs").op("pow", p)
    return op.b.compute(loops, [operand], term, parallel=outer, reducer="sum", post=arg(-1, dtype).op("pow", 1 / p))


def _global(reducer: str) -> Rule:
    def rule(op: Op) -> str:
        axes = list(range(2, op.rank()))
        count = float(prod(op.shape()[2:]))
        return op.reduce(reducer, op.x(), axes, post=(lambda x: x / count) if reducer == "sum" else None)

    return rule


def _lrn(op: Op) -> str:
    size, alpha, beta, bias = op.whole("size"), op.real("alpha", 1e-4), op.real("beta", 0.75), op.real("bias", 1.0)
    op.need(0 < size < DEFAULT.parameter, "its size is not usable.")
    shape, rank, dtype = op.shape(), op.rank(), op.dtype()
    rows = tuple(tuple(int(i == j) + int(j == 1 and i == rank) for i in range(rank + 1)) for j in range(rank))
    before = (size - 1) // 2
    access = Access(tuple(-before if j == 1 else 0 for j in range(rank)), rows)
    x = arg(0, dtype)
    post = arg(-1, dtype) * (alpha / size) + bias
    total = op.b.compute((*shape, size), [Operand(op.x(), access, 0.0)], x * x, parallel=rank, reducer="sum", post=post)
    return op.point(lambda v, t: v / t.op("pow", beta), op.x(), total)


TABLE: dict[str, Rule] = {
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "LpPool": _lp_pool,
    "LRN": _lrn,
    "GlobalAveragePool": _global("sum"),
    "GlobalMaxPool": _global("max"),
}
