"""What is to be bounded: the demanded operations of a graph on a processor, and what is known of where they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf

from compiler.bounds.barriers import Bodies
from compiler.bounds.interval import PRICE, Prices, Table, best_prices, corner
from compiler.bounds.times import Times
from compiler.bounds.ways import Ways
from compiler.bounds.work import SCHEDULED, Work
from compiler.ir import Graph, Node
from compiler.isa import Machine

WEIGHTS = SCHEDULED.index("weights")
EARLY = (WEIGHTS, SCHEDULED.index("external"))  # what may be done before an operation's inputs exist

Found = tuple[int, str]  # cycles, and in a few words what forces them


@dataclass(frozen=True)
class Problem:
    """What is demanded of a graph: nodes, the forms of each, and which of those that could be on the planes surely are."""

    graph: Graph
    machine: Machine
    ways: Ways
    nodes: list[Node]
    work: list[list[Work]]
    planes: frozenset[str] = frozenset()
    elsewhere: frozenset[str] = frozenset()  # contractions that surely are on the vector units
    less: Problem | None = None  # the same of which less is known

    @cached_property
    def table(self) -> Table:
        """What the forms cost."""
        return Table.of(self.work, self.machine)

    @cached_property
    def prices(self) -> Prices:
        """Prices with a large bound of the interval."""
        return best_prices(self.table) if self.nodes else corner("matrix")

    @cached_property
    def times(self) -> Times:
        """Heads and tails."""
        late = [p for p in mixtures(self.prices) if not any(p[i] for i in EARLY)]
        like = None if self.less is None else self.less.times
        return Times(
            self.ways,
            self.machine,
            self.planes,
            self.elsewhere,
            Bodies.of(self.nodes, self.table, late),
            like,
        )

    def on_planes_beyond(self, cycles: int) -> Problem:
        """The same for programs of fewer than ``cycles``: what would keep the vector units for as long runs on the planes."""
        most = cycles * self.machine.vector.instances
        slow = [n.output for n, found in zip(self.nodes, self.work, strict=True) if least_elsewhere(found) >= most]
        return self.on(frozenset(slow))

    def on(self, planes: frozenset[str], elsewhere: frozenset[str] = frozenset()) -> Problem:
        """The same for programs that have these, too, on the planes, and those on the vector units."""
        work = []
        for node, found in zip(self.nodes, self.work, strict=True):
            kept = found
            if node.output in planes:
                kept = [form for form in found if "matrix" in form]
            elif node.output in elsewhere:
                kept = [form for form in found if "matrix" not in form]
            work.append(kept)
        return replace(self, work=work, planes=self.planes | planes, elsewhere=self.elsewhere | elsewhere, less=self)

    @cached_property
    def contested(self) -> dict[str, Fraction | float]:
        """Contractions that may be on the planes and are not known to be, and the cycles for which they would keep a vector
        unit; without end where only planes can do it."""
        return {
            n.output: least_elsewhere(found)
            for n, found in zip(self.nodes, self.work, strict=True)
            if n.output not in self.planes and any("matrix" in form for form in found)
        }

    def elsewhere_takes(self, name: str) -> float:
        """A bound of programs that have this contraction, too, on the vector units: its head, its work there, its tail."""
        vector, times, cycles = self.machine.vector, self.times, self.contested[name]
        if cycles == inf:
            return inf
        start = max(times.start[name], times.of_one(self.ways.makers[name]))
        return start + int(cycles / vector.instances) + vector.latency + times.tail[name]


def least_elsewhere(found: Sequence[Work]) -> Fraction | float:
    """Cycles of a vector unit for a contraction; without end where only planes can do it; none where planes cannot."""
    if not any("matrix" in form for form in found):
        return -1
    return min((form["vector"] for form in found if "matrix" not in form), default=inf)


def mixtures(best: Prices) -> list[Prices]:
    """Prices at which the subsets are tried: the best of the whole, each unit alone, planes with some vector unit."""
    shares = [{"matrix": PRICE, "vector": PRICE >> shift} for shift in range(1, 7)]
    return [best, *(corner(unit) for unit in SCHEDULED), *(tuple(s.get(u, 0) for u in SCHEDULED) for s in shares)]
