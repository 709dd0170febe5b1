"""A contraction as a batched matrix product (GEMM) with all its streams: moving rows by stationary columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from compiler.costs import Roles, factor_types, loops_used, plane_tile, roles
from compiler.ir import Access, Compute, DType, Operand
from compiler.isa import Instruction, Loop, Op, Stream, points
from compiler.isa.geometry import touches
from compiler.tiling import padded_layout
from compiler.tiling import place as pl
from compiler.tiling.loop_nests import LoopNest
from compiler.tiling.readers import loop_strides
from compiler.tiling.stationary import stacked, steps
from compiler.tiling.tiler import Groups, Tiler, pieces, program


@dataclass
class Gemm:
    """A contraction with all streams made: what is left to choose is how to cut it. ``n`` counts the columns of one block,
    ``k`` the rows of all."""

    node: Compute
    roles: Roles
    batch: int
    m: int
    n: int
    k: int
    a: int
    extra: list[int]
    out: int
    post: int
    row_step: int  # rows, and columns, of which whole multiples never share a line of the result with the rest
    column_step: int
    stacked: bool  # each row of the result ends before the next begins, so two pieces of rows share at most one line
    dtype: str  # of the moving operand
    tile: tuple[int, int]  # rows and columns of weights that a plane holds
    blocks: int  # products on the diagonal of one pass; 0: one
    run: int  # consecutive rows of one block
    band: bool  # cells that a guard of the weights excludes are off
    shared: int  # the loop of the blocks, where they all hold the same weights; -1: they do not
    fixed: pl.Place  # of the stationary operand
    home: pl.Place  # of the result


def gemm(nest: LoopNest, tiler: Tiler, moving: pl.Place | None = None) -> Gemm:
    """Streams of a contraction; ``moving``: another place of the moving operand's value."""
    node = nest.node
    places = nest.places or tuple(tiler.place(v) for v in (*(o.value for o in node.operands), node.output))
    strides = _strides(nest, places[-1])
    r, run = _arranged(nest, strides, places, tiler)
    across = [nest.block, *r.columns] if nest.block >= 0 else r.columns
    outer: Groups = (tuple(r.batch), tuple(r.rows), tuple(across))
    a = _moving(node, r, tiler, moving or places[1 - r.stationary])
    extra_args = extras(node, tiler)
    extra = [tiler.read(node.operands[i], node.loops, outer, places[i]) for i in extra_args]
    out = tiler.space.stream(pl.stream(places[-1], nest.out, node.loops, outer))
    post = _epilogue(node, extra_args, (*r.batch, *r.rows, *across), tiler)
    batch, m, n, k = (prod(node.loops[i] for i in g) for g in (r.batch, r.rows, r.columns, r.inner))
    line, tile = tiler.target.line_bytes, plane_tile(node, r.stationary, tiler.target)
    row_step, column_step = (steps(strides, node.loops, g, line) for g in (r.rows, r.columns))
    fixed = places[r.stationary]
    if nest.band:
        fixed = padded_layout.place_of_filter(node, r.stationary, fixed, _held(r), (min(tile[0], k), n), line)
    return Gemm(
        node,
        r,
        batch,
        m,
        n,
        k,
        a,
        extra,
        out,
        post,
        row_step,
        column_step,
        stacked(strides, node.loops, r, places[-1].dtype.size),
        factor_types(node)[1 - r.stationary].value,
        tile,
        node.loops[nest.block] if nest.block >= 0 else 0,
        run,
        nest.band,
        _same_weights(nest, r.stationary),
        fixed,
        places[-1],
    )


def _arranged(nest: LoopNest, strides: list[int], places: Sequence[pl.Place], tiler: Tiler) -> tuple[Roles, int]:
    """The loops in the order in which they are walked, the largest stride of the result first; rows of a run of one block."""
    node = nest.node
    r = roles(node, nest.stationary if nest.stationary >= 0 else tiler.layout.dataflows[node.output].stationary)
    if nest.apart in r.columns:
        r.columns.remove(nest.apart)
        r.batch.append(nest.apart)
    batch, rows, columns = (
        sorted((i for i in g if i != nest.block), key=lambda i: (-strides[i], i)) for g in (r.batch, r.rows, r.columns)
    )
    inner, run = r.inner, 0
    if nest.block >= 0:
        inner, run = _with_block(node, r, nest.block, places[1 - r.stationary], tiler)
    return Roles(r.stationary, batch, rows, columns, inner), run


def _same_weights(nest: LoopNest, stationary: int) -> int:
    """The loop of the blocks, where they all hold the same weights; -1: they do not."""
    if nest.block < 0 or nest.node.operands[stationary].access.dims(nest.block):
        return -1
    return nest.block


