"""The bounds of a graph on a processor: the interval, and the latency with its heads and tails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.bounds.barriers import Bodies, one_machine
from compiler.bounds.demand import Demands
from compiler.bounds.interval import PRICE, Prices, Table, best_prices, corner
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

    def on_planes_beyond(self, cycles: int) -> Problem:
        """The same for programs of fewer than ``cycles``: what would keep the vector units for as long runs on the planes."""
        most = cycles * self.machine.vector.instances
        work, planes = [], set()
        for node, found in zip(self.nodes, self.work, strict=True):
            kept = [form for form in found if "matrix" in form]
            if kept and all("matrix" in form or form["vector"] >= most for form in found):
                planes.add(node.output)
                work.append(kept)
            else:
                work.append(found)
        return Problem(self.graph, self.machine, self.ways, self.nodes, work, frozenset(planes))


def bounds(graph: Graph, machine: Machine) -> Bounds:
    """Bounds for a graph after the passes. Source: the one-machine head and tail bound, over unit classes.

    A contraction that would take T cycles on the vector units makes a program of T cycles at least, wherever it runs: so the
    smaller of T and of the bound of programs that have all of these on the planes is a bound too.
    """
    ways = Ways(graph)
    nodes = [n for n in graph.nodes if ways.demands.share(n.output) > 0]
    problem = Problem(graph, machine, ways, nodes, [_demanded(n, graph, machine, ways.demands) for n in nodes])
    interval, latency = (_beyond(problem, which) for which in (_interval, _latency))
    if interval[0] > latency[0]:
        latency = interval
    return Bounds(max(1, interval[0]), max(1, latency[0]), interval[1], latency[1])


def _beyond(problem: Problem, which: Callable[[Problem], Found]) -> Found:
    """A bound of all programs, and what it becomes when contractions that take too long elsewhere are on the planes."""
    best = which(problem)
    beyond = best[0]
    for _ in range(ROUNDS):
        beyond = max(2 * beyond, 1)
        narrower = problem.on_planes_beyond(beyond)
        if not narrower.planes:
            break
        found = which(narrower)
        best = max(best, (min(beyond, found[0]), found[1]), key=lambda f: f[0])
        if found[0] < beyond:
            break
    return best


def _interval(problem: Problem) -> Found:
    graph, machine = problem.graph, problem.machine
    table = Table.of(problem.work, machine)
    prices = best_prices(table) if problem.nodes else corner("matrix")
    steady = [
        (cycles, f"the {unit} port") for unit, cycles in (_links(graph, machine) | _overflow(graph, machine)).items()
    ]
    steady.append((table.bound(prices), _limit(prices)))
    if graph.states:
        times = Times(problem.ways, machine, problem.planes)
        steady.append((recurrence(graph, times), "a state that depends on itself"))
    return max(steady, key=lambda f: f[0])


def _demanded(node: Node, graph: Graph, machine: Machine, demands: Demands) -> list[Work]:
    """Forms of what is demanded of a node: all of it, or as many indices along each dimension, or else of one sum of the
    lot, as if the rest filled its passes."""
    box, share = demands.box(node.output), demands.share(node.output)
    if share == 1 or not isinstance(node, Compute):
        found = forms(node, graph, machine)
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
    table = Table.of(problem.work, machine)
    best = best_prices(table) if nodes else corner("matrix")
    bodies = Bodies.of(nodes, table, [p for p in _mixtures(best) if not any(p[i] for i in EARLY)])
    times = Times(problem.ways, machine, problem.planes, bodies)
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
    return max(found, key=lambda f: f[0])


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
