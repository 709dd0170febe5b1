"""Who needs whom, and who writes a line together, against a look at every pair of lines."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.isa.instruction import Instruction
from compiler.scheduling import dependences, problem
from compiler.tiling.tile import EMPTY, Input, Span, Tile
from tests.tiers import some

VALUES = ("x", "y", "z")


@st.composite
def spans(draw: st.DrawFn) -> Span:
    lines = sorted(draw(st.sets(st.integers(0, 12), min_size=1, max_size=6)))
    begin = draw(st.lists(st.integers(0, 9), min_size=len(lines), max_size=len(lines)))
    took = draw(st.lists(st.integers(1, 9), min_size=len(lines), max_size=len(lines)))
    return Span(np.array(lines), np.array(begin), np.array(begin) + np.array(took))


@st.composite
def programs(draw: st.DrawFn) -> list[Tile]:
    shared = draw(st.lists(spans(), min_size=1, max_size=4))  # tiles share what they read
    tiles = []
    for number in range(draw(st.integers(1, 9))):
        output = draw(st.sampled_from(("", *VALUES)))
        reads = draw(st.lists(st.tuples(st.sampled_from(VALUES), st.sampled_from(shared)), max_size=3))
        behind = tuple(draw(st.sets(st.integers(0, number - 1), max_size=2))) if number else ()
        inputs = tuple(Input("a", value, span) for value, span in reads)
        writes = draw(spans()) if output else EMPTY
        tiles.append(Tile(Instruction(), ("vector", 0), 3, 4, writes, output, inputs, behind=behind))
    return tiles


def _brute(tiles: list[Tile]) -> list[dict[int, int]]:
    found: list[dict[int, int]] = []
    for number, tile in enumerate(tiles):
        wanted = {before: tiles[before].end for before in tile.behind}
        for _, value, span in tile.inputs:
            for writer, other in enumerate(tiles):
                if other.output != value or writer == number:
                    continue
                for line, ready in zip(other.writes.lines, other.writes.end, strict=True):
                    for read, begin in zip(span.lines, span.begin, strict=True):
                        if line == read:
                            wanted[writer] = max(wanted.get(writer, 1), int(ready - begin))
        found.append(dict(sorted(wanted.items())))
    return found


@settings(max_examples=some(30), deadline=None)
@given(programs())
def test_tiles_wait_for_whoever_writes_a_line_that_they_read(tiles: list[Tile]) -> None:
    found = dependences.dependencies(tiles, {value: (value,) for value in VALUES}, [])
    assert found == _brute(tiles)
    assert all(list(edges) == sorted(edges) for edges in found)


@settings(max_examples=some(30), deadline=None)
@given(programs())
def test_tiles_that_write_a_line_in_common_are_mates(tiles: list[Tile]) -> None:
    wanted: dict[int, dict[int, tuple[int, int]]] = {}
    for n, tile in enumerate(tiles):
        for m, other in enumerate(tiles):
            common = set(tile.writes.lines.tolist()) & set(other.writes.lines.tolist())
            if m != n and common:
                wanted.setdefault(n, {})[m] = (
                    dependences.gap(other.writes, tile.writes),
                    dependences.gap(tile.writes, other.writes),
                )
    found = problem._output_dependences(tiles)
    assert {n: {m: apart for m, *apart in output_dependences} for n, output_dependences in found.items()} == {
        n: {m: list(apart) for m, apart in output_dependences.items()} for n, output_dependences in wanted.items()
    }


@given(st.lists(spans(), max_size=3))
def test_a_tile_reads_what_its_operands_are_read_from_the_first_begin_to_the_last_end(some: list[Span]) -> None:
    tile = Tile(Instruction(), ("vector", 0), 3, 4, EMPTY, inputs=tuple(Input("a", "x", span) for span in some))
    found = {line: (begin, end) for line, begin, end in zip(*(column.tolist() for column in tile.reads), strict=True)}
    work = [row for span in some for row in zip(*(column.tolist() for column in span), strict=True)]
    assert list(found) == sorted({line for line, _, _ in work})
    for line, times in found.items():
        assert times == (min(b for at, b, _ in work if at == line), max(e for at, _, e in work if at == line))