def _epilogue(node: Compute, extra: list[int], loops: Sequence[int], tiler: Tiler) -> int:
    """The number of the program behind the sums, whose operands are ``extra``; 0 for none."""
    if node.post is None:
        return 0
    numbers = {i: at for at, i in enumerate(loops)}
    return tiler.space.pool.program(program(node.post, {i: at for at, i in enumerate(extra)}, numbers))


def extras(node: Compute, tiler: Tiler) -> list[int]:
    """Operands of the epilogue, the largest first: the first port is the widest."""
    types = tiler.graph.types
    return sorted(node.post.reads if node.post else (), key=lambda i: (-types[node.operands[i].value].bytes, i))


def _strides(nest: LoopNest, home: pl.Place) -> list[int]:
    """Bytes between neighbours of the result along every loop."""
    return [abs(step) for step in home.along(nest.out, len(nest.node.loops))]


def _with_block(node: Compute, r: Roles, block: int, home: pl.Place, tiler: Tiler) -> tuple[list[int], int]:
    """The inner loops with the blocks among them where the moving operand is fetched best; rows of a run of one block."""
    strides = loop_strides(home, node, 1 - r.stationary)

    def lines(at: int) -> int:
        nest = tuple(Loop(node.loops[i], strides[i]) for i in (*r.inner[:at], block, *r.inner[at:]))
        return touches(Stream("u8", 0, (), (), nest), (0, 1), (0, points(nest)), tiler.target.line_bytes)

    at = min(range(len(r.inner), -1, -1), key=lines)
    return [*r.inner[:at], block, *r.inner[at:]], prod(node.loops[i] for i in r.inner[at:])


def _moving(node: Compute, r: Roles, tiler: Tiler, home: pl.Place) -> int:
    """The stream of the moving operand; a constant is stored row after row as the planes take it."""
    operand = node.operands[1 - r.stationary]
    groups: Groups = (tuple(r.batch), tuple(r.rows), tuple(r.inner))
    if not _packs(operand, tiler):
        return tiler.read(operand, node.loops, groups, home)
    order = [*r.batch, *r.rows, *r.inner]
    name = tiler.store(
        (operand, node.loops, tuple(order)),
        operand.value,
        lambda: unrolled(node, 1 - r.stationary, order, home.shape, tiler).reshape(-1),
    )
    used = loops_used(operand, len(node.loops))
    shape = tuple(node.loops[i] if used[i] else 1 for i in order)
    dtype = tiler.graph.types[operand.value].dtype
    strides = [s if used[i] else 0 for i, s in zip(order, pl.row_major(shape, dtype.size), strict=True)]
    extents = tuple(node.loops[i] for i in order)
    place = pl.Place(name, dtype, extents, 0, tuple(strides))
    at = {loop: number for number, loop in enumerate(order)}
    numbers: Groups = tuple(tuple(at[i] for i in group) for group in groups)  # type: ignore[assignment]
    return tiler.space.stream(pl.stream(place, Access.identity(len(order)), extents, numbers))


def unrolled(node: Compute, operand: int, order: list[int], shape: tuple[int, ...], tiler: Tiler) -> np.ndarray:
    """A constant factor at every point of the loops ``order``; a loop that it does not use has extent 1. ``shape``: as the
    walk takes it, which may have several of its dimensions as one."""
    read = node.operands[operand]
    array = np.ascontiguousarray(tiler.graph.constants[read.value]).reshape(shape)
    if array.size == 0:
        return np.empty(0, array.dtype)
    home = pl.Place("", tiler.graph.types[read.value].dtype, array.shape, 0, pl.row_major(array.shape, array.itemsize))
    used = loops_used(read, len(node.loops))
    extents = tuple(n if u else 1 for n, u in zip(node.loops, used, strict=True))
    s = pl.stream(home, read.access, extents, ((), tuple(order), ()))
    counts, strides = zip(*s.strides()[1], strict=True) if order else ((), ())
    return np.ndarray(
        counts, array.dtype, buffer=array.reshape(-1).view(np.uint8).data, offset=s.offset, strides=strides
    )


def weights(f: Gemm, columns: int, tiler: Tiler) -> list[tuple[int, int]]:
    """For every column tile: its stream and the column that is the stream's first."""
    node, r = f.node, f.roles
    operand = node.operands[r.stationary]
    tiles = column_tiles(f, columns, tiler)
    if not _packs(operand, tiler):
        return [(_stationary(f, tiler), 0)] * len(tiles)
    groups = tuple(tuple((i, node.loops[i]) for i in group) for group in (r.batch, r.inner, r.columns))
    key = (operand, groups, f.shared, columns)  # however many rows move past them: strips read the same weights
    dtype = tiler.graph.types[operand.value].dtype
    stored = prod(node.loops[i] for i in (*r.batch, *r.inner, *r.columns) if i != f.shared) * dtype.size
    name = tiler.store(key, operand.value, lambda: _pack(f, tiler, tiles), stored)
    return [(tiler.space.stream(_packed(f, name, dtype, at, count)), at) for at, count in tiles]


