"""Every pass keeps the meaning of any graph, and does what it is for on small ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.expr import FREE
from compiler.ir.graph import Compute, View
from compiler.ir.interpreter import run
from compiler.ir.parse import parse
from compiler.ir.terms import Term, arg, const, expression
from compiler.ir.types import DType
from compiler.ir.verifier import verify
from compiler.passes import (
    absorb,
    again,
    dead_code,
    fold,
    fold_views,
    fuse,
    merge_equal,
    multiply_add,
    optimise,
    repeats,
    split_reductions,
)
from compiler.passes.multiply_add import fused, widened
from tests.compiler.graphs import feeds_for, graphs
from tests.tiers import some

EXACT = {
    "dead_code": dead_code,
    "fold": fold,
    "fold_views": fold_views,
    "merge_equal": merge_equal,
    "fuse": fuse,
    "multiply_add": multiply_add,
    "again": again,
    "repeats": repeats,
    "together": lambda g: fuse(merge_equal(fold_views(fold(dead_code(g))))),
}


def same(graph, other, seed, exact=True):
    feeds = feeds_for(graph, seed)
    before, after = run(graph, feeds), run(other, feeds)
    assert list(before) == list(after)
    for name, expected in before.items():
        got = after[name]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if exact or expected.dtype.kind != "f":
            assert np.array_equal(got, expected, equal_nan=expected.dtype.kind == "f"), name
        else:
            finite = np.isfinite(expected)
            assert np.array_equal(finite, np.isfinite(got))
            scale = np.abs(expected[finite]).max(initial=1e-30)
            assert np.abs(got[finite] - expected[finite]).max(initial=0) <= 1e-4 * max(scale, 1), name


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=some(60))
@given(graph=graphs(), seed=st.integers(0, 9))
def test_a_pass_changes_no_bit_of_any_result(name, graph, seed):
    same(graph, verify(EXACT[name](graph)), seed)


@settings(max_examples=some(100))
@given(graph=graphs(), seed=st.integers(0, 9), limit=st.integers(2, 4))
def test_the_whole_pipeline_keeps_the_meaning(graph, seed, limit):
    done = optimise(graph, reduction_limit=limit, check=verify)
    same(graph, done, seed, exact=False)
    assert all(
        n.reduction <= limit for n in done.nodes if isinstance(n, Compute) and n.reducer and not n.is_contraction
    )
    assert done.inputs == graph.inputs
    assert done.outputs == graph.outputs


@settings(max_examples=some(100))
@given(graph=graphs())
def test_the_pipeline_never_adds_operations(graph):
    def operations(g):
        return sum(n.operations for n in g.nodes if isinstance(n, Compute))

    assert operations(optimise(graph)) <= operations(graph)


@settings(max_examples=some(100))
@given(graph=graphs())
def test_no_source_is_invented(graph):
    known = {s for n in graph.nodes for s in n.source}
    assert {s for n in optimise(graph).nodes for s in n.source} <= known


def test_a_normalisation_behind_a_convolution_disappears_into_its_weights():
    graph = parse("""
