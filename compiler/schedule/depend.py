"""Which tiles need which, and how long after it they may start: by the memory lines that they read and write."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from compiler.schedule.tile import Span

if TYPE_CHECKING:
    from compiler.schedule.chains import Step
    from compiler.schedule.tile import Tile

Edges = dict[int, int]  # tile -> cycles from its start until the one that needs it may start
Array = np.ndarray[Any, Any]


class _Table(NamedTuple):
    """Lines in ascending order, with who writes each, and when it is there."""

    lines: Array
    writers: Array
    ready: Array


def dependencies(tiles: list[Tile], roots: dict[str, tuple[str, ...]], chains: list[list[Step]]) -> list[Edges]:
    """For every tile the tiles whose results it reads (by lines), and the LOADW of its weights.

    A tile issues behind those that it needs, and so late that each line is there when it is first read.
    """
    written: dict[str, list[int]] = defaultdict(list)
    for number, tile in enumerate(tiles):
        if tile.output:
            written[tile.output].append(number)
    tables = {value: _table(tiles, numbers) for value, numbers in written.items()}
    load = {use: step.load for chain in chains for step in chain for use in step.uses}
    found: list[Edges] = []
    known: dict[tuple[str, int, int], Edges] = {}  # by value, lines and when they are read: tiles share what they read
    for number, tile in enumerate(tiles):
        wanted: Edges = {}
        for _, value, span in tile.inputs:
            key = (value, id(span.lines), id(span.begin))
            if key not in known:
                known[key] = {}
                for root in roots[value]:
                    if root in tables:
                        _writers(tables[root], span, known[key])
            for before, wait in known[key].items():
                wanted[before] = max(wanted.get(before, 1), wait)
        for before in (*((load[number],) if number in load else ()), *tile.behind):
            wanted[before] = max(wanted.get(before, 1), tiles[before].end)
        wanted.pop(number, None)
        found.append(wanted)
    _neighbours(tiles, tables, roots, found)
    return [dict(sorted(wanted.items())) for wanted in found]


def _neighbours(
    tiles: list[Tile], tables: dict[str, _Table], roots: dict[str, tuple[str, ...]], found: list[Edges]
) -> None:
    """Parts of a join meet in a line here and there. Who reads one part there waits for writers of another that come first,
    and writers that come later wait for him (``Tile.after``)."""
    parts = sorted({part for several in roots.values() if len(several) > 1 for part in several if part in tables})
    if not parts:
        return
    table = _Table(*(np.concatenate(column) for column in zip(*(tables[part] for part in parts), strict=True)))
    order = np.argsort(table.lines, kind="stable")
    owner = np.repeat(np.arange(len(parts)), [len(tables[part].lines) for part in parts])[order]
    table = _Table(*(column[order] for column in table))
    met = (table.lines[1:] == table.lines[:-1]) & (owner[1:] != owner[:-1])
    shared = np.isin(table.lines, table.lines[1:][met])
    table, owner = _Table(*(column[shared] for column in table)), owner[shared]
    others: dict[str, _Table] = {}
    known: dict[tuple[str, int, int], Edges] = {}
    for number, tile in enumerate(tiles):
        for _, value, span in tile.inputs:
            if value not in others:
                own = [parts.index(root) for root in roots[value] if root in parts]
                others[value] = _Table(*(column[~np.isin(owner, own)] for column in table))
            key = (value, id(span.lines), id(span.begin))
            if key not in known:
                known[key] = {}
                _writers(others[value], span, known[key])
            _settle(tiles, number, known[key], found)


def _settle(tiles: list[Tile], number: int, wanted: Edges, found: list[Edges]) -> None:
    """Writers that come first, and the tile that reads, in the order of their numbers."""
    for writer, lag in wanted.items():
        if writer < number:
            found[number][writer] = max(found[number].get(writer, 1), lag)
        elif writer > number:
            tiles[writer].after = [*tiles[writer].after, number]


def gap(before: Span, after: Span) -> int:
    """Cycles from one tile's start to another's, at least, so that work on no common line begins before it ends there."""
    return gaps(before, after)[0]


def gaps(one: Span, other: Span) -> tuple[int, int]:
    """Likewise when the first of two tiles is before the other, and when it is behind."""
    _, mine, its = np.intersect1d(one.lines, other.lines, assume_unique=True, return_indices=True)
    first, second = one.end[mine] - other.begin[its], other.end[its] - one.begin[mine]
    return max(1, int(first.max(initial=1))), max(1, int(second.max(initial=1)))


def _table(tiles: list[Tile], numbers: list[int]) -> _Table:
    lines = np.concatenate([tiles[n].writes.lines for n in numbers])
    writers = np.repeat(np.array(numbers), [len(tiles[n].writes.lines) for n in numbers])
    ready = np.concatenate([tiles[n].writes.end for n in numbers])
    order = np.argsort(lines, kind="stable")
    return _Table(lines[order], writers[order], ready[order])


def _writers(table: _Table, span: Span, wanted: Edges) -> None:
    """Add to ``wanted`` who writes lines of ``span``, each with the longest wait for one of them."""
    if not len(span.lines) or not len(table.lines):
        return
    if span.lines[-1] < table.lines[0] or table.lines[-1] < span.lines[0]:
        return
    low = np.searchsorted(table.lines, span.lines, "left")
    count = np.searchsorted(table.lines, span.lines, "right") - low
    total = int(count.sum())
    if not total:
        return
    which = np.repeat(np.arange(len(count)), count)
    at = low[which] + np.arange(total) - (np.cumsum(count) - count)[which]
    writers, waits = table.writers[at], table.ready[at] - span.begin[which]
    order = np.argsort(writers, kind="stable")
    writers, waits = writers[order], waits[order]
    first = np.flatnonzero(np.append(True, writers[1:] != writers[:-1]))
    for writer, wait in zip(writers[first].tolist(), np.maximum.reduceat(waits, first).tolist(), strict=True):
        wanted[writer] = max(wanted.get(writer, 1), wait)
