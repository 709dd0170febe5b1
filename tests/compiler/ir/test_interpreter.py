"""Each primitive means what a loop over its points says, written out naively here."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir import interpreter
from compiler.ir.graph import Compute, Gather, Join, Reshape, View
from compiler.ir.interpreter import InterpreterFault, run
from compiler.ir.parse import parse
from compiler.numerics.reduce import reduce
from compiler.numerics.scalar import evaluate
from tests.compiler.graphs import feeds_for, graphs
from tests.tiers import some


def places(access, point):
    rows = zip(access.offset, access.matrix, strict=True)
    return [o + sum(c * p for c, p in zip(row, point, strict=True)) for o, row in rows]


def fetch(operand, values, point):
    array = values[operand.value]
    place = places(operand.access, point)
    inside = all(0 <= c < n for c, n in zip(place, array.shape, strict=True))
    return array[tuple(place)] if inside else array.dtype.type(operand.fill)


def steps(expr):
    return [(s.op, s.args, s.dtype.numpy, s.imm) for s in expr.steps]


def naive(node, values, shape):
    if isinstance(node, Reshape):
        return values[node.input].reshape(shape)
    if isinstance(node, Join):
        return np.concatenate([values[p] for p in node.parts], node.axis)
    dtype = (node.post or node.expr).dtype.numpy if isinstance(node, Compute) else None
    out = np.empty(shape, dtype or values[(node.operand if isinstance(node, View) else node.data).value].dtype)
    for p in np.ndindex(*shape):
        if isinstance(node, View):
            out[p] = fetch(node.operand, values, p)
        elif isinstance(node, Gather):
            data = values[node.data.value]
            pairs = zip(places(node.data.access, p), node.indices, strict=True)
            out[p] = data[tuple(c + (0 if i is None else int(fetch(i, values, p))) for c, i in pairs)]
        else:
            out[p] = point(node, values, p)
    return out


def point(node, values, p):
    found = []
    for r in itertools.product(*(range(n) for n in node.loops[node.parallel :])):
        read = [fetch(o, values, (*p, *r)) for o in node.operands]
        found.append(evaluate(steps(node.expr), read.__getitem__, np.array((*p, *r)).__getitem__))
    result = np.array(found, node.expr.dtype.numpy)
    if node.is_contraction and node.expr.dtype.is_float:
        total = np.zeros((), result.dtype)
        for product in result:
            total = np.asarray(total + product, result.dtype)
        result = total
    else:
        result = reduce(node.reducer, result) if node.reducer else result[0]
    if node.post is None:
        return result
    read = [fetch(o, values, (*p, *(0,) * (len(node.loops) - node.parallel))) for o in node.operands]
    return evaluate(steps(node.post), lambda i: result if i == -1 else read[i], np.array(p).__getitem__)


@settings(max_examples=some(100))
@given(graph=graphs(), seed=st.integers(0, 9))
def test_primitives_mean_what_the_loop_over_their_points_says(graph, seed):
    values = dict(graph.constants) | feeds_for(graph, seed)
    got = run(graph, feeds_for(graph, seed))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            values[node.output] = naive(node, values, graph.types[node.output].shape)
    for name in graph.outputs:
        assert got[name].dtype == values[name].dtype
        assert np.array_equal(got[name], values[name], equal_nan=got[name].dtype.kind == "f"), name


def test_large_domains_are_cut_without_a_trace(monkeypatch):
    graph = parse("""
graph "g" {
  input "x" f32[6,9,9]
  value "y" f32[6,7,7] = compute "pool" of ["p"] over [6, 7, 7] reduce sum over [3, 3]
      read "x" [l0, l1 + l3, l2 + l4] expr (arg 0 : f32; index 1 : i64; cast 1 : f32; mul 0 2 : f32)
  output "y"
}""")
    feeds = feeds_for(graph, 1)
    whole = run(graph, feeds)["y"]
    monkeypatch.setattr(interpreter, "_LIMIT", 50)
    assert run(graph, feeds)["y"].tobytes() == whole.tobytes()


def test_an_access_that_strides_over_far_more_than_it_reads_needs_no_memory():
    graph = parse("""
graph "g" {
  input "x" f32[3,3]
  value "y" f32[2,2] = view "v" of ["p"] read "x" [1000000*l0, 2000000*l1 + 1] fill 7.0
  output "y"
}""")
    x = np.arange(9, dtype="f4").reshape(3, 3)
    assert run(graph, {"x": x})["y"].tolist() == [[1, 7], [7, 7]]


def test_state_is_carried_from_call_to_call():
    graph = parse(
        """
graph "counter" {
  input "x" f32[1]
  state "h" f32[1] update "next" initial [0.0]
  value "next" f32[1] = compute "add" of ["a"] over [1] read "x" [l0] read "h" [l0] expr (arg 0 : f32; arg 1 : f32; add 0 1 : f32)
  output "next"
}"""
    )
    memory = {}
    results = [run(graph, {"x": np.array([v], "f4")}, memory)["next"][0] for v in (1, 2, 4)]
    assert results == [1, 3, 7]


def test_faults_are_told():
    graph = parse("""
graph "g" {
  input "i" i64[1]
  const "d" f32[3] = [1.0, 2.0, 3.0]
  value "y" f32[1] = gather "g" of ["G"] over [1] read "d" [0] read "i" [l0]
  output "y"
}""")
    assert run(graph, {"i": np.array([-1])})["y"] == [3]
    with pytest.raises(InterpreterFault, match=r"outside 0\.\.2"):
        run(graph, {"i": np.array([3])})
    with pytest.raises(InterpreterFault, match="missing"):
        run(graph, {})
    with pytest.raises(InterpreterFault, match="not i64"):
        run(graph, {"i": np.array([1], "i4")})