def column_tiles(f: Gemm, columns: int, tiler: Tiler) -> list[pl.Range]:
    """The columns in weight tiles; of an image that follows another one the first tile is shorter (see ``halos``)."""
    lead = tiler.layout.halos.get(f.node.output, 0) % columns
    if not lead or f.blocks or columns >= f.n or tiler.is_constant(f.node.operands[f.roles.stationary].value):
        return pieces(f.n, columns)
    place = f.home
    if f.node.parallel > len(place.shape):  # a walk of its own
        return pieces(f.n, columns)
    beside = min(abs(place.strides[i]) for i in f.roles.columns if f.node.loops[i] > 1) == place.dtype.size
    step = 1 if beside else f.column_step
    first = (columns - lead) // step * step
    if first <= 0 or -(-(f.n - first) // columns) >= -(-f.n // columns):
        return pieces(f.n, columns)
    return [(0, first), *((first + at, count) for at, count in pieces(f.n - first, columns))]


def _packed(f: Gemm, name: str, dtype: DType, at: int, count: int) -> pl.Stream:
    """The stream of a packed column tile; blocks that hold the same weights read them again."""
    if f.shared < 0:
        shape: tuple[int, ...] = (f.batch, f.k, count)
        place = pl.Place(name, dtype, shape, f.batch * f.k * at * dtype.size, pl.row_major(shape, dtype.size))
        return pl.stream(place, Access.identity(3), shape, ((0,), (1,), (2,)))
    depth = f.k // f.blocks
    stored = pl.row_major((f.batch, depth // f.run, f.run, count), dtype.size)
    shape = (f.batch, depth // f.run, f.blocks, f.run, count)
    place = pl.Place(name, dtype, shape, f.batch * depth * at * dtype.size, (*stored[:2], 0, *stored[2:]))
    return pl.stream(place, Access.identity(5), shape, ((0,), (1, 2, 3), (4,)))


def _packs(operand: Operand, tiler: Tiler) -> bool:
    """Whether the operand is stored as the planes want it: a constant without padding, unless it has to be stored once."""
    return tiler.is_constant(operand.value) and operand.fill is None and operand.value not in tiler.once


def held(f: Gemm, tiler: Tiler) -> int:
    """The stream of the stationary operand; 0 where it is packed, which depends on the cut."""
    return 0 if _packs(f.node.operands[f.roles.stationary], tiler) else _stationary(f, tiler)


def _stationary(f: Gemm, tiler: Tiler) -> int:
    """The stream of a stationary operand where it lies."""
    r = f.roles
    operand = f.node.operands[r.stationary]
    fixed = padded_layout.stored(operand.value, f.fixed, tiler) if f.band else f.fixed
    return tiler.read(operand, f.node.loops, _held(r), fixed)


def _held(r: Roles) -> Groups:
    """Loops of batch, rows and columns of the weights."""
    return tuple(r.batch), tuple(r.inner), tuple(r.columns)


def load_beats(f: Gemm, depth: int, columns: int, tiler: Tiler) -> int:
    """Beats of a LOADW of that many rows and columns."""
    operand = f.node.operands[f.roles.stationary]
    unit, size = tiler.target.weights, depth * columns * tiler.graph.types[operand.value].dtype.size
    if f.band:  # nothing is stored before a form is chosen
        lines = padded_layout.fetches(
            f.node, f.roles.stationary, f.fixed, _held(f.roles), (depth, columns), tiler.target.line_bytes
        )
        return max(-(-size // unit.bytes_per_cycle), -(-lines // unit.ports["a"]))
    if not _packs(operand, tiler):
        load = Instruction(Op.LOADW, a=_stationary(f, tiler), count1=depth, count2=columns)
        return tiler.space.timings.of(load).beats
    return max(-(-size // unit.bytes_per_cycle), -(-size // (tiler.target.line_bytes * unit.ports["a"])))


def _pack(f: Gemm, tiler: Tiler, tiles: list[pl.Range]) -> np.ndarray:
    """The stationary constant as [column tile][batch][k][column], one after another."""
    r = f.roles
    order = [*r.batch, *(i for i in r.inner if i != f.shared), *r.columns]
    view = unrolled(f.node, r.stationary, order, f.fixed.shape, tiler)
    if view.size == 0:
        return np.empty(0, view.dtype)
    whole = np.broadcast_to(view, [f.node.loops[i] for i in order])
    if len(r.columns) != 1:
        whole = whole.reshape(f.batch, -1, f.n)
    rows = prod(whole.shape[:-1])
    packed = np.empty(rows * f.n, view.dtype)
    for at, count in tiles:  # each element is moved once: weights are most of a model
        packed[rows * at : rows * (at + count)].reshape(*whole.shape[:-1], count)[...] = whole[..., at : at + count]
    return packed
