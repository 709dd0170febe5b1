"""A deep sum for few rows is dealt over all planes, also where neighbouring columns then meet in a line."""

import numpy as np
import pytest

from compiler import targets
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from compiler.simulator import simulate

ROWS, TAPS, DEPTH, COLUMNS = 49, 9, 512, 512  # what comes in is read nine times, so the link is no limit
RNG = np.random.default_rng(3)
WEIGHTS = RNG.integers(-128, 128, (TAPS, DEPTH, COLUMNS), np.int8)
X = RNG.integers(0, 256, (ROWS, DEPTH), np.uint8)


def product(x_codes, weights):
    """A graph that sums the products of rows by every tap's weights, and its plan for the lowest latency."""
    (rows, depth), (taps, _, columns) = x_codes.shape, weights.shape
    b = Builder("product")
    x = b.input("x", TensorType(DType.U8, (rows, depth)))
    b.source = ("product",)
    w = b.constant(weights)
    factors = [
        Operand(x, Access((0, 0), ((1, 0, 0, 0), (0, 0, 0, 1)))),
        Operand(w, Access((0, 0, 0), ((0, 0, 1, 0), (0, 0, 0, 1), (0, 1, 0, 0)))),
    ]
    term = arg(0, DType.U8).widen("mul", arg(1, DType.I8), DType.I32)
    byte = arg(-1, DType.I32).cast(DType.U8)  # its lowest eight bits
    y = b.compute((rows, columns, taps, depth), factors, term, parallel=2, reducer="sum", post=byte)
    graph = b.finish({"y": y}, {}, {})
    return graph, build(graph, targets.load("lpu"), quiet, objective="latency")


@pytest.fixture(scope="module")
def planned():
    return product(X, WEIGHTS)


def test_every_plane_has_a_share(planned):
    _, plan = planned
    beats = [sum(t.beats for t in plan.tiles if t.unit == ("matrix", plane)) for plane in range(4)]
    assert min(beats) > 0.9 * max(beats)


def test_the_product_is_exact(planned):
    assert_exact(planned, X, WEIGHTS)


def assert_exact(planned, x, weights):
    graph, plan = planned
    binary = emit(plan, notes(plan, graph, {"latency": 0, "interval": 0}, "int8"))
    got = simulate(binary.to_bytes(), {"x": x})[0]["y"]
    assert np.array_equal(got, (x.astype(np.int32) @ weights.astype(np.int32).sum(axis=0)).astype(np.uint8))


@pytest.mark.parametrize(("rows", "columns"), [(8, 384), (16, 1536), (64, 1152)])
def test_few_rows_load_as_much_on_every_plane(rows, columns):
    """Products of few rows wait for weights: no plane has more of them to load than another."""
    x = RNG.integers(0, 256, (rows, 320), np.uint8)
    weights = RNG.integers(-128, 128, (TAPS, 320, columns), np.int8)
    graph, plan = product(x, weights)
    beats = [sum(t.beats for t in plan.tiles if t.unit == ("weights", plane)) for plane in range(4)]
    assert min(beats) > 0.9 * max(beats)
    assert_exact((graph, plan), x, weights)
