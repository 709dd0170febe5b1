"""Weights that step after step of a sequence wants are loaded once where the slots of all planes hold them."""

import numpy as np
import pytest

from compiler import targets
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build, tiled
from compiler.scheduling.dependences import dependencies
from compiler.scheduling.list_scheduling import Order
from compiler.simulator import simulate
from compiler.tiling.external import RESIDENT

DEPTH, STEPS = 320, 12
RNG = np.random.default_rng(5)


def sequences(count, columns):
    """Recurrences that run side by side: each multiplies its row by its own weights, which makes its next row."""
    b = Builder("sequences")
    ends = {}
    for n in range(count):
        row = b.input(f"x{n}", TensorType(DType.U8, (1, DEPTH)))
        weights = b.constant(RNG.integers(-128, 128, (columns, DEPTH), np.int8))
        for _ in range(STEPS):
            factors = [
                Operand(row, Access((0, 0), ((1, 0, 0), (0, 0, 1)))),
                Operand(weights, Access((0, 0), ((0, 1, 0), (0, 0, 1)))),
            ]
            term = arg(0, DType.U8).widen("mul", arg(1, DType.I8), DType.I32)
            byte = arg(-1, DType.I32).cast(DType.U8)
            wide = b.compute((1, columns, DEPTH), factors, term, parallel=2, reducer="sum", post=byte)
            low, high = (Operand(wide, Access((0, at), ((1, 0), (0, 1)))) for at in (0, columns - DEPTH))
            row = b.compute((1, DEPTH), [low, high], arg(0, DType.U8).op("max", arg(1, DType.U8)))
        ends[f"y{n}"] = row
    return b.finish(ends, {}, {})


def loads(graph):
    """How many weight tiles an inference loads that none overlaps."""
    made = tiled(graph, targets.load("lpu"), quiet, RESIDENT, objective="latency")
    tiler = made.tiler
    data = dependencies(tiler.tiles, tiler.layout.roots, tiler.chains)
    order = Order(tiler.tiles, data, tiler.chains, tiler.target, tiler.space)
    return sum(tile.unit[0] == "weights" for tile in order.single().tiles)


@pytest.mark.parametrize(("count", "columns", "tiles"), [(1, 320, 1), (2, 960, 6), (2, 1280, 8)])
def test_weights_that_fit_are_loaded_once(count, columns, tiles):
    assert loads(sequences(count, columns)) == tiles


def test_of_weights_that_do_not_fit_most_stay():
    assert 16 <= loads(sequences(4, 1280)) < 16 * STEPS // 2


def test_the_processor_finds_the_weights_that_stay():
    graph = sequences(2, 960)
    plan = build(graph, targets.load("lpu"), quiet, objective="latency")
    binary = emit(plan, notes(plan, graph, {"latency": 0, "interval": 0}, "int8"))
    feeds = {f"x{n}": RNG.integers(0, 256, (1, DEPTH), np.uint8) for n in range(2)}
    found, wanted = simulate(binary.to_bytes(), feeds)[0], run(graph, feeds)
    for name in graph.outputs:
        np.testing.assert_array_equal(found[name], wanted[name])
