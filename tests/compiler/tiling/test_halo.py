"""Layers that follow an image do not wait for more of it than they need."""

import numpy as np
import pytest
from onnx import helper, numpy_helper

from compiler.ir.access import Access
from compiler.ir.graph import Operand
from compiler.isa.instruction import Op
from compiler.passes.legalise import legalise
from compiler.scheduling.dependences import dependencies
from compiler.tiling import layout
from compiler.tiling.halo import ahead
from compiler.tiling.lower import lower
from tests.compiler.checks import check_program
from tests.compiler.tiling.test_input_overlap import FAST, LPU, loaded

SIDE = 26  # pixels of a row
WIDTH = LPU.matrix.tiles["f32"][1]


def image(filters):
    """A small image, a layer that looks at pixels alone, and two that look at windows."""
    rng = np.random.default_rng(1)
    shapes = {"w1": (filters, 8, 1, 1), "w2": (filters, filters, 3, 3), "w3": (filters, filters, 3, 3)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", [a, w], [b], pads=[pad] * 4)
        for a, w, b, pad in [("x", "w1", "a", 0), ("a", "w2", "b", 1), ("b", "w3", "y", 1)]
    ]
    return loaded(nodes, weights, [1, 8, SIDE, SIDE], [1, filters, SIDE, SIDE])


@pytest.fixture(scope="module")
def lowered():
    """The tiler, and of tiles of weights and products the layer and the block of the image that they end in."""
    tiler, _, nodes = lower(legalise(image(32), LPU), LPU)
    layers = {node.output: number for number, node in enumerate(tiler.graph.nodes)}
    blocks = {}
    for n, tile in enumerate(tiler.tiles):
        i = tile.instruction
        if i.opcode in (Op.MATMUL, Op.LOADW):
            end = i.start3 + i.count3 if i.opcode == Op.MATMUL else i.start2 + i.count2
            output = nodes[i.source].output
            blocks[n] = layers[output], (end + tiler.layout.halos[output] - 1) // WIDTH
    return tiler, blocks


def test_blocks_end_earlier_by_what_windows_look_ahead(lowered):
    tiler, blocks = lowered
    halos = [tiler.layout.halos[node.output] for node in tiler.graph.nodes]
    assert halos == [0, SIDE + 1, 2 * (SIDE + 1)]
    for layer, lead in list(enumerate(halos))[1:]:
        products = [tiler.tiles[n].instruction for n, (of, _) in blocks.items() if of == layer]
        ends = {i.start3 + i.count3 for i in products if i.opcode == Op.MATMUL}
        assert min(ends) == WIDTH - lead
        assert len(ends) == -(-SIDE * SIDE // WIDTH)


def test_a_block_reads_no_later_block_of_the_layer_before(lowered):
    tiler, blocks = lowered
    data = dependencies(tiler.tiles, tiler.layout.roots, tiler.chains)
    pairs = {(blocks[n], blocks[b]) for n in blocks for b in data[n] if b in blocks and blocks[b][0] < blocks[n][0]}
    last = {(mine[1], other[1]) for mine, other in pairs if mine[0] == len(tiler.graph.nodes) - 1}
    assert {mine for mine, _ in last} == set(range(-(-SIDE * SIDE // WIDTH)))
    assert all(mine >= other for mine, other in last)


@pytest.mark.parametrize("pads", [(1, 1), (0, 2), (2, 0)])
def test_a_window_looks_ahead_by_its_last_row_and_pixel(pads):
    graph = image(32)
    node = graph.nodes[1]
    operand = node.operands[0] if node.operands[0].value not in graph.constants else node.operands[1]
    moved = tuple(o if j < 2 else -pads[0] for j, o in enumerate(operand.access.offset))
    found = ahead(Operand(operand.value, Access(moved, operand.access.matrix)), node, [2, 3], graph)
    assert found == max(0, (2 - pads[0]) * (SIDE + 1))


def test_rows_of_an_image_end_on_lines_while_it_comes_in():
    graph = legalise(image(128), LPU)
    row = 128 * SIDE * 4
    for target, pitch in ((LPU, -(-row // LPU.line_bytes) * LPU.line_bytes), (FAST, row)):
        strides = layout.assign(graph, target).places[graph.nodes[0].output].strides
        assert strides[1:] == (4, pitch, 128 * 4)


def test_results_are_the_graphs():
    x = np.random.default_rng(2).standard_normal((1, 8, SIDE, SIDE)).astype(np.float32)
    check_program(image(32), "lpu", [{"x": x}], objective="latency")
