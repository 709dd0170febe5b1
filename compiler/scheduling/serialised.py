"""Serialised execution: each operation begins when the one before it in the graph's order is complete, so that less is live.

Fetches and weight loads stay free to run ahead. Such a schedule is longer; it is for graphs that do not fit otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Node
from compiler.isa import Op
from compiler.tiling.tiler import Tiler

AHEAD = (Op.FETCH, Op.LOADW)


def attach(tiler: Tiler, nodes: list[Node | None]) -> None:
    """Let the first tile of every operation wait for all tiles of the operation before it, and the others for the first."""
    groups: dict[int, list[int]] = {}
    for number, tile in enumerate(tiler.tiles):
        source = tile.instruction.source
        if nodes[source] is not None and tile.instruction.opcode not in AHEAD:
            groups.setdefault(source, []).append(number)
    before: list[int] = []
    for source in sorted(groups):
        first, *others = groups[source]
        _wait(tiler, first, before)
        for number in others:
            _wait(tiler, number, [first])
        before = groups[source]


def _wait(tiler: Tiler, number: int, before: list[int]) -> None:
    tile = tiler.tiles[number]
    tiler.tiles[number] = replace(tile, behind=tuple(sorted({*tile.behind, *before})))
