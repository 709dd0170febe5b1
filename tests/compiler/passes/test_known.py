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


def relative(queries, keys, first, steps, uneven):
    """What a table of relative positions [queries, ROWS] says of each query and key, at places that a constant holds."""
    places = first + steps[0] * np.arange(queries)[:, None] + steps[1] * np.arange(keys)[None]
    places = places.copy()
    places.flat[-1] += uneven
    rows, both = Access((0, 0), ((1, 0), (0, 0))), Access((0, 0), ((1, 0), (0, 1)))
    node = Gather("pick", "y", ("pick",), (queries, keys), Operand("x", rows), (None, Operand("at", both)))
    types = {
        "x": TensorType(DType.F32, (queries, ROWS)),
        "at": TensorType(DType.I64, places.shape),
        "y": TensorType(DType.F32, (queries, keys)),
    }
    return Graph("relative", ("x",), ("y",), types, {"at": places}, (node,))


@given(
    st.integers(2, 6),
    st.integers(2, 6),
    st.integers(-ROWS - 5, ROWS + 5),
    st.tuples(st.integers(-3, 3), st.integers(-3, 3)),
)
def test_places_that_go_up_evenly_along_two_loops_are_a_view(queries, keys, first, steps):
    graph = relative(queries, keys, first, steps, 0)
    places = graph.constants["at"]
    inside = (places.min() >= 0 and places.max() < ROWS) or (places.min() >= -ROWS and places.max() < 0)
    done = verify(known_places(graph))
    assert [type(node) for node in done.nodes] == [View if inside else Gather]
    if places.min() >= -ROWS and places.max() < ROWS:
        fed = {"x": np.arange(queries * ROWS, dtype=np.float32).reshape(queries, ROWS)}
        np.testing.assert_array_equal(run(done, fed)["y"], run(graph, fed)["y"])


def test_places_that_are_not_even_stay_a_gather():
    graph = relative(3, 4, 10, (1, -1), 1)
    assert known_places(graph).nodes == graph.nodes
