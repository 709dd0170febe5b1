"""Sums of products: matrix products, Einstein sums, convolutions."""

from __future__ import annotations

from functools import partial
from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.spatial import Window, window
from compiler.ir import Access, DType, Operand, Term, arg

_LETTERS = "abcdefghijuvwxyz"


def matmul(op: Op, left: str, right: str, *, dtype: DType | None = None, bias: str | None = None) -> str:
    """NumPy's ``matmul``; vectors gain and lose a dimension."""
    a, b = op.b.shape(left), op.b.shape(right)
    op.need(a and b, "multiplies matrices, not numbers.")
    left = op.b.reshape(left, (1, *a)) if len(a) == 1 else left
    right = op.b.reshape(right, (*b, 1)) if len(b) == 1 else right
    outer = max(op.b.shape(left), op.b.shape(right), key=len)[:-2]
    words = [_LETTERS[len(outer) - len(op.b.shape(v)) + 2 : len(outer)] for v in (left, right)]
    op.need(
        op.b.shape(left)[-1] == op.b.shape(right)[-2],
        f"{list(a)} and {list(b)} do not fit: the inner dimensions differ.",
    )
    letters = _LETTERS[: len(outer)]
    done = op.contract(
        f"{words[0]}mk,{words[1]}kn->{letters}mn", left, right, dtype=dtype, bias=None if bias is None else ("n", bias)
    )
    shape = list(op.b.shape(done))
    if len(b) == 1:
        shape.pop(-1)
    if len(a) == 1:
        shape.pop(-1 if len(b) == 1 else -2)
    return op.b.reshape(done, shape)


def _matmul(op: Op) -> str:
    op.need(op.dtype(0) == op.dtype(1), "its inputs have different types.")
    return matmul(op, op.x(0), op.x(1))


def _gemm(op: Op) -> str:
    alpha, beta = op.real("alpha", 1.0), op.real("beta", 1.0)
    op.need(op.rank(0) == op.rank(1) == 2, "multiplies two matrices.")
    words = ("km" if op.whole("transA", 0) else "mk", "nk" if op.whole("transB", 0) else "kn")
    inner = [op.shape(i)[words[i].index("k")] for i in (0, 1)]
    op.need(
        inner[0] == inner[1], f"{list(op.shape(0))} and {list(op.shape(1))} do not fit: the inner dimensions differ."
    )
    if op.has(2):
        _need_addend(op, [op.shape(i)[words[i].index(letter)] for i, letter in enumerate("mn")])
        if alpha == beta == 1.0 and op.rank(2) == 1 and op.shape(2)[0] != 1:
            return op.contract(f"{words[0]},{words[1]}->mn", op.x(0), op.x(1), bias=("n", op.x(2)))
    done = op.contract(f"{words[0]},{words[1]}->mn", op.x(0), op.x(1))

    def scaled(x: Term, factor: float) -> Term:
        return x if factor == 1.0 else x * (factor if x.dtype.is_float else int(factor))

    if not op.has(2) or beta == 0.0:
        return op.point(lambda x: scaled(x, alpha), done) if alpha != 1.0 else done
    shape = op.b.shape(done)
    return op.point(lambda x, c: scaled(x, alpha) + scaled(c, beta), done, op.x(2), shape=shape)


def _need_addend(op: Op, wide: list[int]) -> None:
    """What is added to the product broadcasts to its shape ``wide``."""
    added = (1,) * (2 - op.rank(2)) + tuple(op.shape(2))
    fits = len(added) == 2 and all(have in (1, size) for have, size in zip(added, wide, strict=True))
    op.need(fits, f"{list(op.shape(2))} cannot be added to {wide}.")


def _einsum(op: Op) -> str:
    words, out = _equation(op)
    value, word = op.x(0), words[0]
    if len(words) == 1:
        return _einsum_one(op, value, word, out)
    for i in range(1, len(words)):
        rest = set("".join(words[i + 1 :])) | set(out)
        result = out if i == len(words) - 1 else "".join(c for c in dict.fromkeys(word + words[i]) if c in rest)
        value, word = op.contract(f"{word},{words[i]}->{result}", value, op.x(i)), result
    return value


