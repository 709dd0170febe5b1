"""Scatter and Sort in the representation: meaning, text form, and what the verifier refuses."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand, Scatter, Sort
from compiler.ir.interpreter import InterpreterFault, run
from compiler.ir.parse import parse
from compiler.ir.text import blobs, to_text
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import VerifyError, verify


def scattering(reducer=None):
    """Rows of ``update`` [n, 3] put to rows of ``data`` [4, 3] that ``rows`` [n] names."""
    b = Builder("scatter")
    b.source = ("s",)
    data, update = b.input("data", TensorType(DType.F32, (4, 3))), b.input("update", TensorType(DType.F32, (5, 3)))
    rows = b.input("rows", TensorType(DType.I64, (5,)))
    target = Access((0, 0), ((0, 0), (0, 1)))
    index = Operand(rows, Access((0,), ((1, 0),)))
    out = b.scatter(data, (5, 3), target, [index, None], Operand(update, Access.identity(2)), reducer)
    return b.finish({"y": out}, {}, {})


def feeds(rows):
    rng = np.random.default_rng(3)
    return {
        "data": rng.standard_normal((4, 3)).astype("f4"),
        "update": rng.standard_normal((5, 3)).astype("f4"),
        "rows": np.array(rows, np.int64),
    }


@pytest.mark.parametrize("reducer", [None, "sum", "prod", "max", "min"])
def test_a_scatter_takes_updates_in_order_and_counts_from_the_end(reducer):
    given = feeds([0, 2, -2, 0, 3])
    expected = given["data"].copy()
    join = {None: lambda _, b: b, "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[reducer]
    for row, update in zip(given["rows"], given["update"], strict=True):
        expected[row] = join(expected[row], update)
    graph = scattering(reducer)
    assert np.array_equal(run(graph, given)["y"], expected)
    assert graph.nodes[-1].operations == (15 if reducer else 0)


def test_a_place_outside_the_data_is_a_fault():
    with pytest.raises(InterpreterFault, match="outside"):
        run(scattering(), feeds([0, 1, 2, 3, 4]))


def test_both_primitives_and_a_length_round_trip_through_text():
    b = Builder("sorted")
    b.source = ("s",)
    value = b.sort(b.input("x", TensorType(DType.I32, (2, 6))), 4)
    length = b.constant(np.array(3, np.int64))
    b.lengths[value] = (1, length)
    for graph in (scattering(), scattering("max"), b.finish({"y": value}, {}, {})):
        assert parse(to_text(graph), blobs(graph)) == verify(graph)
    assert graph.lengths == {"y": (1, "y.length")}
    found = run(graph, {"x": np.array([[5, 1, 4, 2, 3, 0], [9, 9, 8, 7, 6, 5]], np.int32)})
    assert found["y"].tolist() == [[0, 1, 2], [5, 6, 7]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reducer": "any"}, "combine"),
        ({"target": Access((0, 1), ((0, 0), (0, 1)))}, "outside"),
        ({"indices": (None,)}, "for each dimension"),
        ({"data": "update"}, "scatters"),
    ],
)
def test_a_wrong_scatter_is_refused(change, words):
    graph = scattering()
    node = next(n for n in graph.nodes if isinstance(n, Scatter))
    with pytest.raises(VerifyError, match=words):
        verify(graph.with_nodes((replace(node, **change),)))


def test_a_wrong_sort_or_length_is_refused():
    b = Builder("sorted")
    b.source = ("s",)
    graph = b.finish({"y": b.sort(b.input("x", TensorType(DType.I32, (6,))), 4)}, {}, {})
    with pytest.raises(VerifyError, match="sorts"):
        verify(graph.with_nodes((replace(next(n for n in graph.nodes if isinstance(n, Sort)), keep=5),)))
    with pytest.raises(VerifyError, match="no length"):
        verify(replace(graph, lengths={"y": (0, "x")}))
