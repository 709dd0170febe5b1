"""A cheap map goes into both its readers, keeps every bit, and stays where that would cost more than it saves."""

import pytest

from compiler.ir.parse import parse
from compiler.ir.verifier import verify
from compiler.passes import again
from tests.compiler.passes.test_passes import same

HEAD = """graph "g" {
  input "x" f32[3,5]
  input "s" f32[3]
  value "m" f32[3,5] = compute "scale" of ["a"] over [3, 5] read "x" [l0, l1] read "s" [l0]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32)
"""
LARGEST = """  value "big" f32[5] = compute "largest" of ["b"] over [5] reduce max over [3] read "m" [l1, l0]
    expr (arg 0 : f32; abs 0 : f32)
"""
CODES = """  value "codes" i8[3,5] = compute "codes" of ["b"] over [3, 5] read "m" [l0, l1] read "big" [l1]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32; nearest 2 : i8)
"""
THIRD = """  value "y" f32[3,5] = compute "third" of ["c"] over [3, 5] read "m" [l0, l1] expr (arg 0 : f32; neg 0 : f32)
"""
PRODUCT = """  value "y" f32[3,3] = compute "product" of ["c"] over [3, 3] reduce sum over [5] read "m" [l0, l2] read "x" [l1, l2]
    expr (arg 0 : f32; arg 1 : f32; mul 0 1 : f32)
"""


def text(*parts, outputs):
    return "".join((HEAD, *parts, *(f'  output "{name}"\n' for name in outputs), "}\n"))


def test_a_scaled_value_is_not_stored_for_its_largest_element_and_its_codes():
    graph = parse(text(LARGEST, CODES, outputs=["codes"]), {})
    made = verify(again(graph))
    assert [n.output for n in made.nodes] == ["big", "codes"]
    assert [[o.value for o in n.operands] for n in made.nodes] == [["x", "s"], ["big", "x", "s"]]
    assert [n.source for n in made.nodes] == [("b",), ("b",)]  # what is billed to a reader stays the reader's
    for seed in range(5):
        same(graph, made, seed)


@pytest.mark.parametrize(
    ("parts", "outputs"),
    [
        ((LARGEST, CODES, THIRD), ["codes", "y"]),  # more readers than arithmetic should be repeated for
        ((LARGEST, CODES), ["codes", "m"]),  # stored anyway
        ((LARGEST, PRODUCT), ["big", "y"]),  # a plane takes factors as they lie
    ],
)
def test_a_value_that_must_be_stored_is_computed_once(parts, outputs):
    graph = parse(text(*parts, outputs=outputs), {})
    made = again(graph)
    assert made.nodes == graph.nodes
