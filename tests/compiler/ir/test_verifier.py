"""Every rule of the representation is enforced: each broken graph here breaks one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from compiler.ir.access import Access
from compiler.ir.expr import Step
from compiler.ir.graph import Compute
from compiler.ir.parse import parse
from compiler.ir.verifier import VerifyError, verify
from tests.compiler.graphs import graphs
from tests.tiers import some

GOOD = """
graph "g" {
  input "x" f32[2,3]
  const "w" f32[3,2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
  const "i" i64[1] = [1]
  value "y" f32[2,2] = compute "mm" of ["MatMul"] over [2, 2] reduce sum over [3]
      read "x" [l0, l2] read "w" [l2, l1]
      expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32) post (arg -1 : f32; const 0.0 : f32; max 0 1 : f32)
  value "t" f32[3,2] = view "tr" of ["T"] read "x" [l1, l0]
  value "p" f32[4,3] = view "pad" of ["P"] read "x" [l0 - 1, l1] fill 0.0
  value "f" f32[6] = reshape "flat" of ["R"] "x"
  value "g" f32[1,3] = gather "ga" of ["G"] over [1, 3] read "x" [0, l1] read "i" [l0] none
  value "j" f32[3,3] = join "jo" of ["J"] 0 "x" "g"
  output "y"
}
"""


def test_the_good_graph_is_good():
    verify(parse(GOOD))


@settings(max_examples=some(100))
@given(graph=graphs())
def test_what_the_builder_makes_is_good(graph):
    verify(graph)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"t" f32[3,2] = view', '"y" f32[3,2] = view', "again"),
        ('read "x" [l1, l0]', 'read "z" [l1, l0]', "before a definition"),
        ('read "x" [l1, l0]', 'read "x" [l1 + 1, l0]', "outside"),
        ('read "x" [l1, l0]', 'read "x" [l1]', "rank 1"),
        ("fill 0.0", "", "outside"),
        ("over [2, 2] reduce", "over [2, 3] reduce", "do not make"),
        ("reduce sum", "reduce any", "does not reduce"),
        ("mul 0 1 : f32", "mul 0 2 : f32", "later step"),
        ("mul 0 1 : f32", "mul 0 1 : i32", "lose digits"),
        ("arg 1 : f32", "arg 2 : f32", "reads operand 2"),
        ("arg 1 : f32", "arg 1 : f64", "as f64"),
        ("arg -1 : f32", "arg 0 : f32", "reads operand 0"),
        ("const 0.0 : f32; max", "index 2 : i64; max", "asks for loop 2"),
        ('"f" f32[6]', '"f" f32[5]', "a reshape"),
        ('read "i" [l0] none', 'read "i" [l0]', "for each dimension"),
        ('read "i" [l0] none', "none none none", "for each dimension"),
        ('0 "x" "g"', '2 "x" "g"', "axis 2"),
        ('0 "x" "g"', '0 "x"', "do not make"),
        ('0 "x" "g"', '1 "x" "g"', "joins"),
        ('output "y"', 'output "nobody"', "not defined"),
        ('of ["R"]', "of []", "no source"),
        ('view "tr"', 'view "mm"', "nodes of one name"),
    ],
)
def test_a_broken_graph_is_named(old, new, said):
    assert old in GOOD
    with pytest.raises(VerifyError, match=said):
        verify(parse(GOOD.replace(old, new, 1)))


def test_a_constant_must_be_what_its_type_says():
    graph = parse(GOOD)
    with pytest.raises(VerifyError, match="constant"):
        verify(replace(graph, constants={**graph.constants, "w": np.zeros((3, 2))}))


def test_an_access_must_use_the_loops_of_its_node():
    graph = parse(GOOD)
    node = graph.nodes[1]
    broken = replace(node, operand=replace(node.operand, access=Access((0, 0), ((1,), (1,)))))
    with pytest.raises(VerifyError, match="2 loops"):
        verify(graph.with_nodes((graph.nodes[0], broken, *graph.nodes[2:])))


def test_words_that_the_text_form_would_not_take_are_named():
    """The text form refuses an unknown reducer or operator itself; a pass could still make one."""
    graph = parse(GOOD)
    node = next(n for n in graph.nodes if isinstance(n, Compute) and n.reducer == "sum")
    steps = tuple(replace(step, op="fma") if step.op == "mul" else step for step in node.expr.steps)
    for broken, said in (
        (replace(node, reducer="mean"), "does not reduce"),
        (replace(node, expr=replace(node.expr, steps=steps)), "no scalar operator"),
    ):
        with pytest.raises(VerifyError, match=said):
            verify(graph.with_nodes(tuple(broken if n is node else n for n in graph.nodes)))


def test_a_literal_must_fit_its_type():
    graph = parse(GOOD)
    node = graph.nodes[0]
    steps = (
        Step("arg", (), node.expr.dtype, -1),
        Step("const", (), node.expr.dtype, None),
        Step("max", (0, 1), node.expr.dtype),
    )
    with pytest.raises(VerifyError, match="literal"):
        verify(graph.with_nodes((replace(node, post=type(node.expr)(steps)), *graph.nodes[1:])))
