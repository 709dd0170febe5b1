"""The bounds of a graph on a processor: the interval, and the latency with its heads and tails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import inf

import numpy as np

from compiler.bounds.barriers import Bodies, one_machine
from compiler.bounds.interval import PRICE, SCALE, Prices, Table, best_prices, corner
from compiler.bounds.pace import Pace
from compiler.bounds.recurrence import recurrence
from compiler.bounds.times import Times
from compiler.bounds.ways import Ways
from compiler.bounds.work import SCHEDULED, Work, forms, sparse
from compiler.ir.graph import Compute, Graph, Node
from compiler.isa.machine import LinkUnit, Machine
from compiler.isa.timing import ceil_div

WEIGHTS = SCHEDULED.index("weights")
EARLY = (WEIGHTS, SCHEDULED.index("external"))  # what may be done before an operation's inputs exist
ROUNDS = 5  # of doubling what a contraction would have to take elsewhere than on the planes
CASES = 300  # operations of all the cases that are looked at, if they promise more than one part in WORTH
WORTH = 50

Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
Found = tuple[int, str]  # cycles, and in a few words what forces them


@dataclass(frozen=True)
class Bounds:
    """Cycles that no legal program goes below, and in a few words what forces them."""

    interval: int
    latency: int
    interval_limit: str
    latency_limit: str


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
        mixtures = [p for p in _mixtures(self.prices) if not any(p[i] for i in EARLY)]
        like = None if self.less is None else self.less.times
        return Times(
            self.ways,
            self.machine,
            self.planes,
            self.elsewhere,
            Bodies.of(self.nodes, self.table, mixtures),
            like,
        )

    def on_planes_beyond(self, cycles: int) -> Problem:
        """The same for programs of fewer than ``cycles``: what would keep the vector units for as long runs on the planes."""
        most = cycles * self.machine.vector.instances
        slow = [n.output for n, found in zip(self.nodes, self.work, strict=True) if _least_elsewhere(found) >= most]
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

    def either(self, least: int) -> list[str]:
        """Contractions that may be on either kind of unit and keep a vector unit for so many cycles: the longest first."""
        both = [
            (_least_elsewhere(found), n.output)
            for n, found in zip(self.nodes, self.work, strict=True)
            if n.output not in self.planes and any("matrix" in form for form in found)
        ]
        return [name for cycles, name in sorted(both, reverse=True) if least <= cycles < inf]


def _least_elsewhere(found: Sequence[Work]) -> Fraction | float:
    """Cycles of a vector unit for a contraction; without end where only planes can do it; none where planes cannot."""
    if not any("matrix" in form for form in found):
        return -1
    return min((form["vector"] for form in found if "matrix" not in form), default=inf)


def bounds(graph: Graph, machine: Machine) -> Bounds:
    """Bounds for a graph after the passes. Source: the one-machine head and tail bound, over unit classes.

    Where contractions may be on the planes or on the vector units, the least over both cases is a bound of all programs
    that have each on one kind.
    """
    ways = Ways(graph)
    nodes = [n for n in graph.nodes if ways.demands.share(n.output) > 0]
    problem = Problem(graph, machine, ways, nodes, [_demanded(n, graph, machine, ways) for n in nodes])
    interval, latency = (_beyond(problem, which) for which in (_interval, _latency))
    if interval[0] > latency[0]:
        latency = interval
    return Bounds(max(1, interval[0]), max(1, latency[0]), interval[1], latency[1])


def _beyond(problem: Problem, which: Callable[[Problem], Found]) -> Found:
    """A bound of all programs, and what it becomes when contractions that take too long elsewhere are on the planes."""
    best, narrow = which(problem), problem
    beyond, limit = 0, inf
    for _ in range(ROUNDS):
        beyond = max(2 * max(beyond, best[0]), 1)
        narrower = problem.on_planes_beyond(beyond)
        if not narrower.planes:
            break
        found, narrow, limit = which(narrower), narrower, beyond
        best = max(best, (min(beyond, found[0]), found[1]), key=_cycles)
        if found[0] < beyond:
            break
    if which is not _latency:
        return best
    found = _case_by_case(narrow, best)
    return max(best, (int(min(limit, found[0])), found[1]), key=_cycles)


def _case_by_case(problem: Problem, best: Found) -> Found:
    """Of contractions that may be anywhere either all are on the planes or some one is not: the least of these."""
    some = problem.either(problem.machine.matrix.latency)
    together = _latency(problem.on(frozenset(some))) if some else best
    if together[0] < best[0] + best[0] // WORTH:
        return best
    doubtful = [name for name, cycles in _forced(problem, some).items() if cycles < together[0]]
    looked_at = doubtful[: CASES // max(1, len(problem.nodes))]
    alone = {name: _latency(problem.on(frozenset(), frozenset([name]))) for name in looked_at}
    left = {name for name in doubtful if 2 * alone.get(name, best)[0] <= best[0] + together[0]}  # where they may be
    if left:
        together = _latency(problem.on(frozenset(some) - left))
    return min([together, *(alone[name] for name in looked_at if name not in left)], key=_cycles)


def _forced(problem: Problem, names: Sequence[str]) -> dict[str, int]:
    """The interval's bound if one of these is on the vector units."""
    table = problem.table
    place = {node.output: i for i, node in enumerate(problem.nodes)}
    found = dict.fromkeys(names, 0)
    for prices in _mixtures(problem.prices):
        paid, capacity = table.paid(prices), max(1, table.capacity(prices))
        total, vector = int(paid.sum()), prices[SCHEDULED.index("vector")]
        for name in names:
            i = place[name]
            own = int(SCALE * _least_elsewhere(problem.work[i])) * vector
            found[name] = max(found[name], (total - int(paid[i]) + own) // capacity)
    return found


def _cycles(found: Found) -> int:
    return found[0]


def _interval(problem: Problem) -> Found:
    graph, machine = problem.graph, problem.machine
    table, prices = problem.table, problem.prices
    steady = [
        (cycles, f"the {unit} port") for unit, cycles in (_links(graph, machine) | _overflow(graph, machine)).items()
    ]
    steady.append((table.bound(prices), _limit(prices)))
    if graph.states:
        pace = Pace(graph, machine, problem.planes, frozenset(), problem.ways.counted)
        steady.append((recurrence(graph, problem.ways, pace), "a state that depends on itself"))
    return max(steady, key=_cycles)


def _demanded(node: Node, graph: Graph, machine: Machine, ways: Ways) -> list[Work]:
    """Forms of what is demanded of a node: all of it, or as many indices along each dimension, or else of one sum of the
    lot, as if the rest filled its passes."""
    box, share = ways.demands.box(node.output), ways.demands.share(node.output)
    if share == 1 or not isinstance(node, Compute):
        found = forms(node, graph, machine)
        ways.counted.forms[node.output, graph.types[node.output].shape] = found
        return found if share == 1 else [{unit: cycles * share for unit, cycles in form.items()} for form in found]
    if box is not None:
        return forms(node, graph, machine, box)
    return [{unit: cycles * share for unit, cycles in form.items()} for form in sparse(node, graph, machine)]


def _in(graph: Graph, machine: Machine) -> list[int]:
    return [_transfer(graph.types[name].bytes, machine.link_in) for name in graph.inputs]


def _out(graph: Graph, machine: Machine) -> list[int]:
    return [_transfer(graph.types[name].bytes, machine.link_out) for name in graph.outputs]


def _transfer(size: int, link: LinkUnit) -> int:
    """Cycles of a link for a tensor; an instruction carries a part of one."""
    return ceil_div(size, link.bytes_per_cycle * link.instances)


def _links(graph: Graph, machine: Machine) -> dict[str, int]:
    """Cycles of the links for the graph's inputs and outputs, each once."""
    found = {"link_in": _in(graph, machine), "link_out": _out(graph, machine)}
    several = {unit: machine.unit(unit).instances > 1 for unit in found}  # then the last parts of two may go together
    return {unit: sum(cycles) - (len(cycles) if several[unit] else 0) for unit, cycles in found.items()}


def _overflow(graph: Graph, machine: Machine) -> dict[str, int]:
    """Cycles of the external port for factors of contractions that no on-chip memory could hold together."""
    if not machine.external.instances:
        return {}
    factors = {o.value for n in graph.nodes if isinstance(n, Compute) and n.is_contraction for o in n.operands[:2]}
    size = sum(graph.types[name].bytes for name in factors & set(graph.constants))
    rate = machine.external.bytes_per_cycle * machine.external.instances
    return {"external": ceil_div(max(0, size - machine.memory_bytes), rate)}


def _latency(problem: Problem) -> Found:
    graph, machine, nodes = problem.graph, problem.machine, problem.nodes
    table, best = problem.table, problem.prices
    times = problem.times
    found = [(0, "nothing to do"), *_through_links(problem, times)]
    for name in graph.outputs:
        whole = times.ready(name, graph.types[name].shape)
        found.append((whole + 1 + machine.link_out.latency, "the longest chain of operations"))
    if nodes:
        tails = np.array([times.tail[n.output] + times.pace.latency(n) for n in nodes], dtype=np.int64)
        starts = np.array([times.start[n.output] for n in nodes], dtype=np.int64)
        early = np.array([_loads_early(n, graph) for n in nodes])
        for prices in _mixtures(best):
            heads = np.where(early, 0, starts) if prices[WEIGHTS] else starts
            found.append((_heads_and_tails(heads, tails, table, prices), _limit(prices)))
    return max(found, key=_cycles)


def _through_links(problem: Problem, times: Times) -> list[Found]:
    """What comes in and what follows its last element; what goes out behind the first that can."""
    graph, machine, demands = problem.graph, problem.machine, problem.ways.demands
    shares = [demands.share(name) for name in graph.inputs]  # what nobody asks for may come in last
    came = [int(cycles * share) for cycles, share in zip(_in(graph, machine), shares, strict=True)]
    into = [times.tail[name] if share else 0 for name, share in zip(graph.inputs, shares, strict=True)]
    out = [times.first[name] for name in graph.outputs]
    found = []
    for ends, unit, all_cycles in ((into, machine.link_in, came), (out, machine.link_out, _out(graph, machine))):
        name = "link_in" if unit is machine.link_in else "link_out"
        for end in set(ends):
            beyond = [c - (unit.instances > 1) for c, e in zip(all_cycles, ends, strict=True) if e >= end]
            found.append((sum(beyond) + unit.latency + end, f"the {name} port"))
    return found


def _loads_early(node: Node, graph: Graph) -> bool:
    """Whether a plane's weights can be loaded before the operation's inputs exist."""
    return isinstance(node, Compute) and any(o.value in graph.constants for o in node.operands)


def _mixtures(best: Prices) -> list[Prices]:
    """Prices at which the subsets are tried: the best of the whole, each unit alone, planes with some vector unit."""
    shares = [{"matrix": PRICE, "vector": PRICE >> shift} for shift in range(1, 7)]
    return [best, *(corner(unit) for unit in SCHEDULED), *(tuple(s.get(u, 0) for u in SCHEDULED) for s in shares)]


def _heads_and_tails(heads: Longs, tails: Longs, table: Table, prices: Prices) -> int:
    """The largest of head + work / units + tail over all sets of operations."""
    order = np.argsort(heads, kind="stable")
    works = table.paid(prices)[order].tolist()
    return one_machine(heads[order].tolist(), tails[order].tolist(), works, max(1, table.capacity(prices)))


def _limit(prices: Prices) -> str:
    """The units that the prices name, the dearest first."""
    named = sorted(((p, unit) for p, unit in zip(prices, SCHEDULED, strict=True) if p * 50 > PRICE), reverse=True)
    return " and ".join(unit for _, unit in named) + (" units" if named else "nothing")