def _equation(op: Op) -> tuple[list[str], str]:
    """The letters of every input, and of the result."""
    equation = op.text("equation").replace(" ", "")
    inputs, _, out = equation.partition("->")
    words = inputs.split(",")
    op.need(len(words) == len(op.inputs), f"{len(op.inputs)} inputs for the equation {equation!r}.")
    words, ellipsis = _spelled(op, words)
    if "->" not in equation:
        letters = "".join(words)
        out = ellipsis + "".join(sorted(c for c in set(letters) if letters.count(c) == 1 and c not in ellipsis))
    out = out.replace("...", ellipsis)
    op.need(
        all(c.isalpha() for word in (*words, out) for c in word) and set(out) <= set("".join(words)),
        f"{equation!r} is not readable.",
    )
    return words, out


def _spelled(op: Op, words: list[str]) -> tuple[list[str], str]:
    """Ellipses as letters that the equation does not use."""
    free = [c for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if c not in "".join(words)]
    longest = ""
    spelled = []
    for i, word in enumerate(words):
        count = op.rank(i) - len(word.replace("...", "")) if "..." in word else 0
        op.need(
            0 <= count <= len(free) and len(word.replace("...", "")) + count == op.rank(i),
            f"{word!r} does not fit its input.",
        )
        letters = "".join(free[:count][::-1])
        longest = max(longest, letters, key=len)
        spelled.append(word.replace("...", letters))
    return spelled, longest


def _einsum_one(op: Op, value: str, word: str, out: str) -> str:
    order = [*out, *(c for c in dict.fromkeys(word) if c not in out)]
    sizes = dict(zip(word, op.b.shape(value), strict=True))
    operand = Operand(value, Access.of_loops(map(order.index, word), len(order)))
    loops = [sizes[c] for c in order]
    if len(order) == len(out):
        return op.b.view(value, loops, operand.access)
    return op.b.compute(loops, [operand], arg(0, op.b.dtype(value)), parallel=len(out), reducer="sum")


def convolve(
    op: Op,
    data: str,
    weights: str,
    bias: str | None,
    w: Window,
    groups: int,
    dtype: DType | None = None,
    fill: int = 0,
) -> str:
    """A convolution of any rank: reduction over the window first and channels innermost, as activations are stored.

    ``dtype``: of the sums, if not what the data's type adds up in; ``fill``: what codes read outside.
    """
    x, k = op.b.shape(data), op.b.shape(weights)
    spatial = len(w.kernel)
    _need_channels(op, x, k, op.b.shape(bias) if bias is not None else k[:1], groups)
    inner, outer = k[1], k[0] // groups
    grouped = groups > 1 and outer > 1
    heads = (x[0], groups, outer) if grouped else (x[0], k[0])
    loops = (*heads, *w.out, *w.kernel, *([inner] if inner != 1 else []))
    n = len(heads)
    row = partial(_row, len(loops))
    channel = {n + 2 * spatial: 1} if inner != 1 else {}
    group = {1: inner} if groups > 1 else {}
    positions = [row({n + j: w.strides[j], n + spatial + j: w.dilations[j]}) for j in range(spatial)]
    reads = Access((0, 0, *(-p for p in w.before)), (row({0: 1}), row(group | channel), *positions))
    filters = row({1: outer, 2: 1} if grouped else {1: 1})
    taps = Access.linear((filters, row(channel), *(row({n + spatial + j: 1}) for j in range(spatial))))
    factors = [_padded(op, data, reads, loops, fill), Operand(weights, taps)]
    added = None if bias is None else Operand(bias, Access.linear((filters,)))
    done = op.sum_of_products(loops, factors, added, parallel=n + spatial, dtype=dtype)
    return op.b.reshape(done, (x[0], k[0], *w.out))


