"""Fetches and elements by formula equal those found point by point, for any nest and range."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compiler.isa.geometry import elements, touches
from compiler.isa.stream import Guard, Loop, Stream, points
from compiler.simulator.pieces import Piece
from tests.compiler.oracle import footprint
from tests.tiers import some

LINE = 32
Range = tuple[int, int]


@st.composite
def nests(draw: st.DrawFn, most: int = 3) -> tuple[Loop, ...]:
    strides = st.sampled_from((0, 4, 8, 12, 16, 24, 40, 64, -4, -12))
    return tuple(Loop(draw(st.integers(1, 4)), draw(strides)) for _ in range(draw(st.integers(0, most))))


@st.composite
def pieces(draw: st.DrawFn) -> tuple[Stream, Range, Range]:
    g1, g2 = draw(nests()), draw(nests())
    guards = ()
    if draw(st.booleans()):
        coefficients = tuple(draw(st.integers(-2, 2)) for _ in g1 + g2)
        guards = (Guard(draw(st.integers(1, 5)), draw(st.integers(-2, 2)), coefficients),)
    stream = Stream("f32", 2048, (), g1, g2, guards, 1.5)
    ranges = []
    for nest in (g1, g2):
        start = draw(st.integers(0, points(nest) - 1))
        ranges.append((start, draw(st.integers(1, points(nest) - start))))
    return stream, ranges[0], ranges[1]


@settings(max_examples=some(100))
@given(pieces())
def test_fetches_and_elements_are_those_counted_point_by_point(piece: tuple[Stream, Range, Range]) -> None:
    stream, rows, inner = piece
    assert elements(stream, rows, inner) == footprint.taken(stream, rows, inner)
    assert touches(stream, rows, inner, LINE) == footprint.fetches(stream, rows, inner, LINE)


@settings(max_examples=some(100))
@given(pieces())
def test_the_simulator_reads_the_elements_and_lines_found_point_by_point(piece: tuple[Stream, Range, Range]) -> None:
    stream, rows, inner = piece
    memory = np.arange(1024, dtype="f4").view(np.uint8)
    got = Piece(stream, 0, rows, inner, LINE, memory.size)
    table = footprint.elements(stream, 0, rows, inner)
    wanted = [[1.5 if a is None else memory.view("f4")[a // 4] for a, _ in line] for line in table]
    np.testing.assert_array_equal(got.read(memory), np.array(wanted, "f4"))
    lines = {a // LINE for line in table for a, _ in line if a is not None}
    assert set(np.arange(1 << 10)[got.lines]) == lines
    assert got.elements == footprint.taken(stream, rows, inner)


@given(pieces())
def test_a_result_is_refused_exactly_when_two_values_share_a_place(piece: tuple[Stream, Range, Range]) -> None:
    stream, rows, inner = piece
    stream = Stream(stream.dtype, stream.base, (), stream.g1, stream.g2)
    places = footprint.addresses(stream, 0, rows, inner)
    assert Piece(stream, 0, rows, inner, LINE, 1 << 20).form.repeats == (len(set(places)) < len(places))


@settings(max_examples=some(100))
@given(pieces(), st.integers(0, 1 << 20))
def test_the_simulator_writes_where_it_would_read(piece: tuple[Stream, Range, Range], seed: int) -> None:
    stream, rows, inner = piece
    stream = Stream(stream.dtype, stream.base, (), stream.g1, stream.g2)
    memory = np.zeros(4096, np.uint8)
    target = Piece(stream, 0, rows, inner, LINE, memory.size)
    assume(not target.form.repeats)
    values = np.random.default_rng(seed).standard_normal(target.shape).astype("f4")
    target.write(memory, values)
    np.testing.assert_array_equal(target.read(memory), values)
    written = {a + k for a in footprint.addresses(stream, 0, rows, inner) for k in range(4)}
    assert not np.delete(memory, sorted(written)).any()
