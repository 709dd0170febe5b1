"""The least cycles of one operation: for one element, and for a box of them, on the quickest unit that may do it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod

import numpy as np

from compiler.bounds.planes import Rough, inside
from compiler.bounds.shape import Box, read_operands
from compiler.bounds.work import Work, forms, on_vector, sums_decide, vector_lanes
from compiler.costs import alu_passes, epilogue_stages, has_plane_types, vector_stages
from compiler.ir import Compute, Gather, Graph, Node, Scatter, Sort
from compiler.isa import Machine
from compiler.isa.timing import ceil_div, tree_depth

BEFOREHAND = ("weights", "external")  # what may be done before an operation's inputs exist
ANYWHERE, ON_PLANES, ELSEWHERE = range(3)  # what is known of the unit of an operation
LATE = ("matrix", "vector", "weights")
SHARED = 4  # times the lanes: points of an instruction that are looked at one by one
SAME = 3  # terms that a tree adds in the same order as a chain

Usual = tuple[Rough, int] | tuple[int, int, int]  # beats, and loads beyond the slots; or a vector unit's


@dataclass
class Counted:
    """What has been counted of operations on one processor: by output and, where it matters, what is known of its unit."""

    forms: dict[tuple[str, Box], list[Work]] = field(default_factory=dict)
    bodies: dict[tuple[str, Box, int], int] = field(default_factory=dict)
    latencies: dict[tuple[str, int], int] = field(default_factory=dict)
    steps: dict[tuple[str, int], int] = field(default_factory=dict)
    usual: dict[tuple[str, int], Usual] = field(default_factory=dict)
    at_once: dict[str, bool] = field(default_factory=dict)


class Pace:
    """Least times of a graph's operations. ``planes``, ``elsewhere``: outputs of contractions that surely run on the planes,
    or surely do not; ``counted``: what has been counted before."""

    def __init__(
        self,
        graph: Graph,
        machine: Machine,
        planes: frozenset[str],
        elsewhere: frozenset[str],
        counted: Counted,
    ) -> None:
        self.graph, self.machine, self.planes, self.elsewhere = graph, machine, planes, elsewhere
        self._counted = counted
        self._kinds = dict.fromkeys(planes, ON_PLANES) | dict.fromkeys(elsewhere, ELSEWHERE)

    def kind(self, node: Node) -> int:
        """What is known of the unit of an operation."""
        return self._kinds.get(node.output, ANYWHERE)

    def contested(self, node: Node) -> bool:
        """Whether it is a contraction that may be on either kind of unit."""
        if not isinstance(node, Compute) or self.kind(node) != ANYWHERE or not self.machine.vector.instances:
            return False
        return has_plane_types(node, self.graph, self.machine)

    def is_name(self, node: Node) -> bool:
        """Whether the output may be the same memory as an input: no unit needs to touch it."""
        if isinstance(node, Compute):
            return node.reducer is None and node.post is None and node.expr.is_identity
        return not isinstance(node, Gather)

    def may_be_on_planes(self, node: Compute) -> bool:
        return node.output not in self.elsewhere and has_plane_types(node, self.graph, self.machine)

    def at_once(self, node: Compute) -> bool:
        """Whether planes take as many beats for all sums, if they begin when all terms of one are there: each fits into one
        beat, and a count by sums decides. A beat for a part of a sum then saves none: one more has to end that sum."""
        known = self._counted.at_once
        if node.output not in known:
            tile = self._tile(node)
            known[node.output] = node.reduction <= tile[0] and sums_decide(node, self.graph, tile)
        return known[node.output]

    def latency(self, node: Node) -> int:
        """Cycles between a beat and the moment its result can be read, on the quickest unit that can do it."""
        key = node.output, self.kind(node)
        if key not in self._counted.latencies:
            self._counted.latencies[key] = self._least_latency(node)
        return self._counted.latencies[key]

    def _least_latency(self, node: Node) -> int:
        if isinstance(node, Gather):
            return self.machine.move.latency
        if not isinstance(node, Compute) or self.is_name(node):
            return 0
        if node.output in self.planes:
            return self.machine.matrix.latency
        vector = self.machine.vector.latency + (0 if self._may_chain(node) else self._tree(node))
        return min(vector, self.machine.matrix.latency) if self.may_be_on_planes(node) else vector

    def _tree(self, node: Compute) -> int:
        """Levels in which a vector unit reduces all that an element is made of; at a border it may be less."""
        return 0 if node.reducer is None else tree_depth(self._uncut(node))

    def _uncut(self, node: Compute) -> int:
        """At least so many points of every window read data only: no instruction can leave them out."""
        outer, found = list(range(node.parallel)), node.reduction
        for operand in read_operands(node):
            if operand.fill is not None:
                lines = inside(operand, self.graph, node, outer)
                found -= node.reduction - min(lines, default=0) if lines else node.reduction
        return max(1, found)

    def _may_chain(self, node: Compute) -> bool:
        """Whether sums may be made one term after the other, with a lane for each, instead of in a tree: where that is what
        a contraction means, where the order does not matter, and where both have one order."""
        kind = self.graph.types[node.output].dtype
        steps = (*node.expr.steps, *(node.post.steps if node.post else ()))
        exact = not (kind.is_float or any(step.dtype.is_float for step in steps))
        return node.reducer == "sum" and (node.is_contraction or exact or node.reduction <= SAME)

    def _chained(self, node: Compute) -> int:
        """Cycles of a vector instruction that makes sums one term after the other."""
        body, post = vector_stages(node, self.machine)
        return node.reduction * body + post

    def step(self, node: Node, kind: int = ANYWHERE) -> int:
        """Cycles from the moment that an operand can be read to the moment that a result can; on that ``kind`` of unit."""
        key = node.output, kind or self.kind(node)
        if key not in self._counted.steps:
            self._counted.steps[key] = self._least_step(node, key[1])
        return self._counted.steps[key]

    def _least_step(self, node: Node, kind: int) -> int:
        if self.is_name(node) or isinstance(node, Scatter | Sort):
            return 0
        if not isinstance(node, Compute):
            return 1 + self.latency(node)
        ways = []
        if kind != ON_PLANES:
            ways.append(self._alone(node) + self.machine.vector.latency + self._tree(node))
            if self._may_chain(node) and not _cut(node):
                ways.append(self._chained(node) + self.machine.vector.latency)
        if kind != ELSEWHERE and has_plane_types(node, self.graph, self.machine):
            ways += self._behind_planes(node)
        return min(ways)

    def _alone(self, node: Compute) -> int:
        """Cycles in which a vector instruction takes one item: a map its steps; a reduction its own, or its share of an
        instruction over more points."""
        body, post = vector_stages(node, self.machine)
        if node.reducer is None:
            return body + post
        lanes = vector_lanes(node, self.graph, self.machine)
        return 1 if _cut(node) else _item(node.reduction, body, post, lanes, node.points)

    def _behind_planes(self, node: Compute) -> list[int]:
        """One row through a plane, with any part of the epilogue behind it and the rest on a vector unit."""
        matrix, vector, post = self.machine.matrix, self.machine.vector, alu_passes(node.post, self.machine)
        ways = []
        for behind in range(1, epilogue_stages(node.post, self.machine) + 1):
            rest = ceil_div(max(0, post - behind * matrix.alus), vector.alus)
            ways.append(behind + matrix.latency + (rest + vector.latency if rest else 0))
        return ways

    def body(self, node: Node, box: Box, known: int, kind: int = ANYWHERE) -> int:
        """Cycles until ``box`` outputs are complete, with all units of one kind (of that ``kind``) at work from now on;
        counted exactly only where it may be more than what is ``known`` to be needed."""
        kind = kind or self.kind(node)
        if isinstance(node, Compute) and box != node.loops[: node.parallel] and self._most(node, box, kind) <= known:
            return known
        key = (node.output, box, kind)
        if key not in self._counted.bodies:
            self._counted.bodies[key] = self._least_body(node, box, kind)
        return self._counted.bodies[key]

    def _least_body(self, node: Node, box: Box, kind: int) -> int:
        if not isinstance(node, Compute):
            return self._longest(forms(node, self.graph, self.machine, box)[0]) + self.latency(node)
        some = None if box == node.loops[: node.parallel] else box
        if kind == ELSEWHERE:
            return self._elsewhere(node, on_vector(node, self.graph, self.machine, some))
        found = self._counted.forms.get((node.output, box))
        if found is None:
            found = self._counted.forms[node.output, box] = forms(node, self.graph, self.machine, some)
        ways = [] if kind == ON_PLANES else [self._elsewhere(node, form) for form in found if "matrix" not in form]
        planes = [form for form in found if "matrix" in form]
        return min([*ways, *([self._together(node, planes)] if planes else [])])

    def _most(self, node: Compute, box: Box, kind: int = ANYWHERE) -> int:
        """Cycles that some form surely does not exceed: all on the planes, or what fills the lanes."""
        key = node.output, kind or self.kind(node)
        kept = self._counted.usual.get(key)
        if kept is None:
            kept = self._counted.usual[key] = self._usual(node, key[1])
        if len(kept) == 2:
            rough, late = kept
            return ceil_div(rough.beats(box), self.machine.matrix.instances) + self.machine.matrix.latency + late
        factor, divisor, latency = kept
        return ceil_div(prod(box) * factor, divisor) + latency

    def _usual(self, node: Compute, kind: int) -> Usual:
        """What the planes take; or the cycles of a point, how many points go together, and the latency."""
        vector = self.machine.vector
        if kind != ELSEWHERE and has_plane_types(node, self.graph, self.machine):
            stages = epilogue_stages(node.post, self.machine)
            most = max(self.graph.types[o.value].bytes for o in node.operands[:2])
            rate = self.machine.weights.bytes_per_cycle * max(1, self.machine.weights.instances)
            late = max(0, ceil(Fraction(most, rate) - self._held(node)) + 1)
            return Rough.of(node, self.graph, self._tile(node), stages), late
        body, post = vector_stages(node, self.machine)
        factor = node.reduction * body + post
        lanes = vector_lanes(node, self.graph, self.machine) * vector.instances
        return factor, max(1, lanes), vector.latency + self._tree(node)

    def _elsewhere(self, node: Compute, form: Work) -> int:
        cycles = self._longest(form)
        found = cycles + self._tree(node)
        if self._may_chain(node) and not _cut(node):
            found = min(found, max(cycles, self._chained(node)))
        return self.machine.vector.latency + found

    def _together(self, node: Compute, forms: Sequence[Work]) -> int:
        """On planes, where each part of the outputs may have another form: the planes' cycles, and those of the vector unit
        or of loads. What slots hold may be there beforehand; the rest of the weights follows, then a beat with the last."""
        machine = self.machine
        work = {u: [form.get(u, Fraction(0)) / max(1, machine.unit(u).instances) for form in forms] for u in LATE}
        late = [cycles - self._held(node) + 1 for cycles in work["weights"]]
        cycles = max(least_mixture(work["matrix"], work["vector"]), least_mixture(work["matrix"], late))
        behind = all(
            form.get("vector") for form in forms
        )  # of the last sum at least, and no sooner than the first is there
        return ceil(cycles) + machine.matrix.latency + (1 + machine.vector.latency if behind else 0)

    def _held(self, node: Compute) -> Fraction:
        """Cycles of all ports in which the planes' weight slots are filled."""
        matrix, weights = self.machine.matrix, self.machine.weights
        depth, width = self._tile(node)
        size = matrix.instances * matrix.slots * depth * width * self._size(node)
        return Fraction(size, weights.bytes_per_cycle * max(1, weights.instances))

    def _tile(self, node: Compute) -> tuple[int, int]:
        return self.machine.matrix.tiles[self.graph.types[node.operands[0].value].dtype.value]

    def _size(self, node: Compute) -> int:
        """Bytes of an element of the larger factor."""
        return max(self.graph.types[o.value].dtype.size for o in node.operands[:2])

    def _longest(self, form: Work) -> int:
        cycles = [w / self.machine.unit(u).instances for u, w in form.items() if u not in BEFOREHAND and w]
        return ceil(max(cycles, default=Fraction(0)))