def _row(loops: int, steps: dict[int, int]) -> tuple[int, ...]:
    """How far each of so many loops moves one coordinate; those that are not in ``steps`` do not."""
    return tuple(steps.get(i, 0) for i in range(loops))


def _padded(op: Op, value: str, reads: Access, loops: tuple[int, ...], fill: int = 0) -> Operand:
    """A value of which zero is read outside, of codes ``fill``."""
    if reads.stays_inside(op.b.shape(value), loops):
        return Operand(value, reads)
    return Operand(value, reads, 0.0 if op.b.dtype(value).is_float else fill)


def _need_channels(op: Op, x: tuple[int, ...], k: tuple[int, ...], bias: tuple[int, ...], groups: int) -> None:
    """The shapes of the data, the weights and the bias fit in these groups."""
    fits = groups > 0 and x[1] == k[1] * groups and k[0] % groups == 0
    op.need(fits, f"{x[1]} channels and weights {list(k)} in {groups} groups.")
    op.need(bias == k[:1], f"its bias needs one value for each of {k[0]} channels.")


def _conv(op: Op) -> str:
    kernel = op.shape(1)[2:]
    op.need(op.rank(0) == op.rank(1) >= 3, f"{list(op.shape(0))} and weights {list(op.shape(1))} do not fit.")
    declared = op.wholes("kernel_shape", kernel)
    op.need(tuple(declared) == kernel, f"its kernel is {list(kernel)}, not {declared}.")
    return convolve(op, op.x(0), op.x(1), op.optional(2), window(op, kernel), op.whole("group", 1))


