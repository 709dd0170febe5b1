"""Filters held in the planes as band matrices: one moving row serves many neighbouring windows.

A product whose stationary factor is a small filter has as many columns as the filter gives results per position: one for
each channel of a depthwise convolution. Where the windows of neighbouring positions overlap, a stretch of the input can be
the moving row instead and every position of it a column; the weights are then a Toeplitz matrix of the filter (Gray, "Toeplitz
and circulant matrices: a review", 2006), whose cells outside the band are off.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from compiler.costs import epilogue_stages, factor_types, plane_tile, products_per_pass, roles
from compiler.ir import Access, Compute, Graph
from compiler.isa import Machine, Stream
from compiler.isa.flow import offsets
from compiler.tiling.loop_nests import LoopNest, packed_batch, plain, split

Sizes = tuple[tuple["Slide", int], ...]

KEPT = 3  # sizes that are priced exactly, of those that an estimate prefers


@dataclass(frozen=True)
class Slide:
    """A window that slides: ``along`` a loop of the result by ``step``, its taps a loop ``over`` one dimension ``at`` of the
    filter."""

    along: int
    over: int
    step: int
    at: int


def slides(node: Compute, stationary: int, graph: Graph) -> list[Slide]:
    """The loops over the taps of overlapping windows, with the loops of the result along which these slide."""
    fixed = node.operands[stationary]
    counts = node.post is not None and node.post.counts()
    if fixed.value not in graph.constants or fixed.fill is not None or counts:
        return []
    shape, inner = graph.types[fixed.value].shape, range(node.parallel, len(node.loops))
    return [slide for over in inner if (slide := _slide(node, stationary, shape, over))]


def _slide(node: Compute, stationary: int, shape: tuple[int, ...], over: int) -> Slide | None:
    """The overlapping windows whose taps are loop ``over``, along one dimension of the filter of ``shape``; None for none."""
    fixed, moving = (node.operands[n].access for n in (stationary, 1 - stationary))
    at, image = fixed.only(over), moving.only(over)
    if at is None or image is None or fixed.plain(at) != over or shape[at] != node.loops[over]:
        return None
    along = _beside_taps(moving, image, over)
    if not 0 <= along < node.parallel or node.loops[along] <= 1 or fixed.dims(along):
        return None
    step = moving.matrix[image][along]
    return Slide(along, over, step, at) if 0 < step < node.loops[over] else None


def _beside_taps(access: Access, image: int, over: int) -> int:
    """The one loop that moves a coordinate of the image, and no other, beside the taps' steps of 1; -1 for none."""
    row = access.matrix[image]
    along = [i for i, c in enumerate(row) if c and i != over]
    return along[0] if len(along) == 1 and row[over] == 1 and access.dims(along[0]) == (image,) else -1


def cells(stream: Stream, rows: tuple[int, int], columns: tuple[int, int]) -> int:
    """How many elements of a piece of weights no guard excludes."""
    a, b = len(stream.g0), len(stream.g0) + len(stream.g1)
    on: Any = np.ones((rows[1], columns[1]), np.bool_)
    for guard in stream.guards:
        down, across = (
            offsets(tuple(loop._replace(stride=c) for loop, c in zip(nest, steps, strict=True)), *piece)
            for nest, steps, piece in (
                (stream.g1, guard.coefficients[a:b], rows),
                (stream.g2, guard.coefficients[b:], columns),
            )
        )
        value = guard.offset + down[:, None] + across[None, :]
        on = on & (value >= 0) & (value < guard.extent)
    return int(np.count_nonzero(on))


def bands(node: Compute, graph: Graph, machine: Machine) -> list[list[LoopNest]]:
    """Ways to hold the filters of groups as bands, few and the most promising first; each is loop nests that together are
    the contraction. A filter that reads all channels fills the planes without."""
    stationary = next((n for n in (1, 0) if node.operands[n].value in graph.constants), -1)
    found = slides(node, stationary, graph)[-2:] if stationary >= 0 else []
    if not found or all(node.loops[i] == 1 for i in roles(node, stationary).batch):
        return []
    tile = plane_tile(node, stationary, machine)
    r = roles(node, stationary)
    sizes = [size for size in _sizes(node, found) if _fits(node, r.inner, r.columns, size, tile)]
    sizes.sort(key=lambda s: (_estimate(node, stationary, s, machine), [n for _, n in s]))
    ways = []
    for size in sizes[:KEPT]:
        nest = banded(node, stationary, size)
        ways.append(packed_batch(nest, stationary, tile) or [nest])
    return ways


