"""Cycles of the latency by operation: those of the chain that really held up the end, whatever slack was made of."""

from collections import Counter
from copy import copy
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import Phase, assume, find, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.codegen import critical
from compiler.codegen.critical import critical_path
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.compiler.graphs import graphs
from tests.tiers import some

FILL, DEPTH = 6, 9  # latencies of loads and of products
SEEKING = settings(derandomize=True, database=None, max_examples=2000, phases=[Phase.generate])


class Sketch:
    """A plan made by hand: every tile begins as soon as it may. ``edges``: (before, tile, cycles from start to start)."""

    def __init__(self, operations):
        self.names = [f"op {n}" for n in range(operations)]
        self.tiles, self.start, self.edges, self.way = [], [], [], None
        self.needs = SimpleNamespace(data=[], anti_dependences=[])
        self.last, self.used = {}, {}

    @property
    def latency(self):
        return max(s + t.end for s, t in zip(self.start, self.tiles, strict=True))

    interval = latency  # inferences follow each other

    def add(self, source, unit, beats, latency, data, holds=(), slot=0):
        n = len(self.tiles)
        i = SimpleNamespace(source=source, slot=slot)
        self.tiles.append(SimpleNamespace(unit=unit, beats=beats, latency=latency, end=beats + latency, instruction=i))
        self.needs.data.append(dict(data))
        self.needs.anti_dependences.append(dict(holds))
        waits = [*dict(data).items(), *dict(holds).items()]
        if unit in self.last:
            waits.append((self.last[unit], self.tiles[self.last[unit]].beats))
        if unit[0] == "weights" and (unit[1], slot) in self.used:
            use = self.used[unit[1], slot]
            waits.append((use, self.tiles[use].beats - latency))
        if unit[0] == "matrix":
            self.used[unit[1], slot] = n
        self.last[unit] = n
        self.edges += [(b, n, lag) for b, lag in waits]
        self.start.append(max([0, *(self.start[b] + lag for b, lag in waits)]))
        return n

    def shifted(self, parts):
        """The same where loads and what is received come later, by parts (of 100) of the time that nobody waits for."""
        other = copy(self)
        other.start = list(self.start)
        for n in sorted(range(len(self.tiles)), key=lambda n: -self.start[n]):
            if self.tiles[n].unit[0] in critical.SUPPLIES:
                limits = [other.start[user] - lag for b, user, lag in self.edges if b == n]
                limits.append(self.latency - self.tiles[n].end)
                other.start[n] += (min(limits) - self.start[n]) * parts[n % len(parts)] // 100
        return other

    def running(self, source):
        """Cycles in which an operation's instructions are under way."""
        spans = ((s, s + t.end) for s, t in zip(self.start, self.tiles, strict=True) if t.instruction.source == source)
        return len({cycle for span in spans for cycle in range(*span)})


@st.composite
def sketches(draw):
    """What is received, then operations on two planes and a vector unit that use results of earlier ones."""
    count = draw(st.integers(2, 7))
    sketch = Sketch(count)
    made = [sketch.add(0, ("link_in", 0), draw(st.integers(1, 20)), 4, {}) for _ in range(draw(st.integers(1, 3)))]
    for source in range(1, count):
        plane, slot = draw(st.integers(0, 1)), draw(st.integers(0, 1))
        for _ in range(draw(st.integers(1, 3))):
            data = {
                b: draw(st.integers(1, sketch.tiles[b].end)) for b in draw(st.sets(st.sampled_from(made), max_size=2))
            }
            holds = {b: draw(st.integers(1, 3)) for b in draw(st.sets(st.sampled_from(made), max_size=1))}
            beats = draw(st.integers(1, 30))
            if draw(st.booleans()):
                load = sketch.add(source, ("weights", plane), draw(st.integers(1, 30)), FILL, {}, slot=slot)
                data[load] = sketch.tiles[load].end
                made.append(sketch.add(source, ("matrix", plane), beats, DEPTH, data, holds, slot))
            else:
                made.append(sketch.add(source, ("vector", 0), beats, 5, data, holds))
    return sketch


