"""Gathers: what no index moves lies along the lanes, so that an address brings a line and not an element."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Access, Gather, Operand
from compiler.isa import GatherAxis, Instruction, Op
from compiler.isa.stream import Gather as Axes
from compiler.tiling import place as pl
from compiler.tiling import relayout, vector
from compiler.tiling.readers import dense_order
from compiler.tiling.tile import make
from compiler.tiling.tiler import Groups, Tiler

Indices = tuple[Operand | None, ...]  # by dimension of the data what decides it, if anything does


def gather(node: Gather, tiler: Tiler) -> None:
    """GATHER tiles: dimensions that data decides come from the axes, the others from the stream. Where what no index moves does
    not lie along the data's lines, the data are copied first if both together take less."""
    value = node.data.value
    made = _instructions(node, tiler.place(value), tiler)
    order = _unmoved_last(node, tiler.place(value))
    if order is not None and tiler.may_copy(value):
        made, value = _turned(node, order, made, tiler)
    values = {"a": value}
    values |= {f"index{n}": index.value for n, index in enumerate(filter(None, node.indices))}
    for i in made:
        tiler.tiles.append(make(tiler.space, i, values, node.output))


def _turned(
    node: Gather, order: tuple[int, ...], plain: list[Instruction], tiler: Tiler
) -> tuple[list[Instruction], str]:
    """The instructions that read a copy of the data in another storage order, and its name, where with the copy they take
    fewer cycles than ``plain``; a constant is stored in that order at once."""
    value = node.data.value
    if tiler.is_constant(value):
        made = _instructions(node, vector.relaid(value, order, tiler), tiler)
        return (made, value) if vector.beats(made, tiler) < vector.beats(plain, tiler) else (plain, value)
    home = relayout.drafted(value, order, tiler)
    made = _instructions(node, home, tiler)
    cycles = vector.beats(made, tiler) + relayout.cycles(value, order, home, tiler)
    if cycles >= vector.beats(plain, tiler):
        return plain, value
    return made, relayout.stored(value, order, home, tiler)


def _instructions(node: Gather, data: pl.Place, tiler: Tiler) -> list[Instruction]:
    """The instructions of a gather from data at that place: in the order of the result, or blocks that are read along lines
    and written along lines, where these take clearly fewer cycles."""
    order = tiler.storage_order(node.output, list(range(len(node.loops))))
    moved, size = moved_loops(node.indices, node.data.access), data.dtype.size
    cut = max((at + 1 for at, i in enumerate(order) if i in moved), default=0)
    groups: Groups = ((), tuple(order[:cut]), tuple(order[cut:]))
    plain = _pieces(node, data, groups, vector.blocks(groups, node.loops, size, tiler), tiler)
    lanes = _lanes(node, data, moved)
    across: Groups = ((), tuple(i for i in order if i not in lanes), lanes)
    if not lanes or across == groups:
        return plain
    squares = vector.squared(across, node.loops, size, tiler)
    return vector.quickest(plain, (_pieces(node, data, across, cut, tiler) for cut in squares), tiler)


def _pieces(node: Gather, data: pl.Place, groups: Groups, pieces: vector.Blocks, tiler: Tiler) -> list[Instruction]:
    """An instruction for each piece of the rows and of the inner loops."""
    tiler.whole(data)
    a = tiler.space.stream(affine(node.indices, node.data.access, data, node.loops, groups, node.data.fill))
    axes = gathered_axes(node.indices, node.data.access, data, node.loops, groups, tiler)
    table = tiler.space.pool.gather(Axes(tuple(axes)))
    out = tiler.write(node.output, node.loops, len(node.loops), groups)
    return [tiler.instruction(Op.GATHER, rows, inner, a=a, out=out, gather=table) for rows, inner in pieces]


def _lanes(node: Gather, data: pl.Place, moved: set[int]) -> tuple[int, ...]:
    """Loops that no index moves and along which the data lie side by side, the innermost last."""
    steps = data.along(node.data.access, len(node.loops))
    left = {i for i, n in enumerate(node.loops) if n > 1 and i not in moved}
    found: list[int] = []
    reach = data.dtype.size
    while (loop := next((i for i in left if steps[i] == reach), None)) is not None:
        found.insert(0, loop)
        left.remove(loop)
        reach *= node.loops[loop]
    return tuple(found)


def _unmoved_last(node: Gather, data: pl.Place) -> tuple[int, ...] | None:
    """The storage order of the data with the dimensions innermost that no index decides; None where they are."""
    order = dense_order(data)
    first = [j for j in order if node.indices[j] is not None or data.shape[j] == 1]
    turned = (*first, *(j for j in order if j not in first))
    wide = [[j for j in some if data.shape[j] > 1] for some in (order, turned)]
    return None if wide[0] == wide[1] or len(wide[0]) < 2 else turned


def moved_loops(indices: Indices, access: Access) -> set[int]:
    """Loops that move an index, or a dimension of the data that an index decides."""
    rows = [row for index in indices if index for row in index.access.matrix]
    rows += [access.matrix[j] for j, index in enumerate(indices) if index]
    return {i for row in rows for i, c in enumerate(row) if c}


def gathered_axes(
    indices: Indices, access: Access, data: pl.Place, loops: tuple[int, ...], groups: Groups, tiler: Tiler
) -> list[GatherAxis]:
    """The dimensions of the data that indices decide."""
    axes: list[GatherAxis] = []
    for j, index in enumerate(indices):
        if index is not None:
            coefficients = tuple(access.matrix[j][i] for i in groups[1] + groups[2])
            reference = tiler.read(index, loops, groups)
            axes.append(GatherAxis(reference, data.shape[j], data.strides[j], access.offset[j], coefficients))
    return axes


def affine(
    indices: Indices,
    access: Access,
    data: pl.Place,
    loops: tuple[int, ...],
    groups: Groups,
    fill: float | None = None,
) -> pl.Stream:
    """The data's stream without the dimensions that data decides; those are free for the lines touched."""
    keep = [j for j, index in enumerate(indices) if index is None]
    free = tuple((data.shape[j], data.strides[j]) for j, index in enumerate(indices) if index is not None)
    place = replace(data, shape=tuple(data.shape[j] for j in keep), strides=tuple(data.strides[j] for j in keep))
    return replace(pl.stream(place, access.project(keep), loops, groups, fill), free=free)
