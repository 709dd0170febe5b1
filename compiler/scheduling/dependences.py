"""Which tiles need which, and how long after it they may start: by the memory lines that they read and write."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from compiler.tiling.chains import Step
from compiler.tiling.tile import Span, Tile

Edges = dict[int, int]  # tile -> cycles from its start until the one that needs it may start
Array = np.ndarray[Any, Any]
_Key = tuple[str, int, int]
_TOGETHER = 1 << 16  # lines looked up at once


class _Table(NamedTuple):
    """Lines in ascending order, with who writes each, and when it is there."""

    lines: Array
    writers: Array
    ready: Array

    def some(self, which: Array) -> _Table:
        """The entries at these positions, or where a mask is true."""
        return _Table(*(column[which] for column in self))


def dependencies(tiles: list[Tile], roots: dict[str, tuple[str, ...]], chains: list[list[Step]]) -> list[Edges]:
    """For every tile the tiles whose results it reads (by lines), and the LOADW of its weights.

    A tile issues behind those that it needs, and so late that each line is there when it is first read.
    """
    tables = _tables(tiles)
    load = {use: (step.load,) for chain in chains for step in chain for use in step.uses}
    known = _known(tiles, {value: _joined(tables, names) for value, names in roots.items()})
    found: list[Edges] = []
    for number, tile in enumerate(tiles):
        wanted: Edges = {}
        for _, value, span in tile.inputs:
            _add(wanted, known[_key(value, span)])
        for before in (*load.get(number, ()), *tile.behind):
            wanted[before] = max(wanted.get(before, 1), tiles[before].end)
        wanted.pop(number, None)
        found.append(wanted)
    _neighbours(tiles, tables, roots, found)
    return [dict(sorted(wanted.items())) if len(wanted) > 1 else wanted for wanted in found]


def _tables(tiles: list[Tile]) -> dict[str, _Table]:
    """By value who writes which of its lines."""
    written: dict[str, list[int]] = defaultdict(list)
    for number, tile in enumerate(tiles):
        if tile.output:
            written[tile.output].append(number)
    return {value: _table(tiles, numbers) for value, numbers in written.items()}


def _add(wanted: Edges, more: Edges) -> None:
    for before, wait in more.items():
        if wait > wanted.get(before, 0):
            wanted[before] = wait


def _joined(tables: dict[str, _Table], names: tuple[str, ...]) -> list[_Table]:
    return [tables[name] for name in names if name in tables]


def _key(value: str, span: Span) -> _Key:
    """Tiles share what they read: the same lines of a value at the same times."""
    return value, id(span.lines), id(span.begin)


def _known(tiles: list[Tile], tables: dict[str, list[_Table]]) -> dict[_Key, Edges]:
    """Who writes what is read, by value, lines and when they are read; ``tables``: of each value."""
    spans: dict[str, dict[_Key, Span]] = defaultdict(dict)
    for tile in tiles:
        for _, value, span in tile.inputs:
            spans[value][_key(value, span)] = span
    known: dict[_Key, Edges] = {}
    for value, own in spans.items():
        known |= {key: {} for key in own}
        for table in tables[value]:
            for keys in _batches(table, own):
                _looked_up(table, [own[k] for k in keys], [known[k] for k in keys])
    return known


def _neighbours(
    tiles: list[Tile], tables: dict[str, _Table], roots: dict[str, tuple[str, ...]], found: list[Edges]
) -> None:
    """Parts of a join meet in a line here and there. Who reads one part there waits for writers of another that come first,
    and writers that come later wait for him (``Tile.after``)."""
    parts = sorted({part for several in roots.values() if len(several) > 1 for part in several if part in tables})
    if not parts:
        return
    table, owner = _shared_lines([tables[part] for part in parts])
    others: dict[str, list[_Table]] = {}
    for value in dict.fromkeys(value for tile in tiles for _, value, _ in tile.inputs):
        others[value] = [table.some(_others(parts, roots[value])[owner])]
    known = _known(tiles, others)
    for number, tile in enumerate(tiles):
        for _, value, span in tile.inputs:
            _settle(tiles, number, known[_key(value, span)], found)


def _others(parts: list[str], own: tuple[str, ...]) -> Array:
    """For each of several values whether it is none of ``own``."""
    return np.array([part not in own for part in parts])


def _shared_lines(tables: list[_Table]) -> tuple[_Table, Array]:
    """All lines that several tables have, in one table, and by line the table that it is from."""
    table = _Table(*(np.concatenate(column) for column in zip(*tables, strict=True)))
    order = np.argsort(table.lines, kind="stable")
    owner = np.repeat(np.arange(len(tables)), [len(t.lines) for t in tables])[order]
    table = table.some(order)
    met = (table.lines[1:] == table.lines[:-1]) & (owner[1:] != owner[:-1])
    shared = np.isin(table.lines, table.lines[1:][met])
    return table.some(shared), owner[shared]


def _settle(tiles: list[Tile], number: int, wanted: Edges, found: list[Edges]) -> None:
    """Writers that come first, and the tile that reads, in the order of their numbers."""
    for writer, lag in wanted.items():
        if writer < number:
            found[number][writer] = max(found[number].get(writer, 1), lag)
        elif writer > number:
            tiles[writer].after = [*tiles[writer].after, number]


def gap(before: Span, after: Span) -> int:
    """Cycles from one tile's start to another's, at least, so that work on no common line begins before it ends there."""
    _, mine, its = np.intersect1d(before.lines, after.lines, assume_unique=True, return_indices=True)
    return max(1, int((before.end[mine] - after.begin[its]).max(initial=1)))


def _table(tiles: list[Tile], numbers: list[int]) -> _Table:
    lines = np.concatenate([tiles[n].writes.lines for n in numbers])
    writers = np.repeat(np.array(numbers), [len(tiles[n].writes.lines) for n in numbers])
    ready = np.concatenate([tiles[n].writes.end for n in numbers])
    order = np.argsort(lines, kind="stable")
    return _Table(lines[order], writers[order], ready[order])


def _batches(table: _Table, spans: dict[_Key, Span]) -> Iterator[list[_Key]]:
    """Spans that may have lines of the table, as many of them together as have ``_TOGETHER`` lines."""
    some: list[_Key] = []
    count = 0
    for key, span in spans.items():
        lines = span.lines
        if not len(lines) or not len(table.lines) or lines[-1] < table.lines[0] or table.lines[-1] < lines[0]:
            continue
        if count + len(lines) > _TOGETHER and some:
            yield some
            some, count = [], 0
        some.append(key)
        count += len(lines)
    if some:
        yield some


def _looked_up(table: _Table, spans: list[Span], wanted: list[Edges]) -> None:
    """Add to ``wanted`` who writes lines of each span, with the longest wait for one of them."""
    lines, begin = (np.concatenate([getattr(span, name) for span in spans]) for name in ("lines", "begin"))
    owner = np.repeat(np.arange(len(spans)), [len(span.lines) for span in spans])
    low = np.searchsorted(table.lines, lines, "left")
    count = np.searchsorted(table.lines, lines, "right") - low
    which = np.repeat(np.arange(len(count)), count)
    if not len(which):
        return
    at = low[which] + np.arange(len(which)) - (np.cumsum(count) - count)[which]
    base = int(table.writers.max()) + 1
    pair, waits = owner[which] * base + table.writers[at], table.ready[at] - begin[which]
    order = np.argsort(pair, kind="stable")
    pair, waits = pair[order], waits[order]
    first = np.flatnonzero(np.append(True, pair[1:] != pair[:-1]))
    waits = np.maximum(np.maximum.reduceat(waits, first), 1)
    owner, writers = np.divmod(pair[first], base)
    ends = np.searchsorted(owner, np.arange(len(spans)), "right").tolist()
    all_writers, all_waits = writers.tolist(), waits.tolist()
    at_edge = 0
    for edges, end in zip(wanted, ends, strict=True):
        here = dict(zip(all_writers[at_edge:end], all_waits[at_edge:end], strict=True))
        if edges:
            _add(edges, here)
        else:
            edges.update(here)
        at_edge = end