def exact(sketch, parts):
    """The shares make up the latency, and nobody has more than the cycles in which he works when nothing waits in vain. Where
    supplies come later than they could, all have the same."""
    shares = critical_path(sketch)
    assert sum(shares) == sketch.latency
    for source, share in enumerate(shares):
        assert 0 <= share <= sketch.running(source)
    assert critical_path(sketch.shifted(parts)) == shares


PARTS = st.lists(st.integers(0, 100), min_size=1, max_size=5)


@settings(max_examples=some(300))
@given(sketches(), PARTS)
def test_shares_are_cycles_of_work_and_slack_is_nobodys(sketch, parts):
    exact(sketch, parts)


def by_begin(plan, start, held, rule=critical._earliest):
    """Walks back from begin to begin: what was put off looks as if it could not have come earlier."""
    return rule(plan, start, start)


def without_slots(plan, start, held, rule=critical._earliest):
    other = copy(plan)
    alone = {n: SimpleNamespace(source=t.instruction.source, slot=n) for n, t in enumerate(plan.tiles)}
    other.tiles = [SimpleNamespace(**(vars(t) | {"instruction": alone[n]})) for n, t in enumerate(plan.tiles)]
    return rule(other, start, held)


def without_holds(plan, start, held, rule=critical._earliest):
    other = copy(plan)
    other.needs = SimpleNamespace(data=plan.needs.data, anti_dependences=[{} for _ in plan.tiles])
    return rule(other, start, held)


def without_data(plan, start, held, rule=critical._earliest):
    other = copy(plan)
    other.needs = SimpleNamespace(data=[{} for _ in plan.tiles], anti_dependences=plan.needs.anti_dependences)
    return rule(other, start, held)


@pytest.mark.parametrize("mutant", [by_begin, without_slots, without_holds, without_data])
def test_another_rule_is_found_out(mutant, monkeypatch):
    monkeypatch.setattr(critical, "_earliest", mutant)

    def caught(case):
        try:
            exact(*case)
        except AssertionError:
            return True
        return False

    find(st.tuples(sketches(), PARTS), caught, settings=SEEKING)


def test_a_load_just_in_time_leaves_its_slack_to_what_was_waited_for():
    sketch = Sketch(3)
    received = sketch.add(0, ("link_in", 0), 10, 4, {})
    slow = sketch.add(1, ("vector", 0), 200, 5, {received: 14})
    load = sketch.add(2, ("weights", 0), 8, FILL, {})
    sketch.add(2, ("matrix", 0), 1, DEPTH, {slow: 205, load: 14})
    late = sketch.shifted([100])
    assert late.start[load] == 205
    assert critical_path(sketch) == critical_path(late) == [14, 205, 10]


def test_what_another_inference_holds_up_is_the_waiting_operations_own():
    sketch = Sketch(5)
    received = sketch.add(0, ("link_in", 0), 10, 4, {})
    load = sketch.add(1, ("weights", 0), 7, FILL, {})
    first = sketch.add(1, ("matrix", 0), 50, DEPTH, {received: 14, load: 13})
    held = sketch.add(2, ("matrix", 0), 5, DEPTH, {first: 59})
    side = sketch.add(3, ("vector", 0), 50, 5, {first: 59})
    sketch.add(4, ("link_out", 0), 4, 4, {held: 14, side: 55})
    assert critical_path(sketch) == [14, 59, 0, 55, 8]
    sketch.start[held:] = (
        124,
        73,
        138,
    )  # 60 cycles later the next inference begins, whose first product takes the array at 74
    repeated = SimpleNamespace(**vars(sketch), latency=146, interval=60)
    assert critical_path(repeated) == [14, 59, 65, 0, 8]


# -- what the compiler makes ---------------------------------------------------------------------------------------------


