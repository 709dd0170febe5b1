"""Beats of the planes for a contraction, counted in whole passes and over every form.

A contraction is a batch of products: output (row i, column j) is a sum over ``inner`` points of an operand that depends on
i by one that depends on j. Either operand may be stationary. A beat of a plane takes D moving elements (its row-slots) to W
sums (its column-slots). A *form* is any cut of the work into beats in which the D row-slots meet, each, sums of one row
(of one column when the other operand is stationary), at most W neighbours in an order that the form chooses once. So tiles
may be of uneven size, both sides may share the output, K may be cut anywhere, and blocks of several rows, columns or
products of the batch may share a beat on the diagonal. One moving element may serve several rows, as a band matrix does for
windows that overlap, in contractions in groups (``Grid.bands``): the first count below holds even then, the second is for
the others.

Two counts, each true for all forms:

- *by sums*: a beat adds at most D products to a sum, so a sum of k products is in at least ceil(k / D) beats, and W sums at
  most share a beat.
- *by lines*: put i and j in the form's orders and colour output (i, j) with (i + j) mod W. W neighbours along either
  direction have W colours, so a row-slot meets at most one sum of any one colour in a beat, and a beat makes at most D products
  for it. Sums of a colour therefore need their products / D beats. Of rows M = qW + r and columns N = sW + t, some colour has
  s sums in every row and one more in q t + min(r, t) of them; a form of few rows or columns cannot fill the planes. Also, no
  beat makes more than D min(W, max(M, N)) products.

The beats that end a sum last longer when the epilogue needs more stages than stand behind a plane; W sums end in one at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import prod

import numpy as np

from compiler.bounds.shape import Box, inside_share, overlapping
from compiler.costs import loops_used, product_shape, roles
from compiler.ir import Access, Compute, Graph, Operand
from compiler.isa.timing import ceil_div

Lines = dict[int, int]  # products of a sum that meet data -> how many such lines (rows or columns, over the batch)


@dataclass(frozen=True)
class Grid:
    """A contraction's outputs: ``batch`` grids of ``lines`` (kinds of lines by the length of their sums) by ``across``.

    ``products``: at least so many of one line of every kind together, where the lengths are not known. ``bands``: forms
    with band matrices count too.
    """

    batch: int
    lines: Lines
    across: int
    products: Fraction
    bands: bool = False

    @property
    def count(self) -> int:
        return sum(self.lines.values())


def grid(node: Compute, graph: Graph, box: Box | None = None) -> Grid:
    """``box``: so many indices of every parallel loop (all when None), wherever they are: then every sum is as short as any."""
    padded = [k for k in (0, 1) if node.operands[k].fill is not None]
    side = padded[0] if padded else 0
    batch, across, count, _ = product_shape(node, side, box)
    bands = overlapping(node)
    kinds: Lines | None = {node.reduction: count}
    if padded:
        kinds = None if len(padded) > 1 else inside(node.operands[side], graph, node, roles(node, side).columns)
    if kinds is None:  # only how many products meet data in all
        share = sum((inside_share(node.operands[k], graph, node.loops) - 1 for k in padded), Fraction(1))
        share = max(Fraction(0), share) if box is None else Fraction(0)
        return Grid(batch, {0: count}, across, share * node.reduction * count, bands)
    if box is not None and padded:
        kinds = {min(kinds): count}
    return Grid(batch, kinds, across, Fraction(sum(k * n for k, n in kinds.items())), bands)


def inside(operand: Operand, graph: Graph, node: Compute, along: list[int]) -> Lines | None:
    """How many inner points meet data, over the points of the loops ``along``; None where that is not a product over the
    dimensions of the operand, or depends on other parallel loops."""
    return _inside(operand.access, graph.types[operand.value].shape, node.loops, node.parallel, tuple(along))


@lru_cache(maxsize=1 << 12)
def _inside(access: Access, shape: Box, lengths: Box, outer: int, along: tuple[int, ...]) -> Lines | None:
    """``lengths`` of all loops, the first ``outer`` of them parallel; the answer is shared, so it must not be changed."""
    found: Lines = {1: 1}
    long = [i for i, n in enumerate(lengths) if n > 1]
    allowed = {*along, *range(outer, len(lengths))}
    for j in access.guarded(shape, lengths):
        loops = [i for i in long if access.matrix[j][i]]
        if not allowed.issuperset(loops):
            return None
        allowed.difference_update(loops)  # a loop that moves two such dimensions is no product over them
        found = _product(found, _inside_along(access, j, loops, lengths, outer, shape[j]))
    others = prod(lengths[i] for i in range(outer, len(lengths)) if i in allowed)
    lines = prod(lengths[i] for i in along if i in allowed)
    return {k * others: n * lines for k, n in found.items()}


def _inside_along(access: Access, j: int, loops: list[int], lengths: Box, outer: int, extent: int) -> Lines:
    """How many points of the inner ones of ``loops`` lie inside dimension j, over the points of the parallel ones."""
    place = np.full((1,) * len(loops), access.offset[j], dtype=np.int64)
    for axis, i in enumerate(loops):
        steps = np.arange(lengths[i], dtype=np.int64) * access.matrix[j][i]
        place = place + steps.reshape([-1 if k == axis else 1 for k in range(len(loops))])
    good = (place >= 0) & (place < extent)
    times = np.bincount(np.ravel(good.sum(axis=tuple(axis for axis, i in enumerate(loops) if i >= outer))))
    counts = np.flatnonzero(times)
    return dict(zip(counts.tolist(), times[counts].tolist(), strict=True))


def _product(one: Lines, other: Lines) -> Lines:
    found: Lines = {}
    for k, n in one.items():
        for factor, m in other.items():
            found[k * factor] = found.get(k * factor, 0) + n * m
    return found


def beats(g: Grid, depth: int, width: int) -> Fraction:
    """The fewest beats in which one plane makes all sums of a grid; both counts, the larger."""
    if g.bands:
        return one_sided(g, g.count * g.across, depth, width)
    filled = Fraction(g.products) * g.across / (depth * max(1, min(width, max(g.count, g.across))))
    q, r = divmod(g.count, width)
    s, t = divmod(g.across, width)
    colour = s * sum(k * n for k, n in g.lines.items()) + _least(g.lines, q * t + min(r, t))
    return max(by_sums(g, depth, width), g.batch * filled, g.batch * Fraction(colour, depth))


def by_sums(g: Grid, depth: int, width: int) -> Fraction:
    """Beats by sums alone."""
    return Fraction(g.batch * g.across * sum(n * -(-k // depth) for k, n in g.lines.items()), width)


def one_sided(g: Grid, columns: int, depth: int, width: int) -> Fraction:
    """Beats when the operand with so many ``columns`` is the stationary one; they hold in proportion for a part of the
    outputs whose sums are of one length. In a band every position is a column too."""
    together = g.count * g.across if g.bands else columns
    filled = g.batch * g.products * g.across / (depth * max(1, min(width, together)))
    return max(by_sums(g, depth, width), filled)


def _least(lines: Lines, count: int) -> int:
    """Products of that many lines, the shortest ones."""
    total = 0
    for k, n in sorted(lines.items()):
        taken = min(n, count)
        total, count = total + taken * k, count - taken
    return total


def ends(g: Grid, width: int) -> Fraction:
    """The fewest beats that end sums, those of padding alone left out."""
    return Fraction(g.batch * g.across * sum(n for k, n in g.lines.items() if k), width)


@dataclass(frozen=True)
class Rough:
    """A contraction in whole numbers, for boxes of its outputs: quickly a little more than some form surely takes.

    ``factors``: by parallel loop, whether the first factor depends on it, and the second; ``side``: the factor whose
    lines have sums of ``inner`` products; ``stages``: of the epilogue that are behind the planes.
    """

    factors: tuple[tuple[bool, bool], ...]
    side: int
    inner: int
    tile: tuple[int, int]
    stages: int
    bands: bool

    @staticmethod
    def of(node: Compute, graph: Graph, tile: tuple[int, int], stages: int) -> Rough:
        """The shortest sums are counted, as ``grid`` does for boxes."""
        uses = [loops_used(node.operands[k], len(node.loops)) for k in (0, 1)]
        side = 1 if node.operands[1].fill is not None and node.operands[0].fill is None else 0
        g = grid(node, graph, (1,) * node.parallel)
        return Rough(tuple(zip(*uses, strict=True))[: node.parallel], side, min(g.lines), tile, stages, g.bands)

    def beats(self, box: Box) -> int:
        """At least what the form takes that has all of its epilogue behind the planes."""
        depth, width = self.tile
        sizes = {(one, other): 1 for one in (False, True) for other in (False, True)}
        for factors, n in zip(self.factors, box, strict=True):
            sizes[factors] *= n
        alone = sizes[True, False], sizes[False, True]
        outputs, batch, count = prod(box), sizes[True, True], alone[self.side]
        across = outputs // max(1, batch * count)
        columns = count * across if self.bands else max(alone)
        beats = [ceil_div(outputs * ceil_div(self.inner, depth), width)]
        beats.append(ceil_div(outputs * self.inner, depth * max(1, min(width, columns))))
        if not self.bands:
            (q, r), (s, t) = divmod(count, width), divmod(across, width)
            beats.append(ceil_div(batch * self.inner * (s * count + q * t + min(r, t)), depth))
            beats.append(ceil_div(outputs * self.inner, depth * max(1, min(width, max(count, across)))))
        return max(beats) + (self.stages - 1) * ceil_div(outputs, width)
