"""Numbers of work: without names, and the same for the operations of repeated blocks."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.ir.graph import Compute
from compiler.ir.works import Works
from compiler.passes import optimise
from tests.compiler.graphs import graphs
from tests.compiler.passes.test_row_tiling import transformer
from tests.compiler.renaming import renamed
from tests.tiers import some


def numbers(graph):
    works = Works(graph)
    return [works.of(node) for node in graph.nodes]


@settings(max_examples=some(60), deadline=None)
@given(graph=graphs(), seed=st.integers(0, 1 << 30))
def test_names_do_not_change_a_number(graph, seed):
    assert numbers(renamed(graph, seed)[0]) == numbers(graph)


@settings(max_examples=some(60), deadline=None)
@given(graph=graphs())
def test_equal_numbers_are_equal_work(graph):
    works, known = Works(graph), {}
    for node in graph.nodes:
        first = known.setdefault(works.of(node), node)
        assert type(first) is type(node)
        assert graph.types[first.output] == graph.types[node.output]
        if isinstance(node, Compute):
            assert (first.loops, first.expr, first.post) == (node.loops, node.expr, node.post)
            assert [o.access for o in first.operands] == [o.access for o in node.operands]


def test_each_layer_of_a_transformer_is_the_same_work():
    few, many = (
        Counter(numbers(optimise(compiler.load(transformer(8, 2, 8, layers).SerializeToString())))) for layers in (3, 6)
    )
    assert few.keys() == many.keys()
    assert sum(many.values()) > sum(few.values())


def test_a_constant_in_the_place_of_an_input_is_other_work():
    graph = optimise(compiler.load(transformer(8, 2, 8, 1).SerializeToString()))
    products = [node for node in graph.nodes if isinstance(node, Compute) and node.is_contraction]
    works = Works(graph)
    constant = {works.of(n) for n in products if any(o.value in graph.constants for o in n.operands[:2])}
    both = {works.of(n) for n in products if not any(o.value in graph.constants for o in n.operands[:2])}
    assert constant
    assert both
    assert constant.isdisjoint(both)