def layers(count, rows, width, target, objective="latency"):
    """The plan of equal dense layers, one after the other."""
    b = Builder("layers")
    x = b.input("x", TensorType(DType.U8, (rows, width)))
    rng = np.random.default_rng(count)
    term = arg(0, DType.U8).widen("mul", arg(1, DType.I8), DType.I32)
    for n in range(count):
        b.source = (f"layer{n}",)
        w = b.constant(rng.integers(-9, 9, (width, width), np.int8))
        factors = [
            Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1)))),
            Operand(w, Access((0, 0), ((0, 0, 1), (0, 1, 0)))),
        ]
        byte = arg(-1, DType.I32).cast(DType.U8)
        x = b.compute((rows, width, width), factors, term, parallel=2, reducer="sum", post=byte)
    return build(b.finish({"y": x}, {}, {}), targets.load(target), quiet, objective=objective)


def by_layer(plan):
    """Shares of the layers, and whether each is made of as many instructions of each kind."""
    shares = critical_path(plan)
    assert sum(shares) == plan.latency
    rows = [n for n, node in enumerate(plan.nodes) if node is not None]
    kinds = [Counter(t.unit[0] for t in plan.tiles if t.instruction.source == row) for row in rows]
    return [shares[row] for row in rows], all(kind == kinds[0] for kind in kinds)


@pytest.mark.parametrize("target", ["lpu", "lpu2", "systolic", "edge"])
@settings(max_examples=some(8), deadline=None)
@given(count=st.integers(3, 7), rows=st.integers(1, 12), width=st.sampled_from([16, 64, 100, 320, 400]))
def test_no_layer_has_much_more_than_its_equals(target, count, rows, width):
    plan = layers(count, rows, width, target)
    shares, alike = by_layer(plan)
    assume(alike)
    loads = [t.end for t in plan.tiles if t.unit[0] == "weights"]
    assert max(shares) <= 1.5 * sum(shares) / count + sum(loads) / count  # the first ones wait for weights, too


@pytest.mark.parametrize(("rows", "width"), [(4, 50), (4, 64), (1, 320), (3, 200), (7, 300), (12, 100)])
@pytest.mark.parametrize("target", ["lpu", "lpu2"])
def test_layers_whose_weights_are_there_have_equal_shares(target, rows, width):
    shares, alike = by_layer(layers(7, rows, width, target))
    assert alike
    assert max(shares[1:]) - min(shares[1:]) <= 2  # but for the first, which waits for its weights or its input


def earlier(plan):
    """The same plan with every load where its port, its slot and what it reads allow."""
    other = copy(plan)
    other.start = list(plan.start)
    for unit in {t.unit for t in plan.tiles if t.unit[0] == "weights"}:
        loads = sorted((n for n, t in enumerate(plan.tiles) if t.unit == unit), key=lambda n: plan.start[n])
        for before, n in pairwise([-1, *loads]):
            tile = plan.tiles[n]
            waits = [0 if before < 0 else other.start[before] + plan.tiles[before].beats]
            waits += [plan.start[b] + lag for b, lag in (plan.needs.data[n] | plan.needs.anti_dependences[n]).items()]
            for b, t in enumerate(plan.tiles):
                same = t.unit == ("matrix", unit[1]) and t.instruction.slot == tile.instruction.slot
                if same and plan.start[b] < plan.start[n] + tile.latency:
                    waits.append(plan.start[b] + t.beats - tile.latency)
            other.start[n] = max(waits)
            assert other.start[n] <= plan.start[n]
    return other


@settings(max_examples=some(40), deadline=None)
@given(graph=graphs(), objective=st.sampled_from(["latency", "balanced", "interval"]))
def test_any_program_has_the_same_shares_wherever_its_loads_are(graph, objective):
    plan = build(graph, targets.load("lpu"), quiet, objective=objective)
    shares = critical_path(plan)
    assert sum(shares) == plan.latency
    assert min(shares) >= 0
    assert critical_path(earlier(plan)) == shares


@pytest.mark.parametrize("objective", ["latency", "balanced", "interval"])
def test_layers_have_the_same_shares_wherever_their_loads_are(objective):
    plan = layers(6, 7, 200, "lpu", objective)
    assert earlier(plan).start != plan.start
    assert critical_path(earlier(plan)) == critical_path(plan)
