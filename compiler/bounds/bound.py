"""The bounds of a graph on a processor: the interval, and the latency with its heads and tails."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from compiler.bounds.demand import demands
from compiler.bounds.interval import PRICE, Prices, Table, best_prices, corner
from compiler.bounds.times import Times
from compiler.bounds.work import SCHEDULED, Work, forms
from compiler.ir.graph import Compute, Graph, Node
from compiler.isa.machine import Machine
from compiler.isa.timing import ceil_div

WEIGHTS = SCHEDULED.index("weights")

Longs = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@dataclass(frozen=True)
class Bounds:
    """Cycles that no legal program goes below, and in a few words what forces them."""

    interval: int
    latency: int
    interval_limit: str
    latency_limit: str


def bounds(graph: Graph, machine: Machine) -> Bounds:
    """Bounds for a graph after the passes. Source: the one-machine head and tail bound, over unit classes."""
    needed = demands(graph)
    nodes = [n for n in graph.nodes if needed[n.output] > 0]
    work = [[_scaled(form, needed[n.output]) for form in forms(n, graph, machine)] for n in nodes]
    table = Table.of(work, machine)
    links = _links(graph, machine) | _overflow(graph, machine)
    candidates = [(cycles, f"the {unit} port") for unit, cycles in links.items()]
    prices = best_prices(table) if nodes else corner("matrix")
    candidates.append((table.bound(prices), _limit(prices)))
    interval, interval_limit = max(candidates, key=lambda c: c[0])
    latency, latency_limit = _latency(graph, machine, nodes, table, prices)
    if interval > latency:
        latency, latency_limit = interval, interval_limit
    return Bounds(max(1, interval), max(1, latency), interval_limit, latency_limit)


def _scaled(form: Work, share: Fraction) -> Work:
    """What is not demanded need not be computed; the rest may fit its passes better, so it counts in proportion."""
    return form if share == 1 else {unit: cycles * share for unit, cycles in form.items()}


def _links(graph: Graph, machine: Machine) -> dict[str, int]:
    """Cycles of the links for the graph's inputs and outputs, each once."""
    sizes = {
        "link_in": sum(graph.types[name].bytes for name in graph.inputs),
        "link_out": sum(graph.types[name].bytes for name in graph.outputs),
    }
    rates = {"link_in": machine.link_in, "link_out": machine.link_out}
    return {unit: ceil_div(size, rates[unit].bytes_per_cycle * rates[unit].instances) for unit, size in sizes.items()}


def _overflow(graph: Graph, machine: Machine) -> dict[str, int]:
    """Cycles of the external port for factors of contractions that no on-chip memory could hold together."""
    if not machine.external.instances:
        return {}
    factors = {o.value for n in graph.nodes if isinstance(n, Compute) and n.is_contraction for o in n.operands[:2]}
    size = sum(graph.types[name].bytes for name in factors & set(graph.constants))
    rate = machine.external.bytes_per_cycle * machine.external.instances
    return {"external": ceil_div(max(0, size - machine.memory_bytes), rate)}


def _latency(graph: Graph, machine: Machine, nodes: list[Node], table: Table, best: Prices) -> tuple[int, str]:
    times = Times(graph, machine)
    found = [(0, "nothing to do")]
    for name in graph.outputs:
        whole = times.ready(name, graph.types[name].shape)
        found.append((whole + 1 + machine.link_out.latency, "the longest chain of operations"))
        sent = ceil_div(graph.types[name].bytes, machine.link_out.bytes_per_cycle * machine.link_out.instances)
        found.append((times.first[name] + sent + machine.link_out.latency, "the link_out port"))
    if nodes:
        tails = np.array([_tail(times, n) for n in nodes], dtype=np.int64)
        starts = np.array([times.start[n.output] for n in nodes], dtype=np.int64)
        early = np.array([_loads_early(n, graph) for n in nodes])
        for prices in _mixtures(best):
            heads = np.where(early, 0, starts) if prices[WEIGHTS] else starts
            found.append((_heads_and_tails(heads, tails, table, prices), _limit(prices)))
    return max(found, key=lambda f: f[0])


def _tail(times: Times, node: Node) -> int:
    return times.tail[node.output] + times.latency(node)


def _loads_early(node: Node, graph: Graph) -> bool:
    """Whether a plane's weights can be loaded before the operation's inputs exist."""
    return isinstance(node, Compute) and any(o.value in graph.constants for o in node.operands)


def _mixtures(best: Prices) -> list[Prices]:
    """Prices at which the subsets are tried: the best of the whole, each unit alone, planes with some vector unit."""
    shares = [{"matrix": PRICE, "vector": PRICE >> shift} for shift in range(1, 7)]
    return [best, *(corner(unit) for unit in SCHEDULED), *(tuple(s.get(u, 0) for u in SCHEDULED) for s in shares)]


def _heads_and_tails(heads: Longs, tails: Longs, table: Table, prices: Prices) -> int:
    """The largest of head + work / units + tail over all pairs of a head and a tail that occur."""
    paid = table.paid(prices)
    capacity = max(1, table.capacity(prices))
    order = np.argsort(-tails, kind="stable")
    tails, heads, paid = tails[order], heads[order], paid[order]
    best = 0
    for head in np.unique(heads):
        inside = heads >= head
        sums = np.cumsum(np.where(inside, paid, 0))
        totals = head + sums // capacity + tails
        best = max(best, int(totals[inside].max()))
    return best


def _limit(prices: Prices) -> str:
    """The units that the prices name, the dearest first."""
    named = sorted(((p, unit) for p, unit in zip(prices, SCHEDULED, strict=True) if p * 50 > PRICE), reverse=True)
    return " and ".join(unit for _, unit in named) + (" units" if named else "nothing")
