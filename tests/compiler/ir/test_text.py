"""The text form reads back as the same graph, and wrong text is refused with its line."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.errors import ModelError
from compiler.ir.access import Access
from compiler.ir.graph import Graph, Operand, State, View
from compiler.ir.interpreter import run
from compiler.ir.parse import parse
from compiler.ir.text import blobs, to_text
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import optimise
from tests.compiler.graphs import feeds_for, graphs
from tests.compiler.oracle import wide
from tests.tiers import some


@settings(max_examples=some(100))
@given(graph=graphs(), seed=st.integers(0, 9))
def test_any_graph_round_trips_and_means_the_same(graph, seed):
    again = parse(to_text(graph), blobs(graph))
    assert again == graph
    assert again.nodes == graph.nodes
    assert again.types == graph.types
    feeds = feeds_for(graph, seed)
    before, after = run(verify(graph), feeds), run(verify(again), feeds)
    assert all(before[name].tobytes() == after[name].tobytes() for name in graph.outputs)


def test_states_odd_names_and_special_floats_round_trip():
    kind = TensorType(DType.F32, (2,))
    graph = Graph(
        'a "quoted"\nname',
        ("x ☃",),
        ("y",),
        {"x ☃": kind, "h": kind, "y": kind, "c": kind, "s": TensorType(DType.F32, ())},
        {"c": np.array([np.nan, -np.inf], "f4"), "s": np.array(1e-45, "f4")},
        (View("n", "y", ("op",), Operand("x ☃", Access((1,), ((-1,),)), float("inf"))),),
        (State("h", "y", np.zeros(2, "f4")),),
        {"producer": "none"},
    )
    assert parse(to_text(graph), blobs(graph)) == graph
    assert "-l0 + 1" in to_text(graph)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "Line 1"),
        ('graph "g" {', "is expected"),
        ('graph "g" { input "x" f33[1] }', "no element type"),
        ('graph "g" { value "y" f32[1] = conv "n" of [] }', "no primitive"),
        ('graph "g" { value "y" f32[1] = view "n" of [] read "x" [l7] }', "none of its 1 loops"),
        ('graph "g" { const "c" f32[2] = [1.0] }', "1 values"),
        ('graph "g" { const "c" f32[20] = 0123456789abcdef }', "not given"),
        ('graph "g" { % }', "cannot be read"),
        ("graph g { }", "quoted name"),
    ],
)
def test_wrong_text_is_refused_with_a_sentence(text, said):
    with pytest.raises(ModelError, match=said):
        parse(text)


@given(text=st.text(alphabet='graph "{}[]()xyf32l0*+-:;=,0123.e inputvalueview', max_size=60))
def test_any_text_gives_a_graph_or_a_model_error(text):
    with contextlib.suppress(ModelError):
        parse('graph "g" {' + text)


@pytest.mark.parametrize("name", wide.CASES)
def test_models_with_branches_states_sorts_scatters_and_lengths_round_trip(name):
    case = wide.CASES[name]
    graph = optimise(compiler.load(case.model(), states=case.states, bounds=case.bounds))
    text = to_text(graph)
    again = parse(text, blobs(graph))
    assert again == graph
    assert to_text(again) == text
