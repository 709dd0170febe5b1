"""The text form reads back as the same graph, and wrong text is refused with its line."""

import contextlib
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, numpy_helper

import compiler
from compiler.errors import ModelError
from compiler.ir import written
from compiler.ir.access import Access
from compiler.ir.graph import Graph, Operand, State, View
from compiler.ir.interpreter import run
from compiler.ir.parse import parse
from compiler.ir.text import blobs, file_text, to_text
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import optimise
from tests.compiler.frontend.test_standard import chosen
from tests.compiler.graphs import feeds_for, graphs
from tests.compiler.oracle import wide
from tests.compiler.standard import bind
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
        ('graph "g" { const "c" f32[20] = ' + "0" * 64 + " }", "not given"),
        ('graph "g" { const "c" f32[20] = 0123456789abcdef }', "neither a list of numbers nor the digest"),
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


@settings(max_examples=some(100))
@given(graph=graphs())
def test_a_file_of_any_graph_holds_it_with_its_arrays(graph):
    text = "".join(file_text(graph))
    again = written.load(text)
    assert again == graph
    assert "".join(file_text(again)) == text
    assert {name: array.tobytes() for name, array in again.constants.items()} == {
        name: array.tobytes() for name, array in graph.constants.items()
    }


def test_a_file_of_each_case_of_the_standard_holds_its_graph():
    checked = 0
    for case in chosen(5, 2):
        with contextlib.suppress(ModelError):  # what is refused has no graph
            given = zip([i.name for i in case.model.graph.input], case.data_sets[0][0], strict=False)
            graph, _ = bind(case.model, {name: _array(value) for name, value in given}, case.name)
            assert written.load("".join(file_text(graph))) == graph, case.name
            checked += 1
    assert checked >= 60


def _array(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


DAMAGED = st.sampled_from([chr(n) for n in range(32, 127)] + ["\n", "\t", "é", "0", "99999999999999999999", "-1"])


@st.composite
def damages(draw, text):
    """The text with one character replaced, left out or put in, or one line left out, doubled or cut off."""
    if draw(st.booleans()):
        at = draw(st.integers(0, len(text) - 1))
        return text[:at] + draw(st.just("") | DAMAGED) + text[at + draw(st.integers(0, 1)) :]
    lines = text.split("\n")
    at = draw(st.integers(0, len(lines) - 1))
    cut = lines[at][: draw(st.integers(0, len(lines[at])))]
    lines[at : at + 1] = draw(st.sampled_from([[], [lines[at]] * 2, [cut]]))
    return "\n".join(lines)


def _whole_models():
    for case in wide.CASES.values():
        yield "".join(file_text(compiler.load(case.model(), states=case.states, bounds=case.bounds)))


WHOLE_MODELS = list(_whole_models())


@settings(max_examples=some(2000))
@given(data=st.data())
def test_a_damaged_text_is_another_graph_or_refused_with_its_line(data):
    text = data.draw(damages(data.draw(st.sampled_from(WHOLE_MODELS))))
    try:
        graph = written.load(text)
    except ModelError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert re.match(r"Line \d+(, column \d+)?\b", refused), refused
        return
    assert written.load("".join(file_text(graph))) == graph


@settings(max_examples=some(200))
@given(data=st.data(), graph=graphs())
def test_a_damaged_array_is_refused(data, graph):
    """Whatever character of its base64 is replaced, and whatever line of it is lost."""
    long = np.arange(data.draw(st.integers(9, 200)), dtype=np.float32)
    types, constants = {**graph.types, "long": TensorType(DType.F32, long.shape)}, {**graph.constants, "long": long}
    text = "".join(file_text(Graph(graph.name, graph.inputs, graph.outputs, types, constants, graph.nodes)))
    start = text.index(f"array {list(blobs(written.load(text)))[-1]} =\n")
    line = text.count("\n", 0, start) + 1
    first, last = text.index("\n", start) + 1, text.index(";", start) - 1
    at = data.draw(st.integers(first, last - 1).filter(lambda at: text[at] != "\n"))
    put = data.draw(st.sampled_from("ABC+/=-;").filter(lambda put: put != text[at]))
    for damaged in (text[:at] + put + text[at + 1 :], text[:first] + text[text.index("\n", first) :]):
        with pytest.raises(
            ModelError, match=r"^Line \d+, column \d+ of the text form: .*(altered|what follows|; is expec)"
        ) as told:
            written.load(damaged)
        assert line <= int(str(told.value).split()[1].rstrip(",")) <= text.count("\n", 0, at) + 1


@pytest.mark.parametrize("name", wide.CASES)
def test_models_with_branches_states_sorts_scatters_and_lengths_round_trip(name):
    case = wide.CASES[name]
    graph = optimise(compiler.load(case.model(), states=case.states, bounds=case.bounds))
    text = to_text(graph)
    again = parse(text, blobs(graph))
    assert again == graph
    assert to_text(again) == text
