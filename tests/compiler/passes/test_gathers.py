"""Tables of codes are looked up as codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Gather, Graph, Operand
from compiler.ir.interpreter import InterpreterFault, run
from compiler.ir.terms import Term, arg, expression
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import behind_gathers
from tests.tiers import some

ROWS, WIDTH, LOOKED_UP = 9, 4, 3


def table(scale_rows: int = ROWS) -> Graph:
    """Rows of codes times a scale each (or one for all), looked up by the input."""
    codes = np.arange(ROWS * WIDTH, dtype=np.int8).reshape(ROWS, WIDTH)
    scales = np.linspace(0.5, 2.0, scale_rows, dtype=np.float32).reshape(scale_rows, 1)
    rows = ((int(scale_rows > 1), 0), (0, 0))
    product = Term("mul", (arg(0, DType.I8), arg(1, DType.F32)), DType.F32)
    whole = Compute(
        "decode",
        "numbers",
        ("decode",),
        (ROWS, WIDTH),
        2,
        (Operand("codes", Access.identity(2)), Operand("scales", Access((0, 0), rows))),
        expression(product),
    )
    data = Operand("numbers", Access((0, 0), ((0, 0), (0, 1))))
    index = Operand("at", Access((0,), ((1, 0),)))
    picked = Gather("look up", "y", ("look up",), (LOOKED_UP, WIDTH), data, (index, None))
    types = {
        "at": TensorType(DType.I64, (LOOKED_UP,)),
        "codes": TensorType(DType.I8, codes.shape),
        "scales": TensorType(DType.F32, scales.shape),
        "numbers": TensorType(DType.F32, codes.shape),
        "y": TensorType(DType.F32, (LOOKED_UP, WIDTH)),
    }
    return Graph("table", ("at",), ("y",), types, {"codes": codes, "scales": scales}, (whole, picked))


@settings(max_examples=some(100), deadline=None)
@given(
    at=st.lists(st.integers(-ROWS, ROWS - 1), min_size=LOOKED_UP, max_size=LOOKED_UP), scales=st.sampled_from([1, ROWS])
)
def test_only_the_rows_that_are_looked_up_become_numbers(at, scales):
    graph = table(scales)
    done = verify(behind_gathers(graph))
    feeds = {"at": np.array(at, np.int64)}
    np.testing.assert_array_equal(run(done, feeds)["y"], run(graph, feeds)["y"])
    assert [type(n) for n in done.nodes] == [Gather] * (1 + (scales > 1)) + [Compute]
    assert sum(n.operations for n in done.nodes if isinstance(n, Compute)) == LOOKED_UP * WIDTH


def test_a_place_outside_the_table_stays_a_fault():
    with pytest.raises(InterpreterFault):
        run(behind_gathers(table()), {"at": np.array([0, ROWS, 1])})


def test_a_table_that_others_read_too_is_computed_once():
    graph = table()
    read = Graph("table", graph.inputs, ("y", "numbers"), graph.types, graph.constants, graph.nodes)
    assert behind_gathers(read).nodes == read.nodes