def least_mixture(one: Sequence[Fraction], other: Sequence[Fraction]) -> Fraction:
    """The least that the larger of two sums of shares may be: a share of each form, together all."""
    best = min(map(max, one, other))
    for a, b in zip(one, other, strict=True):
        for c, d in zip(one, other, strict=True):
            if a < b and c > d:
                best = min(best, a + (c - a) * (b - a) / (b - a + c - d))
    return best


@lru_cache(maxsize=1 << 12)
def _item(reduction: int, body: int, post: int, lanes: int, points: int) -> int:
    """The fewest cycles in which an instruction takes one item of a tree's, over all numbers of points of an instruction:
    what is behind the reduction takes whole cycles, which all items of an instruction share."""
    group, most = max(1, lanes // reduction), min(points, SHARED * lanes)
    n = np.arange(1, most + 1, dtype=np.int64)
    beats = -(-n * reduction // lanes) * body + -(-n // lanes) * post
    least = int((-(-beats // -(-n // group))).min())
    if points > most:  # beats / items of longer ones, both without rounding against them
        beyond = Fraction((reduction * body + post) * most * group, lanes * (most + group))
        least = min(least, ceil(beyond))
    return max(1, least)


def _cut(node: Compute) -> bool:
    """Whether windows at a border may be shorter than the others."""
    return any(o.fill is not None for o in read_operands(node))