def _sizes(node: Compute, found: list[Slide]) -> list[Sizes]:
    """All ways to take positions along the slides, whole numbers of times."""
    extents = [[n for n in range(1, node.loops[s.along] + 1) if node.loops[s.along] % n == 0] for s in found]
    return [tuple(zip(found, numbers, strict=True)) for numbers in product(*extents) if prod(numbers) > 1]


def _shape(node: Compute, inner: list[int], columns: list[int], size: Sizes) -> tuple[int, int]:
    """Rows and columns of one band."""
    stretch = {slide.over: slide.step * (n - 1) for slide, n in size}
    depth = prod(node.loops[i] + stretch.get(i, 0) for i in inner)
    return depth, prod(node.loops[i] for i in columns) * prod(n for _, n in size)


def _fits(node: Compute, inner: list[int], columns: list[int], size: Sizes, tile: tuple[int, int]) -> bool:
    depth, width = _shape(node, inner, columns, size)
    return depth <= tile[0] and width <= tile[1]


def _estimate(node: Compute, stationary: int, size: Sizes, machine: Machine) -> int:
    """About how many cycles the planes take: rows of a product, or the fetches of its bands."""
    r = roles(node, stationary)
    depth, width = _shape(node, r.inner, r.columns, size)
    batch = prod(node.loops[i] for i in r.batch)
    together = products_per_pass(batch, depth, width, plane_tile(node, stationary, machine))
    slide, last = size[-1]
    stretch = node.loops[slide.over] + slide.step * (last - 1)
    fetch = -(-together * depth // (stretch * machine.matrix.ports["a"]))
    beats = max(epilogue_stages(node.post, machine), fetch)
    rows = prod(node.loops[i] for i in r.rows) // prod(n for _, n in size)
    wide, line = (
        factor_types(node)[stationary].size,
        machine.line_bytes,
    )  # rows or columns as runs (see ``padded_layout``)
    runs = together * min(-(-a * wide // line) * b for a, b in ((depth, width), (width, depth)))
    load = max(
        -(-runs // machine.weights.ports["a"]), together * depth * width * wide // machine.weights.bytes_per_cycle
    )
    return -(-batch // together) * max(rows * beats, load) // machine.matrix.instances + load


def banded(node: Compute, stationary: int, sizes: Sizes) -> LoopNest:
    """The contraction with so many neighbouring positions along every slide as columns of one product."""
    nest = replace(plain(node), stationary=stationary, band=True)
    for slide, size in sorted(sizes, key=lambda s: -s[0].along):  # from behind, so that loops before keep their numbers
        shift = sum(s.along > slide.along for s, _ in sizes)
        nest = _widened(nest, stationary, slide, size, shift)
    return nest


def _widened(nest: LoopNest, stationary: int, slide: Slide, size: int, shift: int) -> LoopNest:
    """One slide: ``size`` positions side by side, over the stretch of input that all of them read."""
    nest = split(nest, slide.along, size)
    node = nest.node
    side, over = slide.along + 1, slide.over + shift + 1
    loops = list(node.loops)
    loops[over] += slide.step * (size - 1)
    operands = list(node.operands)
    fixed, moving = operands[stationary], operands[1 - stationary]
    operands[stationary] = replace(fixed, access=_with(fixed.access, slide.at, side, -slide.step), fill=0)
    image = moving.access.dims(over)[0]
    operands[1 - stationary] = replace(moving, access=_with(moving.access, image, side, 0))
    return replace(nest, node=replace(node, loops=tuple(loops), operands=tuple(operands)))


def _with(access: Access, row: int, loop: int, coefficient: int) -> Access:
    """The access with one coefficient exchanged."""
    before = access.matrix[row]
    return access.replaced(row, access.offset[row], (*before[:loop], coefficient, *before[loop + 1 :]))