graph "conv_bn_relu" {
  input "x" f32[1,2,4,4]
  const "w" f32[2,2,1,1] = [1.0, 2.0, 3.0, 4.0]
  const "b" f32[2] = [0.5, -0.5]
  const "f" f32[2,1,1] = [2.0, 4.0]
  const "s" f32[2,1,1] = [10.0, 20.0]
  value "c" f32[1,2,4,4] = compute "conv" of ["Conv"] over [1,2,4,4] reduce sum over [1,1,2]
    read "x" [l0, l6, l2 + l4, l3 + l5] read "w" [l1, l6, l4, l5] read "b" [l1]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32) post (arg -1 : f32; arg 2 : f32; add 0 1 : f32)
  value "n" f32[1,2,4,4] = compute "bn" of ["BatchNormalization"] over [1,2,4,4]
    read "c" [l0, l1, l2, l3] read "f" [l1, 0, 0] read "s" [l1, 0, 0]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32; arg 2 : f32; add 2 3 : f32)
  value "y" f32[1,2,4,4] = compute "relu" of ["Relu"] over [1,2,4,4]
    read "n" [l0, l1, l2, l3] expr (arg 0 : f32; const 0.0 : f32; max 0 1 : f32)
  output "y"
}""")
    done = optimise(graph, check=verify)
    (node,) = done.nodes
    assert node.is_contraction
    assert node.source == ("Conv", "BatchNormalization", "Relu")
    assert [s.op for s in node.post.steps] == ["arg", "arg", "add", "const", "max"]
    assert done.constants[node.operands[1].value].reshape(-1).tolist() == [2, 4, 12, 16]
    assert done.constants[node.operands[2].value].tolist() == [11, 18]
    same(graph, done, 3)


def test_a_factor_that_is_all_there_is_behind_a_product_disappears_into_its_weights():
    graph = verify(
        parse("""
graph "g" {
  input "x" f32[1,2]
  const "w" f32[2,2] = [1.0, 2.0, 3.0, 4.0]
  value "y" f32[1,2] = compute "dot" of ["dot"] over [1, 2] reduce sum over [2]
    read "x" [l0, l2] read "w" [l2, l1] expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32)
    post (arg -1 : f32; const 0.25 : f32; mul 0 1 : f32)
  output "y"
}
""")
    )
    small = verify(absorb(graph))
    assert sum(node.operations for node in small.nodes) == 1 * 2 * 2 * 2
    feed = {"x": np.array([[3.0, 5.0]], np.float32)}
    np.testing.assert_array_equal(run(small, feed)["y"], run(graph, feed)["y"])


def test_a_split_into_heads_and_a_transpose_are_read_in_place():
    graph = parse("""
graph "heads" {
  input "q" f32[4,6]
  input "k" f32[4,6]
  value "q3" f32[4,2,3] = reshape "rq" of ["R"] "q"
  value "k3" f32[4,2,3] = reshape "rk" of ["R"] "k"
  value "qt" f32[2,4,3] = view "tq" of ["T"] read "q3" [l1, l0, l2]
  value "kt" f32[2,3,4] = view "tk" of ["T"] read "k3" [l2, l0, l1]
  value "s" f32[2,4,4] = compute "mm" of ["M"] over [2,4,4] reduce sum over [3]
    read "qt" [l0, l1, l3] read "kt" [l0, l3, l2] expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32)
  output "s"
}""")
    (node,) = optimise(graph, check=verify).nodes
    assert [o.value for o in node.operands] == ["q", "k"]
    same(graph, optimise(graph), 1)


def test_a_pad_is_read_as_a_guard_and_two_guards_are_not_confused():
    text = """
graph "pads" {
  input "x" f32[5]
  value "p" f32[9] = view "pad" of ["P"] read "x" [l0 - 2] fill 1.0
  value "y" f32[9] = compute "window" of ["W"] over [9] reduce sum over [3] read "p" [l0 + l1 - 1] fill FILL
    expr (arg 0 : f32)
  output "y"
}"""
    one = optimise(parse(text.replace("FILL", "1.0")), check=verify)
    assert len(one.nodes) == 1
    two = optimise(parse(text.replace("FILL", "0.0")), check=verify)
    assert any(isinstance(n, View) for n in two.nodes)
    same(parse(text.replace("FILL", "0.0")), two, 1)


def test_a_producer_with_two_readers_is_not_computed_twice():
    graph = parse("""
