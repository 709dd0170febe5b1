"""The bounds of a graph on a processor: the interval, and the latency with its heads and tails."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from compiler.bounds.barriers import one_machine
from compiler.bounds.cases import least_interval, least_latency
from compiler.bounds.interval import PRICE, Prices, Table
from compiler.bounds.pace import Pace
from compiler.bounds.problem import EARLY, Found, Problem, mixtures
from compiler.bounds.recurrence import recurrence
from compiler.bounds.times import Times, transfer
from compiler.bounds.ways import Ways
from compiler.bounds.work import SCHEDULED, Work, forms, loaded_before, sparse
from compiler.ir import Compute, Graph, Node
from compiler.isa import LinkUnit, Machine
from compiler.isa.timing import ceil_div

Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Bounds:
    """Cycles that no legal program goes below, and in a few words what forces them."""

    interval: int
    latency: int
    interval_limit: str
    latency_limit: str


def bounds(graph: Graph, machine: Machine) -> Bounds:
    """Bounds for a graph after the passes. Source: the one-machine head and tail bound, over unit classes.

    Where contractions may be on the planes or on the vector units, the least over both cases is a bound of all programs
    that have each on one kind.
    """
    ways = Ways(graph)
    nodes = [n for n in graph.nodes if ways.demands.share(n.output) > 0]
    loaded = loaded_before(nodes, graph, machine)
    work = [_demanded(n, graph, machine, ways, loaded.get(n.output, ())) for n in nodes]
    problem = Problem(graph, machine, ways, nodes, work)
    interval, latency = least_interval(problem, _interval), least_latency(problem, _latency)
    if interval[0] > latency[0]:
        latency = interval
    return Bounds(max(1, interval[0]), max(1, latency[0]), interval[1], latency[1])


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
    return max(steady, key=lambda found: found[0])


def _demanded(node: Node, graph: Graph, machine: Machine, ways: Ways, loaded: Collection[int] = ()) -> list[Work]:
    """Forms of what is demanded of a node: all of it, or as many indices along each dimension, or else of one sum of the
    lot, as if the rest filled its passes."""
    box, share = ways.demands.box(node.output), ways.demands.share(node.output)
    if share == 1 or not isinstance(node, Compute):
        found = forms(node, graph, machine, None, loaded)
        ways.counted.forms[node.output, graph.types[node.output].shape] = found
        return found if share == 1 else [{unit: cycles * share for unit, cycles in form.items()} for form in found]
    if box is not None:
        return forms(node, graph, machine, box, loaded)
    return [{unit: cycles * share for unit, cycles in form.items()} for form in sparse(node, graph, machine, loaded)]


def _transfers(names: Iterable[str], graph: Graph, link: LinkUnit) -> list[int]:
    """Cycles of a link for each of several values."""
    return [transfer(graph.types[name].bytes, link) for name in names]


def _links(graph: Graph, machine: Machine) -> dict[str, int]:
    """Cycles of the links for the graph's inputs and outputs, each once."""
    found = {
        "link_in": _transfers(graph.inputs, graph, machine.link_in),
        "link_out": _transfers(graph.outputs, graph, machine.link_out),
    }
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
        loads = np.array([_loads_from(n, times) for n in nodes], dtype=np.int64)
        for prices in mixtures(best):
            heads = loads if any(prices[unit] for unit in EARLY) else starts
            found.append((_heads_and_tails(heads, tails, table, prices), _limit(prices)))
    return max(found, key=lambda found: found[0])


def _through_links(problem: Problem, times: Times) -> list[Found]:
    """What comes in and what follows its last element; what goes out behind the first that can."""
    graph, machine, demands = problem.graph, problem.machine, problem.ways.demands
    shares = [demands.share(name) for name in graph.inputs]  # what nobody asks for may come in last
    came = [
        int(cycles * share)
        for cycles, share in zip(_transfers(graph.inputs, graph, machine.link_in), shares, strict=True)
    ]
    into = [times.tail[name] if share else 0 for name, share in zip(graph.inputs, shares, strict=True)]
    out = [times.first[name] for name in graph.outputs]
    found = []
    went = _transfers(graph.outputs, graph, machine.link_out)
    for ends, unit, all_cycles in ((into, machine.link_in, came), (out, machine.link_out, went)):
        name = "link_in" if unit is machine.link_in else "link_out"
        for end in set(ends):
            beyond = [c - (unit.instances > 1) for c, e in zip(all_cycles, ends, strict=True) if e >= end]
            found.append((sum(beyond) + unit.latency + end, f"the {name} port"))
    return found


def _loads_from(node: Node, times: Times) -> int:
    """When a plane may have something to do for an operation, the load of either factor included."""
    if not isinstance(node, Compute) or not node.is_contraction:
        return times.start[node.output]
    return min(times.first[o.value] for o in node.operands[:2])


def _heads_and_tails(heads: Longs, tails: Longs, table: Table, prices: Prices) -> int:
    """The largest of head + work / units + tail over all sets of operations."""
    order = np.argsort(heads, kind="stable")
    works = table.paid(prices)[order].tolist()
    return one_machine(heads[order].tolist(), tails[order].tolist(), works, max(1, table.capacity(prices)))


def _limit(prices: Prices) -> str:
    """The units that the prices name, the dearest first."""
    named = sorted(((p, unit) for p, unit in zip(prices, SCHEDULED, strict=True) if p * 50 > PRICE), reverse=True)
    return " and ".join(unit for _, unit in named) + (" units" if named else "nothing")
