"""Host links."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from typing import Any

from compiler.ir import Access
from compiler.isa import Instruction, Op, Port
from compiler.tiling import place as pl
from compiler.tiling import vector
from compiler.tiling.tile import make
from compiler.tiling.tiler import Tiler, aligned, pieces

LINK_PIECES = 96  # pieces of a large tensor on the link: what comes in late is little, and what waits for it short
LINK_BYTES = 2048  # and the least that is worth an instruction of its own


def receive(name: str, tiler: Tiler) -> None:
    """RECV tiles of a graph input."""
    wire = json.loads(tiler.graph.metadata.get("wire", "{}")).get(name, {})
    t = tiler.graph.types[name]
    port = tiler.space.pool.port(Port(name, t.dtype.value, t.shape, output=False, **wire))
    for i in _transfers(Op.RECV, tiler.place(name), port, tiler):
        tiler.tiles.append(make(tiler.space, i, {}, name))


def send(value: str, port_name: str, tiler: Tiler) -> None:
    """SEND tiles of a graph output in row-major order: of the output as it lies, or of a copy that lies in that order."""
    t = tiler.graph.types[value]
    wire: dict[str, Any] = dict(zip(("axis", "length"), tiler.graph.lengths.get(port_name, ()), strict=False))
    port = tiler.space.pool.port(Port(port_name, t.dtype.value, t.shape, output=True, **wire))
    sent = _transfers(Op.SEND, tiler.place(value), port, tiler)
    copied = _in_order(value, vector.beats(sent, tiler), tiler)
    if copied:
        sent = _transfers(Op.SEND, tiler.place(copied), port, tiler)
    for i in sent:
        tiler.tiles.append(make(tiler.space, i, {"a": copied or value}))


def _transfers(op: Op, place: pl.Place, port: int, tiler: Tiler) -> list[Instruction]:
    """Pieces of a host tensor that lies at ``place``, in the order in which the link carries it."""
    elements, size = prod(place.shape), place.dtype.size
    if elements == 0:
        return []
    tiler.whole(place)
    rank = len(place.shape)
    stream = tiler.space.stream(pl.stream(place, Access.identity(rank), place.shape, ((), tuple(range(rank)), ())))
    field, unit = ("out", tiler.target.link_in) if op == Op.RECV else ("a", tiler.target.link_out)
    wanted = max(LINK_BYTES, -(-elements * size // LINK_PIECES)) // size
    count = min(aligned(wanted, size, tiler.target.line_bytes), unit.tile // size)
    return [
        Instruction(
            op, 0, source=tiler.source, port=port, offset=at * size, start1=at, count1=n, count2=1, **{field: stream}
        )
        for at, n in pieces(elements, count)
    ]


def _in_order(value: str, cycles: int, tiler: Tiler) -> str:
    """The name of a row-major copy of an output that takes ``cycles`` of the link as it lies; nothing where the mover and then
    the link would not take less for the copy, or the mover would be what the interval waits for."""
    t, target = tiler.graph.types[value], tiler.target
    least = max(
        -(-t.bytes // max(1, target.link_out.bytes_per_cycle)),
        -(-t.bytes // (target.line_bytes * max(1, target.link_out.ports["a"]))),
    )
    if cycles - least <= target.move.latency or not tiler.may_copy(value):
        return ""
    name = tiler.fresh(f"{value}~sent")
    home = pl.Place(name, t.dtype, t.shape, 0, pl.row_major(t.shape, t.dtype.size))
    tiler.space.buffer(name, "arena", t.bytes)
    access = Access.identity(len(t.shape))
    work = vector.beats(vector.moves(tiler.place(value), home, access, None, tiler), tiler)
    busy = _busy(tiler)
    moved = busy["move"] + work // target.move.instances
    if work + target.move.latency >= cycles - least or moved > max(cycles, *busy.values()):
        return ""
    tiler.layout.places[name] = home
    tiler.layout.roots[name] = (name,)
    vector.copy(tiler.place(value), home, access, None, (value, name), tiler)
    return name


def _busy(tiler: Tiler) -> Counter[str]:
    """Cycles for which the tiles made so far keep each instance of every kind of unit."""
    cycles: Counter[str] = Counter()
    for tile in tiler.tiles:
        cycles[tile.unit[0]] += tile.beats
    return Counter({unit: n // max(1, tiler.target.unit(unit).instances) for unit, n in cycles.items()})
