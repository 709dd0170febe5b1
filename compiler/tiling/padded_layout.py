"""A padded layout for the filter of a band: with room between its rows, so that a plane takes it in few line fetches.

The columns of a band are positions of a window, its rows the stretch of input that all of them read. The filter's element for
either is at one address where the filter's rows are so far apart that a row of positions (or of the stretch) continues
the one before: then all columns (or rows) are one run along the lanes, which costs the lines that it spans. What lies between
the filter's rows is off in the plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np

from compiler.ir import Compute
from compiler.isa import Loop, Stream
from compiler.isa.geometry import touches
from compiler.tiling import place as pl
from compiler.tiling.tiler import Groups, Tiler


def place_of_filter(
    node: Compute, operand: int, place: pl.Place, groups: Groups, piece: tuple[int, int], line: int
) -> pl.Place:
    """The place of a band's filter that takes the fewest fetches for a ``piece`` (rows, columns) of weights; ``place``, where
    it is as good. ``groups``: loops of batch, rows and columns of the weights. The buffer is still that of ``place``."""
    found = [place, *_places(node, operand, place)]
    return min(found, key=lambda p: fetches(node, operand, p, groups, piece, line))


def fetches(node: Compute, operand: int, place: pl.Place, groups: Groups, piece: tuple[int, int], line: int) -> int:
    """Line fetches of a piece of weights read at a place."""
    read = node.operands[operand]
    stream = pl.stream(place, read.access, node.loops, groups, read.fill)
    rows, columns = (tuple(Loop(n, step) for n, step in group) for group in stream.strides()[1:])
    return touches(Stream(place.dtype.value, 0, (), rows, columns), (0, piece[0]), (0, piece[1]), line)


def stored(value: str, place: pl.Place, tiler: Tiler) -> pl.Place:
    """The place with the constant ``value`` in memory there, nothing between its elements."""
    array = tiler.graph.constants[value]
    if place.strides == pl.row_major(place.shape, array.itemsize):
        return place

    def place_of_filter() -> np.ndarray[Any, Any]:
        reach = sum(step * (n - 1) for n, step in zip(place.shape, place.strides, strict=True)) + array.itemsize
        home = np.zeros(reach // array.itemsize, array.dtype)
        np.ndarray(array.shape, array.dtype, buffer=home.view(np.uint8).data, strides=place.strides)[...] = array
        return home

    return replace(place, buffer=tiler.store((value, "spread", place.strides), value, place_of_filter))


def _places(node: Compute, operand: int, place: pl.Place) -> list[pl.Place]:
    """The filter with the elements of one slide side by side, and those of another so far apart that loops over positions,
    or over taps, continue each other."""
    slides = []  # dimension of the filter, taps, positions and their step
    for j, row in enumerate(node.operands[operand].access.matrix):
        positions = [i for i, c in enumerate(row) if c < 0]
        along = [i for i, c in enumerate(row) if c > 0]
        if len(positions) == len(along) == 1:
            slides.append((j, node.loops[along[0]], node.loops[positions[0]], -row[positions[0]]))
    found = []
    for (outer, *_, far), (inner, taps, count, step) in permutations(slides, 2):
        rooms = taps, count * step // far if count * step % far == 0 else 0
        found += [_apart(place, outer, inner, room) for room in rooms if room >= place.shape[inner]]
    return found


def _apart(place: pl.Place, outer: int, inner: int, room: int) -> pl.Place:
    """A dense place but for ``room`` elements from one element along ``outer`` to the next; those along ``inner`` lie
    side by side."""
    order: Sequence[int] = [j for j in range(len(place.shape)) if j not in (outer, inner)]
    extents = tuple(room if j == inner else n for j, n in enumerate(place.shape))
    return replace(place, offset=0, strides=pl.ordered_strides(extents, (*order, outer, inner), place.dtype.size))
