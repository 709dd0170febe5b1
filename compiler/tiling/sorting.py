"""Tiles of the primitives whose result depends on an order: scatters, one after another, and sorts, block by block."""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.ir import Access, Scatter, Sort
from compiler.isa import Flag, Instruction, Op
from compiler.isa.stream import Gather as Axes
from compiler.isa.timing import sort_run
from compiler.numerics.reduce import REDUCER_CODES
from compiler.tiling import lookup, vector
from compiler.tiling import place as pl
from compiler.tiling.tile import make
from compiler.tiling.tiler import Groups, Tiler, pieces


def scatter(node: Scatter, tiler: Tiler) -> None:
    """A copy of the data unless it is written in place, then SCATTER tiles in row-major order, each behind the one before."""
    home = tiler.place(node.output)
    base = tiler.layout.bases[node.output]
    tiler.layout.roots[base] = (base,)
    if tiler.place(node.data) != home:  # else it is a state that is written where it lies
        vector.copy(tiler.place(node.data), home, Access.identity(len(home.shape)), None, (node.data, base), tiler)
    groups = _scatter_groups(node)
    values = {"a": node.update.value, "old": base}
    values |= {f"index{n}": index.value for n, index in enumerate(filter(None, node.indices))}
    axes = lookup.gathered_axes(node.indices, node.target, home, node.loops, groups, tiler)
    a = tiler.read(node.update, node.loops, groups)
    out = tiler.space.stream(lookup.affine(node.indices, node.target, home, node.loops, groups))
    table = tiler.space.pool.gather(Axes(tuple(axes)))
    code = REDUCER_CODES[node.reducer] if node.reducer else 0
    before: tuple[int, ...] = ()
    for rows, inner in _in_order(node, groups, tiler):
        i = tiler.instruction(Op.SCATTER, rows, inner, a=a, out=out, gather=table, reducer=code)
        tile = make(tiler.space, i, values, node.output)
        tile.behind = before
        before = (len(tiler.tiles),)
        tiler.tiles.append(tile)


def _scatter_groups(node: Scatter) -> Groups:
    """The loops in their own order, which defines the result; what no index moves lies along the lanes."""
    cut = max((i + 1 for i in lookup.moved_loops(node.indices, node.target)), default=0)
    order = tuple(range(len(node.loops)))
    return (), order[:cut], order[cut:]


