"""How many elements, and how many line fetches, a piece of a stream costs: from extents and strides alone.

No address enters, so a program's timing does not change when the memory plan does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from compiler.isa.stream import Gather, Loop, Nest, Stream, points


def simplify(nest: Nest) -> Nest:
    """The same points in the same order with fewer loops: loops of one step go, loops that continue each other merge."""
    result: list[Loop] = []
    for loop in nest:
        if loop.extent == 1:
            continue
        if result and result[-1].stride == loop.extent * loop.stride:
            result[-1] = Loop(result[-1].extent * loop.extent, loop.stride)
        else:
            result.append(loop)
    return tuple(result)


def _walk(nest: Nest, start: int, count: int, leaf: Callable[[int, int], int]) -> int:
    """Sum ``leaf(stride, count)`` over the rows of the innermost loop in a piece; what a stride of 0 repeats is free."""
    if not nest:
        return 1
    if len(nest) == 1:
        return leaf(nest[0].stride, count)
    rest = nest[1:]
    inner = points(rest)
    first, last = start // inner, (start + count - 1) // inner
    if first == last:
        return _walk(rest, start - first * inner, count, leaf)
    head = (first + 1) * inner - start
    tail = start + count - last * inner
    whole = last - first - 1 + (head == inner) + (tail == inner)
    full = _walk(rest, 0, inner, leaf)
    partial = 0 if head == inner else _walk(rest, inner - head, head, leaf)
    partial += 0 if tail == inner else _walk(rest, 0, tail, leaf)
    if nest[0].stride == 0:
        return full if whole else min(full, partial)
    return whole * full + partial


@lru_cache(maxsize=1 << 16)
def distinct(nest: Nest, start: int, count: int) -> int:
    """Elements of a piece of a nest, repeats through strides of 0 counted once."""
    return _walk(simplify(nest), start, count, lambda stride, n: n if stride else 1)


@lru_cache(maxsize=1 << 16)
def _fetches(nest: Nest, start: int, count: int, line_bytes: int) -> int:
    """Line fetches of a piece when its innermost loop that moves runs along the lanes, loops inside it repeat elements."""

    def leaf(stride: int, n: int) -> int:
        return min(n, -(-n * abs(stride) // line_bytes))

    nest = simplify(nest)
    while nest and not nest[-1].stride:
        times = nest[-1].extent
        last = (start + count - 1) // times
        nest, start = nest[:-1], start // times
        count = last - start + 1
    return _walk(nest, start, count, leaf)


Range = tuple[int, int]  # start, count


def _distinct(nest: Nest, piece: Range) -> int:
    return distinct(nest, *piece) if nest else 1


def elements(stream: Stream, rows: Range, inner: Range) -> int:
    """Elements that a unit takes from (or puts to) memory for this piece; a repeat is not taken again."""
    return _distinct(stream.g1, rows) * _distinct(stream.g2, inner)


def touches(stream: Stream, rows: Range, inner: Range, line_bytes: int) -> int:
    """Line fetches for this piece, in the better of the lane directions.

    Runs lie along the innermost loop of ``g2`` or of ``g1``, or along both when the piece covers ``g2`` whole; a loop that
    only repeats elements is none. A line gives whatever of its elements a run's stride picks, each to as many lanes as repeat
    it, so a run costs the bytes that it spans in lines, rounded up, but no more than one fetch per element; the piece costs at
    least all its bytes in lines.
    """
    size = stream.size
    rows = rows if stream.g1 else (0, 1)
    inner = inner if stream.g2 else (0, 1)
    along1 = _fetches(stream.g1, *rows, line_bytes) * _distinct(stream.g2, inner)
    along2 = _fetches(stream.g2, *inner, line_bytes) * _distinct(stream.g1, rows)
    best = min(along1, along2)
    columns = points(stream.g2)
    if stream.g1 and stream.g2 and inner == (0, columns):
        both = _fetches(stream.g1 + stream.g2, rows[0] * columns, rows[1] * columns, line_bytes)
        best = min(best, both)
    return max(best, -(-elements(stream, rows, inner) * size // line_bytes))


# No stride in a program is as large, so loops of this stride never merge with others and never form runs.
SCATTERED = (1 << 41) + 1


def scattered(stream: Stream, groups: tuple[bool, bool]) -> Stream:
    """``stream`` as the address generator sees it when data moves it along ``g1`` or ``g2``: every point a fetch of its own."""
    g1, g2 = (
        (Loop(points(nest), SCATTERED),) if moved and nest else nest
        for nest, moved in zip((stream.g1, stream.g2), groups, strict=True)
    )
    return Stream(stream.dtype, stream.base, stream.g0, g1, g2)


def moved_groups(data: Stream, gather: Gather, streams: Sequence[Stream]) -> tuple[bool, bool]:
    """Whether the place of a gather's elements depends on data or on an axis along ``g1`` and along ``g2``."""
    first = len(data.g0)
    second = first + len(data.g1)
    g1 = g2 = False
    for axis in gather.axes:
        index = streams[axis.index - 1]
        g1 |= any(axis.coefficients[first:second]) or any(loop.stride for loop in index.g1)
        g2 |= any(axis.coefficients[second:]) or any(loop.stride for loop in index.g2)
    return g1, g2