def _conv_transpose(op: Op) -> str:
    """Each phase of the output (its place modulo the stride) is an ordinary convolution with some of the taps."""
    x, k = op.shape(0), op.shape(1)
    spatial, groups = len(x) - 2, op.whole("group", 1)
    kernel = k[2:]
    strides, dilations = op.wholes("strides", [1] * spatial), op.wholes("dilations", [1] * spatial)
    op.need(x[1] == k[0] and groups > 0 and k[0] % groups == 0, f"{x[1]} channels and weights {list(k)} do not fit.")
    op.need(
        min(*strides, *dilations) > 0 and max(*strides, *dilations) < 1 << 16, "a stride or a dilation is not usable."
    )
    before, out = _transposed_size(op, strides, dilations, kernel)
    # weights [C, O/g, *k] -> [O, C/g, *k], as an ordinary convolution has them
    weights = op.b.reshape(op.x(1), (groups, k[0] // groups, k[1], *kernel))
    weights = op.transpose(weights, (0, 2, 1, *range(3, 3 + spatial)))
    weights = op.b.reshape(weights, (groups * k[1], k[0] // groups, *kernel))
    phases = [_phases(out[j], strides[j], dilations[j], kernel[j], before[j]) for j in range(spatial)]
    if max(strides) > 1 and all(map(_even, phases)):
        return _at_once(op, weights, op.optional(2), phases, groups)
    grid = {
        place: _phase(op, weights, groups, [phases[j][place[j]] for j in range(spatial)])
        for place in np.ndindex(*strides)
    }
    longest = tuple(-(-out[j] // strides[j]) for j in range(spatial))
    return _interleaved(op, grid, strides, longest, (x[0], groups * k[1], *out), op.optional(2))


def _transposed_size(
    op: Op, strides: list[int], dilations: list[int], kernel: tuple[int, ...]
) -> tuple[list[int], list[int]]:
    """Elements cut off at the beginning, and the size of the output, per spatial dimension."""
    spatial, x = len(kernel), op.shape(0)
    extra = op.wholes("output_padding", [0] * spatial)
    full = [strides[j] * (x[2 + j] - 1) + extra[j] + (kernel[j] - 1) * dilations[j] + 1 for j in range(spatial)]
    pads = op.wholes("pads", [0] * 2 * spatial)
    if "output_shape" in op.attributes or op.text("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        wanted = op.wholes("output_shape", [x[2 + j] * strides[j] for j in range(spatial)])[-spatial:]
        pads = _pads_for(op, full, wanted)
        full = [max(f, w) for f, w in zip(full, wanted, strict=True)]
    out = [full[j] - pads[j] - pads[j + spatial] for j in range(spatial)]
    op.need(min(out) > 0 and max(out) < 1 << 31, f"its output would have the size {out}.")
    return pads[:spatial], out


def _pads_for(op: Op, full: list[int], wanted: list[int]) -> list[int]:
    """What is cut off at the beginnings, then at the ends, so that ``wanted`` elements are left of ``full``."""
    auto = op.text("auto_pad", "NOTSET")
    short = auto.startswith("SAME") and min(f - w for f, w in zip(full, wanted, strict=True)) < 0
    op.need(not short, f"{auto} would add to its output, which runtimes do at different ends. State pads instead.")
    total = [max(0, f - w) for f, w in zip(full, wanted, strict=True)]
    upper = [t // 2 if auto == "SAME_UPPER" else t - t // 2 for t in total]
    return [*upper, *(t - u for t, u in zip(total, upper, strict=True))]


def _phases(out: int, stride: int, dilation: int, kernel: int, before: int) -> list[tuple[int, int, int, int, int]]:
    """For output places o = q * stride + r of each phase r: count, first tap, tap step, taps, input offset at the first tap."""
    found = []
    for r in range(stride):
        taps = [t for t in range(kernel) if (r + before - t * dilation) % stride == 0]
        count = max(0, -(-(out - r) // stride))
        if not taps or not count:
            found.append((count, 0, 1, 0, 0))
            continue
        step = taps[1] - taps[0] if len(taps) > 1 else 1
        found.append((count, taps[0], step, len(taps), (r + before - taps[0] * dilation) // stride))
    return found


def _even(phases: list[tuple[int, int, int, int, int]]) -> bool:
    """Whether all phases of one dimension take as many taps of the same input, each beginning one tap further than the last."""
    count, first, step, taps, offset = phases[0]
    return taps > 0 and count > 0 and all(p == (count, first + r, step, taps, offset) for r, p in enumerate(phases))


def _at_once(
    op: Op, weights: str, bias: str | None, phases: list[list[tuple[int, int, int, int, int]]], groups: int
) -> str:
    """Even phases as one contraction: its loops over an output place o = q * stride + r are q and r, so results lie where
    they belong and nothing has to be interleaved."""
    x, k = op.b.shape(op.x(0)), op.b.shape(weights)
    spatial, inner, outer = len(phases), k[1], k[0] // groups
    dilations = op.wholes("dilations", [1] * spatial)
    heads = (x[0], groups, outer)
    places = [n for p in phases for n in (p[0][0], len(p))]
    loops = (*heads, *places, *(p[0][3] for p in phases), inner)
    n, rank = len(heads) + len(places), len(loops)
    row = partial(_row, rank)
    tap = [n + j for j in range(spatial)]
    back = [p[0][2] * d // len(p) for p, d in zip(phases, dilations, strict=True)]
    reads = Access(
        (0, 0, *(p[0][4] for p in phases)),
        (row({0: 1}), row({1: inner, rank - 1: 1}), *(row({3 + 2 * j: 1, tap[j]: -back[j]}) for j in range(spatial))),
    )
    filters = row({1: outer, 2: 1})
    taps = Access(
        (0, 0, *(p[0][1] for p in phases)),
        (filters, row({rank - 1: 1}), *(row({4 + 2 * j: 1, tap[j]: phases[j][0][2]}) for j in range(spatial))),
    )
    factors = [_padded(op, op.x(0), reads, loops), Operand(weights, taps)]
    added = None if bias is None else Operand(bias, Access.linear((filters,)))
    done = op.sum_of_products(loops, factors, added, parallel=n)
    return op.b.reshape(done, (x[0], groups * outer, *(len(p) * p[0][0] for p in phases)))


def _phase(op: Op, weights: str, groups: int, phases: list[tuple[int, int, int, int, int]]) -> str:
    x, spatial = op.shape(0), len(phases)
    count = [p[0] for p in phases]
    channels = op.b.shape(weights)[0]
    if 0 in count or any(p[3] == 0 for p in phases):
        return op.const(np.zeros((x[0], channels, *count)), op.dtype())
    for j, (_, first, step, taps, _) in enumerate(phases):
        weights = op.slice(weights, 2 + j, first, taps, step)
    strides, dilations = op.wholes("strides", [1] * spatial), op.wholes("dilations", [1] * spatial)
    # input place = offset + q - tap * (step * dilation / stride): a window that runs backwards
    back = [-(p[2] * d // s) for p, d, s in zip(phases, dilations, strides, strict=True)]
    w = Window(tuple(p[3] for p in phases), (1,) * spatial, tuple(back), tuple(-p[4] for p in phases), tuple(count))
    return convolve(op, op.x(0), weights, None, w, groups)


def _interleaved(
    op: Op,
    grid: dict[tuple[int, ...], str],
    strides: list[int],
    longest: tuple[int, ...],
    shape: tuple[int, ...],
    bias: str | None,
) -> str:
    """Phases put back in turn: side by side on a new innermost axis each, then merged."""
    spatial = len(longest)
    values = {}
    for place, value in grid.items():
        padded = (*op.b.shape(value)[:2], *longest)
        values[place] = op.b.view(value, padded, Access.identity(len(padded)), fill=0.0 if op.dtype().is_float else 0)
    for j in reversed(range(spatial)):
        joined = {}
        for place in np.ndindex(*strides[:j]):
            parts = [values[(*place, r)] for r in range(strides[j])]
            size = op.b.shape(parts[0])
            axis = 2 + j + 1
            wide = [op.b.reshape(p, (*size[:axis], 1, *size[axis:])) for p in parts]
            merged = op.b.join(wide, axis)
            joined[place] = op.b.reshape(merged, (*size[: axis - 1], size[axis - 1] * strides[j], *size[axis:]))
        values = joined
    done = op.b.view(values[()], shape, Access.identity(len(shape)))
    if bias is None:
        return done
    return op.point(lambda x, c: x + c, done, op.b.reshape(bias, (shape[1], *[1] * spatial)))


def _global_lp(op: Op) -> str:
    p = float(op.whole("p", 2))
    axes = range(2, op.rank())
    return op.reduce(
        "sum", op.x(), list(axes), term=lambda x: x.op("abs").op("pow", p), post=lambda x: x.op("pow", 1 / p)
    )


def _det(op: Op) -> str:
    n = op.shape()[-1]
    op.need(op.rank() >= 2 and op.shape()[-2] == n and n <= 3, "is offered for matrices of up to 3 x 3.")

    def cell(i: int, j: int) -> str:
        value = op.slice(op.slice(op.x(), op.rank() - 2, i, 1), op.rank() - 1, j, 1)
        return op.b.reshape(value, op.shape()[:-2])

    def minor(rows: list[int], columns: list[int]) -> str:
        if len(rows) == 1:
            return cell(rows[0], columns[0])
        total = ""
        for place, column in enumerate(columns):
            rest = minor(rows[1:], [c for c in columns if c != column])
            product = op.point(lambda a, b: a * b, cell(rows[0], column), rest)
            sign = "sub" if place % 2 else "add"
            total = op.point(lambda a, b, sign=sign: a.op(sign, b), total, product) if total else product
        return total

    op.need(prod(op.shape()) > 0, "has no elements.")
    return minor(list(range(n)), list(range(n)))


TABLE: dict[str, Rule] = {
    "MatMul": _matmul,
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "GlobalLpPool": _global_lp,
    "Det": _det,
}
