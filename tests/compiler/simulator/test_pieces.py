"""Pieces of one shape, read, written and looked for at several addresses at once: against a walk over every element."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.isa.lines import placed
from compiler.isa.stream import Stream
from compiler.simulator.batch import Shape
from compiler.simulator.forms import Form
from compiler.simulator.placing import Unclear
from tests.compiler.isa.test_flow import LINE, Range, pieces
from tests.compiler.oracle.footprint import elements
from tests.tiers import some


@settings(max_examples=some(100), deadline=None)
@given(
    piece=pieces(), room=st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True), grain=st.sampled_from((1, 2))
)
def test_pieces_are_their_elements(piece: tuple[Stream, Range, Range], room: list[int], grain: int) -> None:
    stream, rows, inner = piece
    common, line = placed(stream, 0, rows, inner, LINE)
    shape = Shape(Form(common, LINE), 7)
    table = [[place for place, *_ in row] for row in elements(stream, 0, rows, inner)]
    inside = [place for row in table for place in row if place is not None]
    lowest = min(inside, default=0)
    memory = np.arange(
        (max(inside, default=0) - lowest) // 2 + 1 + max(room), dtype=np.int16
    )  # not an element more than it needs
    starts = np.array([2 * n - lowest for n in room])
    at = line * LINE + shape.first + starts
    expected = [[[7 if p is None else memory[(p + s) // 2] for p in row] for row in table] for s in starts.tolist()]
    assert np.array_equal(np.broadcast_to(shape.read(at, memory.view(np.uint8)), np.shape(expected)), expected)

    shadow = np.zeros(memory.nbytes // grain, np.uint8)
    state = SimpleNamespace(shadow=shadow, grain=grain)
    written = np.zeros(len(memory), np.bool_)
    if inside and len(set(inside)) == sum(map(len, table)) and len(room) == 1:
        values = np.arange(np.size(table), dtype=np.int16).reshape(1, *np.shape(table)) + 1000
        shape.write(at, memory.view(np.uint8), values)
        for p, value in zip((p for row in table for p in row), values.ravel().tolist(), strict=True):
            assert memory[(p + int(starts[0])) // 2] == value
    for place in inside:
        written[[(place + s) // 2 for s in starts.tolist()]] = True
    if not stream.guards and inside:
        with pytest.raises(Unclear):
            shape.require(at, state)
        shape.mark(at, state)
        assert np.array_equal(shadow.reshape(len(memory), -1).all(axis=1), written)
    shadow.reshape(len(memory), -1)[written] = 255
    shape.require(at, state)
    if inside:
        shadow[int(inside[-1] + starts[-1]) // grain] = 0
        with pytest.raises(Unclear):
            shape.require(at, state)
