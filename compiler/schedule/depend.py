"""Which tiles need which: by the memory lines that they read and write."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from compiler.schedule.chains import Step
    from compiler.schedule.tile import Tile


def dependencies(tiles: list[Tile], roots: dict[str, tuple[str, ...]], chains: list[list[Step]]) -> list[list[int]]:
    """For every tile the tiles whose results it reads (by lines), and the LOADW of its weights."""
    written: dict[str, list[int]] = defaultdict(list)
    for number, tile in enumerate(tiles):
        if tile.output:
            written[tile.output].append(number)
    tables = {value: _table(tiles, numbers) for value, numbers in written.items()}
    load = {use: step.load for chain in chains for step in chain for use in step.uses}
    found: list[list[int]] = []
    for number, tile in enumerate(tiles):
        wanted: set[int] = set()
        for value, lines in tile.inputs:
            for root in roots[value]:
                if root in tables:
                    wanted.update(_writers(tables[root], lines))
        if number in load:
            wanted.add(load[number])
        wanted.update(tile.behind)
        wanted.discard(number)
        found.append(sorted(wanted))
    return found


def _table(tiles: list[Tile], numbers: list[int]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(line, writer) pairs sorted by line."""
    lines = np.concatenate([tiles[n].writes for n in numbers])
    writers = np.repeat(np.array(numbers), [len(tiles[n].writes) for n in numbers])
    order = np.argsort(lines, kind="stable")
    return lines[order], writers[order]


def _writers(table: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]], lines: np.ndarray[Any, Any]) -> list[int]:
    keys, writers = table
    low = np.searchsorted(keys, lines, "left")
    high = np.searchsorted(keys, lines, "right")
    if len(lines) and lines[-1] - lines[0] == len(lines) - 1:
        return [int(n) for n in np.unique(writers[low[0] : high[-1]])]
    marks = np.zeros(len(keys) + 1, np.int64)
    np.add.at(marks, low, 1)
    np.add.at(marks, high, -1)
    return [int(n) for n in np.unique(writers[np.cumsum(marks[:-1]) > 0])]
