"""Host links and gathers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from compiler.ir.access import Access
from compiler.isa.instruction import Instruction, Op
from compiler.isa.stream import Gather as Axes
from compiler.isa.stream import GatherAxis
from compiler.isa.tables import Port
from compiler.tiling import place as pl
from compiler.tiling.tile import make
from compiler.tiling.tiler import Groups, Tiler, aligned, pieces
from compiler.tiling.vector import blocks

if TYPE_CHECKING:
    from compiler.ir.graph import Gather

LINK_PIECES = 96  # pieces of a large tensor on the link: what comes in late is little, and what waits for it short
LINK_BYTES = 2048  # and the least that is worth an instruction of its own


def receive(name: str, tiler: Tiler) -> None:
    """RECV tiles of a graph input."""
    _link(name, name, Op.RECV, tiler)


def send(value: str, port: str, tiler: Tiler) -> None:
    """SEND tiles of a graph output, in row-major order whatever its place."""
    _link(value, port, Op.SEND, tiler)


def _link(value: str, port_name: str, op: Op, tiler: Tiler) -> None:
    t = tiler.graph.types[value]
    wire = {} if op == Op.SEND else json.loads(tiler.graph.metadata.get("wire", "{}")).get(value, {})
    if op == Op.SEND and port_name in tiler.graph.lengths:
        wire = dict(zip(("axis", "length"), tiler.graph.lengths[port_name], strict=True))
    port = tiler.space.pool.port(Port(port_name, t.dtype.value, t.shape, op == Op.SEND, **wire))
    if t.elements == 0:
        return
    place = tiler.place(value)
    tiler.whole(place)
    order = tuple(range(len(t.shape)))
    stream = tiler.space.stream(pl.stream(place, Access.identity(len(t.shape)), t.shape, ((), order, ())))
    unit = tiler.target.link_in if op == Op.RECV else tiler.target.link_out
    size = t.dtype.size
    wanted = max(LINK_BYTES, -(-t.bytes // LINK_PIECES)) // size
    count = min(aligned(wanted, size, tiler.target.line_bytes), unit.tile // size)
    for at, n in pieces(t.elements, count):
        fields = {"out" if op == Op.RECV else "a": stream}
        i = Instruction(
            op, 0, source=tiler.source, port=port, offset=at * size, start1=at, count1=n, count2=1, **fields
        )
        inputs = {} if op == Op.RECV else {"a": value}
        tiler.tiles.append(make(tiler.space, i, inputs, value if op == Op.RECV else ""))


def gather(node: Gather, tiler: Tiler) -> None:
    """GATHER tiles: dimensions that data decides come from the axes, the others from the stream."""
    order = tiler.storage_order(node.output, list(range(len(node.loops))))
    moved = _moved(node)
    cut = max((at + 1 for at, i in enumerate(order) if i in moved), default=0)
    groups: Groups = ((), tuple(order[:cut]), tuple(order[cut:]))  # what no index moves lies along the lanes
    data = tiler.place(node.data.value)
    tiler.whole(data)
    axes, values = _axes(node, data, order, groups, tiler)
    a = tiler.space.stream(_affine(node, data, groups))
    table = tiler.space.pool.gather(Axes(tuple(axes)))
    out = tiler.write(node.output, node.loops, len(node.loops), groups)
    for rows, inner in blocks(groups, node.loops, data.dtype.size, tiler):
        i = Instruction(
            Op.GATHER,
            0,
            source=tiler.source,
            a=a,
            out=out,
            gather=table,
            start1=rows[0],
            count1=rows[1],
            start2=inner[0],
            count2=inner[1],
        )
        tiler.tiles.append(make(tiler.space, i, values, node.output))


def _moved(node: Gather) -> set[int]:
    """Loops that move an index, or a dimension of the data that an index decides."""
    rows = [row for index in node.indices if index for row in index.access.matrix]
    rows += [node.data.access.matrix[j] for j, index in enumerate(node.indices) if index]
    return {i for row in rows for i, c in enumerate(row) if c}


def _axes(
    node: Gather, data: pl.Place, order: list[int], groups: Groups, tiler: Tiler
) -> tuple[list[GatherAxis], dict[str, str]]:
    """The dimensions of the data that indices decide, and the values that the instruction reads, by its fields."""
    axes: list[GatherAxis] = []
    values = {"a": node.data.value}
    for j, index in enumerate(node.indices):
        if index is None:
            continue
        reference = tiler.read(index, node.loops, groups)
        values[f"index{len(axes)}"] = index.value
        row = node.data.access.matrix[j]
        coefficients = tuple(row[i] for i in order)  # the loops of g1, then of g2
        axes.append(GatherAxis(reference, data.shape[j], data.strides[j], node.data.access.offset[j], coefficients))
    return axes, values


def _affine(node: Gather, data: pl.Place, groups: Groups) -> pl.Stream:
    """The data's stream without the dimensions that data decides; those are free for the lines touched."""
    keep = [j for j, index in enumerate(node.indices) if index is None]
    free = tuple((data.shape[j], data.strides[j]) for j, index in enumerate(node.indices) if index is not None)
    place = pl.Place(
        data.buffer, data.dtype, tuple(data.shape[j] for j in keep), data.offset, tuple(data.strides[j] for j in keep)
    )
    access = Access(tuple(node.data.access.offset[j] for j in keep), tuple(node.data.access.matrix[j] for j in keep))
    s = pl.stream(place, access, node.loops, groups, node.data.fill)
    return pl.Stream(s.buffer, s.dtype, s.base, s.groups, s.dims, s.fill, free)
