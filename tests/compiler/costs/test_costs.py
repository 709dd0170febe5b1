"""Shapes and cycles of operations: what each loop of a contraction does, and formulas that agree with the instruction table."""

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler import targets
from compiler.costs import contraction, cycles
from compiler.costs.contraction import BLOCKS, blocks_that_fit, fits_planes, product_shape, products_per_pass
from compiler.driver import quiet
from compiler.ir.types import DType, TensorType
from compiler.isa.instruction import Op
from compiler.scheduling.build import build
from tests.compiler.bounds.test_bounds import product
from tests.compiler.graphs import graphs
from tests.compiler.tiling.test_shared_passes import dense, grouped, heads

LPU = targets.load("lpu")
SIZE = st.integers(1, 400)


def contractions(graph):
    return [node for node in graph.nodes if fits_planes(node, graph, LPU)]


def test_either_factor_of_a_product_may_be_stationary():
    (node,) = product(5, 7, 11).nodes
    assert product_shape(node, stationary=1) == (1, 5, 11, 7)
    assert product_shape(node, stationary=0) == (1, 11, 5, 7)
    assert product_shape(node, stationary=1, lengths=(2, 3)) == (1, 2, 3, 7)


def test_a_loop_that_both_factors_use_is_a_batch():
    (node,) = heads(3, 4, 5, 6).nodes
    assert product_shape(node, stationary=1) == (3, 4, 5, 6)
    r = contraction.roles(node, stationary=1)
    assert (r.batch, r.rows, r.columns, r.inner) == ([0], [1], [2], [3])


@given(graph=graphs(max_nodes=6))
def test_the_sizes_of_a_contraction_make_up_its_work(graph):
    for node in contractions(graph):
        for stationary in (0, 1):
            assert prod(product_shape(node, stationary)) == node.points * node.reduction


@given(products=SIZE, depth=SIZE, columns=SIZE, tile=st.tuples(SIZE, SIZE))
def test_products_that_share_a_pass_fit_and_need_no_pass_more(products, depth, columns, tile):
    together, most = products_per_pass(products, depth, columns, tile), blocks_that_fit(depth, columns, tile)
    assert 1 <= together <= max(1, min(products, BLOCKS))
    if together > 1:
        assert together * depth <= tile[0]
        assert together * columns <= tile[1]
        assert -(-products // together) == -(-products // most)


def test_an_eight_byte_sum_does_not_fit_the_planes():
    kept, wide = product(5, 7, 11), product(5, 7, 11)
    (node,) = wide.nodes
    assert fits_planes(kept.nodes[0], kept, LPU)
    wide.types[node.operands[0].value] = TensorType(DType.F64, (5, 7))
    assert not fits_planes(node, wide, LPU)


@pytest.mark.parametrize("graph", [dense(64, 300, 48, (DType.F32, DType.F32)), product(64, 320, 320)])
def test_an_estimate_of_the_planes_counts_the_rows_that_pass_every_tile(graph):
    (node,) = contractions(graph)
    plan = build(graph, LPU, quiet)
    rows = sum(t.instruction.count1 for t in plan.tiles if t.instruction.opcode == Op.MATMUL)
    found = [cycles.plane_cycles(node, stationary, LPU, shared=False) for stationary in (0, 1)]
    assert rows in found


def test_groups_that_share_passes_take_fewer_cycles_of_the_planes():
    graph = grouped(32, 4, 4, 8, DType.F16, DType.F16)
    (node,) = contractions(graph)
    alone, shared = (cycles.plane_cycles(node, 1, LPU, shared=shared) for shared in (False, True))
    assert shared < alone
    assert alone % shared == 0


def test_links_count_the_direction_that_has_more_to_carry():
    graph = product(64, 16, 320)
    assert cycles.link_cycles(graph, LPU) == -(-64 * 320 * 4 // (LPU.link_out.bytes_per_cycle * LPU.link_out.instances))
    assert cycles.input_cycles(graph, LPU) == 64 * 16 * 4 // LPU.link_in.bytes_per_cycle


@given(graph=graphs(max_nodes=6))
def test_the_cycles_of_a_vector_unit_are_at_least_its_stages(graph):
    for node in graph.nodes:
        if hasattr(node, "expr") and node.points:
            body, post = cycles.vector_stages(node, LPU)
            assert body >= 1
            assert cycles.vector_cycles(node, LPU) >= -(-node.points * node.reduction // LPU.vector.lanes)
            assert (post == 0) == (cycles.alu_passes(node.post, LPU) == 0)
