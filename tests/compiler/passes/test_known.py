"""Gathers at known places become slices side by side."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.graph import Gather, Graph, Join, Operand, View
from compiler.ir.interpreter import InterpreterFault, run
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.isa.instruction import Op
from compiler.passes import known_places
from tests.compiler.checks import check_program

ROWS, WIDTH = 40, 3


def looked_up(places) -> Graph:
    """Rows of the input at constant places, columns in front."""
    at = np.array(places, np.int64)
    data = Operand("x", Access((0, 0), ((0, 0), (1, 0))))
    node = Gather("pick", "y", ("pick",), (WIDTH, len(at)), data, (Operand("at", Access((0,), ((0, 1),))), None))
    types = {
        "x": TensorType(DType.F32, (ROWS, WIDTH)),
        "at": TensorType(DType.I64, at.shape),
        "y": TensorType(DType.F32, (WIDTH, len(at))),
    }
    return Graph("looked up", ("x",), ("y",), types, {"at": at}, (node,))


def feed():
    return {"x": np.arange(ROWS * WIDTH, dtype=np.float32).reshape(ROWS, WIDTH)}


runs = st.tuples(st.integers(0, ROWS - 1), st.integers(-3, 3), st.integers(1, 30))


@given(st.lists(runs, min_size=1, max_size=4), st.booleans())
def test_the_same_elements_in_the_same_order(parts, negative):
    places = [p for start, step, count in parts for p in range(start, start + step * count, step or 1)][:60] or [0]
    places = [p % ROWS - (ROWS if negative else 0) for p in places]
    graph = looked_up(places)
    done = verify(known_places(graph))
    np.testing.assert_array_equal(run(done, feed())["y"], run(graph, feed())["y"])


def test_a_reflected_border_is_moved_in_two_runs():
    graph = looked_up([*range(ROWS), *range(ROWS - 2, ROWS - 18, -1)])
    done = verify(known_places(graph))
    assert [type(node) for node in done.nodes] == [View, View, Join]
    _, binary = check_program(done, "lpu", [feed()])
    assert not any(i.opcode == Op.GATHER for i in binary.rows)
    assert sum(i.opcode == Op.MOVE for i in binary.rows) <= 2


@pytest.mark.parametrize("places", [[0, 5, 3, 9, 2, 30, 7, 1], [*range(0, 40, 2), 40]])
def test_scattered_places_and_those_outside_stay_a_gather(places):
    graph = looked_up(places)
    done = known_places(graph)
    assert [type(node) for node in done.nodes] == [Gather]
    if max(places) >= ROWS:
        with pytest.raises(InterpreterFault):
            run(done, feed())
