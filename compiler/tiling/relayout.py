"""Copies of a value in another storage order, each made once for all that read it so."""

from __future__ import annotations

from compiler.ir import Access
from compiler.tiling import place as pl
from compiler.tiling import vector
from compiler.tiling.tiler import Tiler

Order = tuple[int, ...]


def drafted(value: str, order: Order, tiler: Tiler) -> pl.Place:
    """Where a copy of the value with its dimensions in that order (outermost first) lies, or would lie."""
    t = tiler.graph.types[value]
    name = tiler.copies.get((value, order, tiler.branch))
    if name is not None:
        return tiler.place(name)
    draft = (value, len(tiler.copies), tiler.branch)
    if draft not in tiler.drafts:
        tiler.drafts[draft] = tiler.space.buffer(tiler.fresh(f"{value}~{draft[1]}"), "arena", t.bytes).name
    name = tiler.drafts[draft]
    return pl.Place(name, t.dtype, t.shape, 0, pl.ordered_strides(t.shape, order, t.dtype.size))


def cycles(value: str, order: Order, home: pl.Place, tiler: Tiler) -> int:
    """Cycles for which the copy at ``home`` keeps its readers waiting; 0 where it is made already."""
    if (value, order, tiler.branch) in tiler.copies:
        return 0
    access = Access.identity(len(home.shape))
    moves = vector.moves(tiler.place(value), home, access, None, tiler)
    return vector.beats(moves, tiler) + tiler.target.move.latency


def stored(value: str, order: Order, home: pl.Place, tiler: Tiler) -> str:
    """The name of the copy of a value at ``home``, which ``drafted`` gave; its tiles are made if nobody did before."""
    found = tiler.copies.get((value, order, tiler.branch))
    if found is not None:
        return found
    name = home.buffer
    tiler.copies[value, order, tiler.branch] = name
    tiler.layout.places[name] = home
    tiler.layout.roots[name] = (name,)
    vector.copy(tiler.place(value), home, Access.identity(len(home.shape)), None, (value, name), tiler)
    return name