graph "shared" {
  input "x" f32[8]
  value "e" f32[8] = compute "exp" of ["E"] over [8] read "x" [l0] expr (arg 0 : f32; exp 0 : f32)
  value "s" f32[] = compute "sum" of ["S"] over [] reduce sum over [8] read "e" [l0] expr (arg 0 : f32)
  value "y" f32[8] = compute "div" of ["D"] over [8] read "e" [l0] read "s" [] expr (arg 0 : f32; arg 1 : f32; div 0 1 : f32)
  output "y"
}""")
    assert [n.name for n in optimise(graph, check=verify).nodes] == ["exp", "sum", "div"]


def test_streams_stay_within_what_the_processor_has():
    lines = "\n".join(f'  input "x{i}" f32[8]' for i in range(9))
    previous = "x0"
    for i in range(1, 9):
        lines += (
            f'\n  value "s{i}" f32[8] = compute "add{i}" of ["A{i}"] over [8] read "{previous}" [l0] read "x{i}" [l0]'
            " expr (arg 0 : f32; arg 1 : f32; add 0 1 : f32)"
        )
        previous = f"s{i}"
    done = optimise(parse(f'graph "sum" {{\n{lines}\n  output "s8"\n}}'), check=verify)
    assert max(len(n.operands) for n in done.nodes) == 4
    assert len(done.nodes) == 3


@settings(max_examples=some(100))
@given(n=st.integers(1, 90), limit=st.integers(2, 20), seed=st.integers(0, 3))
def test_a_reduction_in_chunks_gives_the_same_bits(n, limit, seed):
    graph = parse(f"""
graph "mean" {{
  input "x" f32[3,{n}]
  input "b" f32[3]
  value "y" f32[3] = compute "mean" of ["M"] over [3] reduce sum over [{n}] read "x" [l0, l1] read "b" [l0]
    expr (arg 0 : f32; index 1 : i64; cast 1 : f32; mul 0 2 : f32) post (arg -1 : f32; arg 1 : f32; add 0 1 : f32)
  output "y"
}}""")
    done = verify(split_reductions(graph, limit))
    assert all(node.reduction <= limit for node in done.nodes if isinstance(node, Compute))
    feeds = feeds_for(graph, seed)
    assert run(done, feeds)["y"].tobytes() == run(graph, feeds)["y"].tobytes()


def test_a_fault_that_only_running_shows_is_not_folded_away():
    graph = parse("""
graph "fault" {
  const "d" f32[2] = [1.0, 2.0]
  const "i" i64[1] = [5]
  value "g" f32[1] = gather "g" of ["G"] over [1] read "d" [0] read "i" [l0]
  value "y" f32[1] = compute "neg" of ["N"] over [1] read "g" [l0] expr (arg 0 : f32; neg 0 : f32)
  output "y"
}""")
    assert len(verify(absorb(fold(graph))).nodes) == 2


def test_a_product_and_its_sum_are_one_step_of_two_operations():
    codes, number = arg(0, DType.U8), arg(1, DType.F32)
    read = Term("mul", (codes, const(0.5, DType.F32)), DType.F32)
    expr = expression((number * 3.0 + read).op("max", 0.0) + number * number)
    made = fused(expr)
    assert [s.op for s in made.steps if s.op not in FREE] == ["mul", "muladd", "max", "muladd"]
    assert made.arithmetic == expr.arithmetic


def test_what_arithmetic_widens_anyway_is_not_converted_before():
    half = arg(0, DType.F16)
    expr = expression((half.cast(DType.F32) * 0.5 + arg(1, DType.F32)).cast(DType.F16))
    assert [s.op for s in widened(expr).steps if s.op not in FREE] == ["mul", "add", "cast"]


@pytest.mark.parametrize(
    "term",
    [
        arg(0, DType.F16).cast(DType.F32).op("lt", arg(1, DType.F32)),  # compares numbers of one type
        arg(0, DType.F32).cast(DType.F16) + arg(1, DType.F16),  # loses digits
        arg(0, DType.F16).cast(DType.F32),
    ],
)
def test_other_conversions_stay(term):
    expr = expression(term)
    assert widened(expr) is expr


def test_a_product_that_is_read_twice_is_computed_once():
    product = arg(0, DType.F32) * arg(1, DType.F32)
    expr = expression((product + 1.0).op("max", product))
    assert fused(expr) is expr
