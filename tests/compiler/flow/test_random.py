"""Random graphs with nested guards, merges and states: every way gives the interpreter's bits and keeps the bound."""

from itertools import product

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Guard, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.isa.binary import Binary
from compiler.passes import optimise
from compiler.reporting import resources_of
from compiler.scheduling.build import build
from compiler.simulator import simulate
from tests.compiler.checks import NO_BOUNDS, check_rows, same
from tests.tiers import some

SIDE = 6


class Maker:
    """Draws operations on square matrices; ``conditions`` are the inputs that decide."""

    def __init__(self, draw):
        self.draw, self.b, self.count = draw, Builder("random"), 0
        self.conditions = [self.b.input(f"c{i}", TensorType(DType.BOOL, ())) for i in range(draw(st.integers(1, 3)))]
        self.x = self.b.input("x", TensorType(DType.F32, (SIDE, SIDE)))
        self.b.source = ("start",)
        rng = np.random.default_rng(draw(st.integers(0, 99)))
        self.weights = self.b.constant(rng.standard_normal((SIDE, SIDE)).astype(np.float32))

    def step(self, values):
        self.count += 1
        self.b.source = (f"op{self.count}",)
        a, other = (self.draw(st.sampled_from(values)) for _ in range(2))
        same_place, kind = (
            Access.identity(2),
            self.draw(st.sampled_from(["map", "product", "weights", "turn", "sum", "join"])),
        )
        left, right = arg(0, DType.F32), arg(1, DType.F32)
        if kind == "map":
            return self.b.compute(
                (SIDE, SIDE), [Operand(a, same_place), Operand(other, same_place)], left - right * 0.5
            )
        if kind in ("product", "weights"):
            rows = [Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))]
            factors = [a, other if kind == "product" else self.weights]
            operands = [Operand(v, access) for v, access in zip(factors, rows, strict=True)]
            post = arg(-1, DType.F32) * 0.25
            return self.b.compute((SIDE,) * 3, operands, left * right, parallel=2, reducer="sum", post=post)
        if kind == "turn":
            return self.b.view(a, (SIDE, SIDE), Access((0, SIDE - 1), ((0, 1), (-1, 0))))
        if kind == "sum":
            reduced = self.b.compute((SIDE, SIDE), [Operand(a, same_place)], left, parallel=1, reducer="sum")
            wide = Operand(reduced, Access((0,), ((1, 0),)))
            return self.b.compute((SIDE, SIDE), [wide, Operand(other, same_place)], (left * 0.1).op("max", right))
        half = [Access((0, 0), ((1, 0), (0, 1))), Access((SIDE // 2, 0), ((1, 0), (0, 1)))]
        parts = [self.b.view(v, (SIDE // 2, SIDE), access) for v, access in zip((a, other), half, strict=True)]
        return self.b.join(parts, 0)

    def condition(self):
        """An input as a value of the branch that we are in."""
        value = self.draw(st.sampled_from(self.conditions))
        if self.b.guards.get(value) != self.b.guard or self.draw(st.booleans()):
            return self.b.keep(value)
        return value

    def block(self, values, depth):
        """Some steps and perhaps a branch; answers the values that can be read behind it."""
        values = list(values)
        for _ in range(self.draw(st.integers(1, 3))):
            if depth and self.draw(st.booleans()):
                values.append(self.branch(values, depth))
            else:
                values.append(self.step(values))
        return values

    def branch(self, values, depth):
        condition, outer = self.condition(), self.b.guard
        guards = Guard(condition), Guard(condition, holds=False)
        sides = []
        for guard in guards:
            self.b.guard = guard
            sides.append(self.draw(st.sampled_from(self.block(values, depth - 1)[-2:])))
        self.b.guard = outer
        self.count += 1
        self.b.source = (f"merge{self.count}",)
        if self.draw(st.booleans()):
            return self.b.merge(list(zip(guards, sides, strict=True)))
        return self.b.merge([(None, values[-1]), (guards[0], sides[0])])

    def finish(self):
        values = self.block([self.x], 2)
        outputs = {f"y{n}": v for n, v in enumerate(dict.fromkeys([values[-1], self.draw(st.sampled_from(values))]))}
        return self.b.finish(outputs, {}, {"opset": "0"})


@st.composite
def graphs(draw):
    return Maker(draw).finish()


def check(graph, name):
    target = targets.load(name)
    plan = build(graph, target, quiet)
    binary = emit(plan, notes(plan, graph, NO_BOUNDS, "float32"))
    resources = resources_of(binary, target)
    assert Binary.from_bytes(binary.to_bytes()) == binary
    assert resources.cycles == binary.latency
    check_rows(binary, target, resources)
    rng = np.random.default_rng(0)
    conditions = [n for n in graph.inputs if n != "x"]
    given_feeds = [
        {**{n: np.array(c) for n, c in zip(conditions, way, strict=True)}, "x": rng.random((SIDE, SIDE), np.float32)}
        for way in product([True, False], repeat=len(conditions))
    ]
    for feed in given_feeds:
        feed = {n: v for n, v in feed.items() if n in graph.inputs}
        want = run(graph, feed)
        outputs, counters = simulate(binary.to_bytes(), feed)
        assert all(same(outputs[key], want[key]) for key in want)
        assert counters.within(resources)
    outputs, counters = simulate(binary.to_bytes(), given_feeds)
    assert counters.within(resources)
    return [counters]


@settings(max_examples=some(4), suppress_health_check=list(HealthCheck), deadline=None)
@given(graphs(), st.sampled_from(["lpu", "lpu2"]))
def test_every_way_through_a_random_graph_is_executed_as_the_interpreter_says(graph, name):
    verify(graph)
    check(graph, name)
    check(optimise(graph, check=verify), name)
