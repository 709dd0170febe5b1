"""Contractions on the planes: weight tiles, chains of K tiles that accumulate, rows and columns spread over the planes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from compiler.ir.access import Access
from compiler.isa.element import SIZE
from compiler.isa.instruction import Flag, Instruction, Op
from compiler.isa.meaning import accumulator
from compiler.isa.table import time
from compiler.schedule import place as pl
from compiler.schedule.chains import Step
from compiler.schedule.layout import Roles, factor_types, roles
from compiler.schedule.legalise import args_of
from compiler.schedule.tile import make
from compiler.schedule.tiler import Groups, Tiler, aligned, pieces, program

if TYPE_CHECKING:
    from compiler.ir.graph import Compute

ROWS = 64  # rows of one MATMUL: long enough to hide a weight load, short enough for layers to overlap
CHAIN_ROWS = 128  # rows that one pass over all K tiles finishes on a plane, where weights have to change anyway


@dataclass
class Form:
    """A contraction with all streams made: what is left to choose is how to cut it."""

    node: Compute
    roles: Roles
    batch: int
    m: int
    n: int
    k: int
    groups: Groups  # of the moving operand
    a: int
    extra: list[int]
    out: int
    post: int
    pitch: int
    dtype: str  # of the moving operand
    tile: tuple[int, int]  # rows and columns of weights that a plane holds


@dataclass(frozen=True)
class Cut:
    """``rows`` per MATMUL, ``columns`` per weight tile, ``share``: over how many planes the rows are dealt, ``run``: how
    many MATMULs follow each other on one weight tile."""

    rows: int
    columns: int
    share: int
    run: int
    cycles: int


def fits_plane(node: Compute, tiler: Tiler) -> bool:
    """Whether the planes multiply both operands' types and sum them in the type that is asked for.

    Bytes with and without sign may meet: the array's cells multiply nine-bit signed values.
    """
    matrix = tiler.target.matrix
    if not matrix.instances:
        return False
    factors = [tiler.graph.types[o.value].dtype.value for o in node.operands[:2]]
    sums = {accumulator(dtype) for dtype in factors}
    same = len(set(factors)) == 1 or set(factors) <= {"i8", "u8"}
    return same and sums == {node.expr.dtype.value} and all(dtype in matrix.tiles for dtype in factors)


def form(node: Compute, tiler: Tiler, moving: pl.Place | None = None) -> Form:
    """Streams of a contraction; ``moving``: another place of the moving operand's value."""
    r = roles(node, tiler.graph)
    batch = tiler.storage_order(node.output, r.batch)
    rows = tiler.storage_order(node.output, r.rows)
    columns = tiler.storage_order(node.output, r.columns)
    r = Roles(r.stationary, batch, rows, columns, r.inner)
    groups: Groups = (tuple(batch), tuple(rows), tuple(r.inner))
    outer: Groups = (tuple(batch), tuple(rows), tuple(columns))
    a = tiler.read(node.operands[1 - r.stationary], node.loops, groups, moving)
    extra_args = list(args_of(node.post))
    extra = [tiler.read(node.operands[i], node.loops, outer) for i in extra_args]
    out = tiler.write(node.output, node.loops, node.parallel, outer)
    post = 0
    if node.post is not None:
        loops = {i: at for at, i in enumerate(batch + rows + columns)}
        post = tiler.space.pool.program(program(node.post, {i: at for at, i in enumerate(extra_args)}, loops))
    size = [prod(node.loops[i] for i in g) for g in (batch, rows, columns, r.inner)]
    strides = tiler.place(node.output).strides
    pitch = min((abs(strides[i]) for i in rows if node.loops[i] > 1), default=0)
    dtype = factor_types(node)[1 - r.stationary].value
    tile = tiler.target.matrix.tiles[dtype]
    return Form(node, r, size[0], size[1], size[2], size[3], groups, a, extra, out, post, pitch, dtype, tile)


def row_beats(f: Form, tiler: Tiler, rows: int, last: bool) -> int:
    """Beats of one MATMUL of that many rows, all of a K tile and of a column tile."""
    depth, width = f.tile
    probe = _matmul(
        f, 0, (0, rows), (0, min(depth, f.k)), (0, min(width, f.n)), Flag.FIRST | (Flag.LAST if last else 0)
    )
    return time(tiler.target, tiler.space.pool, probe).beats