def _in_order(node: Scatter, groups: Groups, tiler: Tiler) -> list[tuple[pl.Range, pl.Range]]:
    """Pieces of at most a tile that follow each other in row-major order."""
    rows, inner = (prod(node.loops[i] for i in group) for group in groups[1:])
    limit = tiler.target.move.tile
    if inner <= limit:
        return [(r, (0, inner)) for r in pieces(rows, limit // inner)]
    return [((r, 1), c) for r in range(rows) for c in pieces(inner, limit)]


def sort(node: Sort, tiler: Tiler) -> None:
    """SORT tiles: one for some rows that fit the network, else sorted blocks and a network of merges over them.

    A comparator of a sorting network becomes a merge of two sorted blocks into a lower and an upper one (Knuth, volume 3,
    5.3.4): bitonic over all blocks, or, when no more than a block is kept, a tournament.
    """
    shape = tiler.graph.types[node.input].shape
    rows, n = prod(shape[:-1]), shape[-1]
    run = sort_run(tiler.target)
    block = n if n <= run else run // 2
    count = 1 if n <= run else 1 << (-(-n // block) - 1).bit_length()
    work = _Sorter(node, tiler, rows, block)
    made = work.blocks(n, count)
    if node.keep <= block:
        while count > 1:
            count //= 2
            made = work.halved(made, count)
    else:
        made = work.network(made, count)
    work.finish(made)


class _Sorter:
    """The steps of one sort; every step writes a buffer of its own, [rows, blocks, block]."""

    def __init__(self, node: Sort, tiler: Tiler, rows: int, block: int) -> None:
        self.node, self.tiler, self.rows, self.block = node, tiler, rows, block

    def buffer(self, blocks: int, length: int) -> str:
        name = self.tiler.fresh(f"{self.node.output}~sort")
        dtype = self.tiler.graph.types[self.node.output].dtype
        shape = (self.rows, blocks, length)
        self.tiler.space.buffer(name, "arena", prod(shape) * dtype.size)
        self.tiler.layout.places[name] = pl.Place(name, dtype, shape, 0, pl.row_major(shape, dtype.size))
        self.tiler.layout.roots[name] = (name,)
        return name

    def blocks(self, n: int, count: int) -> str:
        """Every block of the input sorted; blocks that are not full end with the largest number there is."""
        node, tiler = self.node, self.tiler
        made = self.buffer(count, self.block)
        home = tiler.place(made)
        source = tiler.place(node.input)
        tiler.whole(source)
        outer = len(source.shape) - 1
        loops = (*source.shape[:-1], self.block)
        order = tuple(range(outer))
        row_steps = tuple(prod(source.shape[j + 1 : -1]) for j in range(outer))
        read = Access.identity(outer + 1)
        for k in range(-(-n // self.block)):
            length = min(self.block, n - k * self.block)
            extents = (*loops[:-1], length)
            groups: Groups = ((), order, (outer,))
            a = pl.stream(source, Access((*(0,) * outer, k * self.block), read.matrix), extents, groups)
            write = Access((0, k, 0), ((*row_steps, 0), (0,) * (outer + 1), (*(0,) * outer, 1)))
            out = pl.stream(home, write, extents, groups)
            self.emit(tiler.space.stream(a), tiler.space.stream(out), length, (node.input, made), 0)
        spare = count * self.block - n
        if spare:
            self._fill(made, n, spare)
        return made

    def _fill(self, made: str, start: int, spare: int) -> None:
        home, tiler = self.tiler.place(made), self.tiler
        dtype = home.dtype
        name = tiler.space.constant(tiler.fresh(f"{made}~end"), np.array([np.iinfo(dtype.numpy).max], dtype.numpy))
        whole = pl.Place(home.buffer, dtype, (self.rows, spare), start * dtype.size, (home.strides[0], dtype.size))
        source = pl.Place(name, dtype, (1,), 0, (dtype.size,))
        vector.copy(source, whole, Access((0,), ((0, 0),)), None, (made, made), tiler)

    def emit(self, a: int, out: int, points: int, names: tuple[str, str], flags: int) -> None:
        together = max(1, min(self.tiler.target.vector.tile // points, -(-self.rows // vector.PIECES)))
        for row, rows in pieces(self.rows, together):
            i = Instruction(
                Op.SORT, 0, source=self.tiler.source, flags=flags, a=a, out=out, start1=row, count1=rows, count2=points
            )
            self.tiler.tiles.append(make(self.tiler.space, i, {"a": names[0]}, names[1]))

    def _pair(self, name: str, first: int, second: int) -> int:
        """The stream over block ``first`` and then block ``second`` of every row."""
        access = Access((0, first, 0), ((1, 0, 0), (0, second - first, 0), (0, 0, 1)))
        s = pl.stream(self.tiler.place(name), access, (self.rows, 2, self.block), ((), (0,), (1, 2)))
        return self.tiler.space.stream(s)

    def halved(self, source: str, count: int) -> str:
        """Neighbouring blocks merged; of each pair the first block holds what may still be kept."""
        made = self.buffer(2 * count, self.block)
        stride = self.tiler.place(source).shape[1] // (2 * count)
        for k in range(count):
            a = self._pair(source, 2 * k * stride, (2 * k + 1) * stride)
            self.emit(a, self._pair(made, 2 * k, 2 * k + 1), 2 * self.block, (source, made), Flag.EXTRA)
        return made

    def network(self, source: str, count: int) -> str:
        """Batcher's bitonic network over the blocks."""
        size = 2
        while size <= count:
            step = size // 2
            while step:
                made = self.buffer(count, self.block)
                for k in range(count):
                    if not k & step:
                        low, high = (k, k | step) if not k & size else (k | step, k)
                        a = self._pair(source, k, k | step)
                        self.emit(a, self._pair(made, low, high), 2 * self.block, (source, made), Flag.EXTRA)
                source = made
                step //= 2
            size *= 2
        return source

    def finish(self, made: str) -> None:
        """The first numbers of every row into the output's place."""
        node, tiler = self.node, self.tiler
        home, found = tiler.place(node.output), tiler.place(made)
        length = found.shape[1] * found.shape[2]
        flat = pl.Place(found.buffer, found.dtype, (self.rows, length), 0, (found.strides[0], found.dtype.size))
        outer = len(home.shape) - 1
        steps = tuple(prod(home.shape[j + 1 : -1]) for j in range(outer))
        access = Access((0, 0), ((*steps, 0), (*(0,) * outer, 1)))
        vector.copy(flat, home, access, None, (made, node.output), tiler)