def choose(f: Form, tiler: Tiler) -> Cut:
    """The cut with the fewest cycles on the busiest plane; among nearly equal ones that which finishes rows earliest."""
    target = tiler.target
    planes = target.matrix.instances
    wanted = min(ROWS, max(32, -(-f.m // (2 * planes))))
    rows = min(f.m, aligned(wanted, f.pitch, target.line_bytes), target.matrix.accumulator_rows)
    width = f.tile[1]
    line = target.line_bytes // tiler.graph.types[f.node.output].dtype.size
    widths = {min(width, f.n), min(width, -(-f.n // planes // line) * line or f.n), min(width, line)}
    cuts = [
        cut
        for columns in sorted(widths, reverse=True)
        for share in range(1, planes + 1)
        for cut in _cuts(f, tiler, rows, columns, share)
    ]
    least = min(cut.cycles for cut in cuts)
    allowed = max(least + least // 20, _link_cycles(f, tiler))
    good = [cut for cut in cuts if cut.cycles <= allowed]
    return min(good, key=lambda c: (c.run * c.share * c.rows, c.cycles, -c.columns))


def _cuts(f: Form, tiler: Tiler, rows: int, columns: int, share: int) -> list[Cut]:
    """Cuts of one width and share: weights changed after every MATMUL, or after some, or never."""
    target = tiler.target
    depth = f.tile[0]
    beats = [row_beats(f, tiler, rows, last) / rows for last in (False, True)]
    k_tiles, n_tiles = -(-f.k // depth), -(-f.n // columns)
    load = -(-min(depth, f.k) * columns * SIZE[f.dtype] // target.weights.bytes_per_cycle)
    part = -(-f.m // (rows * share))  # MATMULs of one plane for one weight tile
    longest = min(part, max(1, min(CHAIN_ROWS, target.matrix.accumulator_rows) // rows))
    cuts = []
    for run in [longest] if k_tiles * n_tiles * f.batch == 1 else sorted({1, longest}):
        chains = f.batch * n_tiles * share * -(-part // run)
        work = min(run * rows, f.m)
        chain = (k_tiles - 1) * max(load, work * beats[0]) + max(load, work * beats[1])
        cycles = int(-(-chains // target.matrix.instances) * chain) + load
        cuts.append(Cut(rows, columns, share, run, cycles))
    return cuts


def _link_cycles(f: Form, tiler: Tiler) -> int:
    """Cycles for which the links keep this contraction waiting anyway: its operand comes in, or its result goes out."""
    graph = tiler.graph
    moving = f.node.operands[1 - f.roles.stationary].value
    came = [graph.types[v].bytes for v in tiler.layout.roots[moving] if v in graph.inputs]
    went = [graph.types[v].bytes for v in graph.outputs if f.node.output in tiler.layout.roots.get(v, ())]
    return max(sum(came) // tiler.target.link_in.bytes_per_cycle, sum(went) // tiler.target.link_out.bytes_per_cycle)


def emit(f: Form, cut: Cut, tiler: Tiler) -> None:
    """Make the tiles: per chain of K tiles a LOADW and its MATMULs."""
    depth = f.tile[0]
    weights = _weights(f, cut, tiler)
    row_tiles = pieces(f.m, cut.rows)
    k_tiles = pieces(f.k, depth)
    step = cut.share * cut.run
    for batch in range(f.batch):
        for at in range(0, len(row_tiles), step):
            block = row_tiles[at : at + step]
            for number, columns in enumerate(pieces(f.n, cut.columns)):
                for share in range(min(cut.share, len(block))):
                    _chain(f, tiler, batch, block[share :: cut.share], k_tiles, columns, weights[number])


def _chain(
    f: Form,
    tiler: Tiler,
    batch: int,
    rows: list[pl.Range],
    k_tiles: list[pl.Range],
    columns: pl.Range,
    weights: tuple[int, int],
) -> None:
    node = f.node
    values = {"a": node.operands[1 - f.roles.stationary].value}
    for field, i in zip("bcd", args_of(node.post), strict=False):
        values[field] = node.operands[i].value
    stationary = {"a": node.operands[f.roles.stationary].value}
    stream, start = weights
    steps: list[Step] = []
    for number, k in enumerate(k_tiles):
        where = (stream, batch, k[0], k[1], columns[0] - start, columns[1])
        load = Instruction(
            Op.LOADW, source=tiler.source, a=stream, g0=batch,
            start1=k[0], count1=k[1], start2=columns[0] - start, count2=columns[1],
        )  # fmt: skip
        step = Step(len(tiler.tiles), where)
        tiler.tiles.append(make(tiler.space, load, stationary))
        flags = (Flag.FIRST if number == 0 else 0) | (Flag.LAST if number == len(k_tiles) - 1 else 0)
        row = 0
        for piece in rows:
            product = _matmul(f, batch, piece, k, columns, flags)._replace(row=row, source=tiler.source)
            step.uses.append(len(tiler.tiles))
            tiler.tiles.append(make(tiler.space, product, values, node.output if flags & Flag.LAST else ""))
            row += piece[1] if len(k_tiles) > 1 else 0  # a sum that is complete at once needs no rows of its own
        steps.append(step)
    tiler.chains.append(steps)


def _matmul(f: Form, batch: int, rows: pl.Range, k: pl.Range, columns: pl.Range, flags: int) -> Instruction:
    last = bool(flags & Flag.LAST)
    extra = [*f.extra, 0, 0, 0] if last else [0, 0, 0]
    return Instruction(
        Op.MATMUL, flags=int(flags), a=f.a, b=extra[0], c=extra[1], d=extra[2], out=f.out if last else 0,
        post=f.post if last else 0, g0=batch, start1=rows[0], count1=rows[1], start2=k[0], count2=k[1],
        start3=columns[0], count3=columns[1],
    )  # fmt: skip


def _weights(f: Form, cut: Cut, tiler: Tiler) -> list[tuple[int, int]]:
    """For every column tile: its stream and the column that is the stream's first."""
    node, r = f.node, f.roles
    operand = node.operands[r.stationary]
    tiles = pieces(f.n, cut.columns)
    if not tiler.is_constant(operand.value) or operand.fill is not None:
        groups: Groups = (tuple(r.batch), tuple(r.inner), tuple(r.columns))
        return [(tiler.read(operand, node.loops, groups), 0)] * len(tiles)
    key = (operand, node.loops, tuple(r.batch), tuple(r.columns), cut.columns)
    name = tiler.packed.get(key)
    if name is None:
        name = f"{operand.value}:{len(tiler.packed)}"
        tiler.packed[key] = name
        tiler.space.constant(name, _pack(f, tiler, tiles))
    result = []
    dtype = tiler.graph.types[operand.value].dtype
    size = dtype.size
    for at, count in tiles:
        offset = f.batch * f.k * at * size
        shape = (f.batch, f.k, count)
        place = pl.Place(name, dtype, shape, offset, pl.row_major(shape, size))
        result.append((tiler.space.stream(pl.stream(place, Access.identity(3), shape, ((0,), (1,), (2,)))), at))
    return result


def _pack(f: Form, tiler: Tiler, tiles: list[pl.Range]) -> np.ndarray:
    """The stationary constant as [column tile][batch][k][column], one after another."""
    node, r = f.node, f.roles
    operand = node.operands[r.stationary]
    array = np.ascontiguousarray(tiler.graph.constants[operand.value])
    order = [*r.batch, *r.inner, *r.columns]
    row = pl.row_major(array.shape, array.itemsize)
    home = pl.Place("", tiler.graph.types[operand.value].dtype, array.shape, 0, row)
    s = pl.stream(home, operand.access, node.loops, ((), tuple(order), ()))
    loops = s.strides()[1]
    if array.size == 0:
        return np.empty(0, array.dtype)
    view = np.ndarray(
        tuple(n for n, _ in loops), array.dtype, buffer=array.reshape(-1).data, offset=s.offset,
        strides=tuple(step for _, step in loops),
    )  # fmt: skip
    matrix = view.reshape(f.batch, f.k, f.n)
    return np.concatenate([matrix[:, :, at : at + count].reshape(-1) for at, count in tiles])
