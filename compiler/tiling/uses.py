"""How the values of a graph are read: in whole, once for many elements, or as few rows in several tiles of a sum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import prod

from compiler.costs import fits_planes, plane_tile, roles
from compiler.ir import Compute, Gather, Graph, Join, Node, Reshape, View, operands_of, reads_of
from compiler.isa import Machine
from compiler.passes.views import groups
from compiler.tiling.stationary import Dataflow

FACTORS = 2  # operands of a contraction that are multiplied
FEW_ROWS = 32  # rows of a product that are one piece on the planes
SLOTS = 2  # tiles of a sum below which its order matters little
AHEAD = 4  # sums that are looked ahead for a dimension that is not needed whole
SPREAD = 16  # lines that a reduction's few results are spread over: who reads the first need not wait for the last


def summed_in_tiles(graph: Graph, machine: Machine, dataflows: Mapping[str, Dataflow]) -> dict[str, tuple[int, int]]:
    """Values that planes take as few rows, in several tiles of the sum one after another: the dimension, how many tiles.

    The first tile of few rows is then wanted before the last of the first row. ``dataflows``: of contractions, by output.
    """
    found: dict[str, tuple[int, int]] = {}
    for node in graph.nodes:
        if not isinstance(node, Compute) or node.output not in dataflows or not fits_planes(node, graph, machine):
            continue
        stationary = dataflows[node.output].stationary
        r, operand = roles(node, stationary), node.operands[1 - stationary]
        if len(r.inner) == 1 and not r.batch and prod(node.loops[i] for i in r.rows) <= FEW_ROWS:
            dim = operand.access.only(r.inner[0])
            tiles = -(-node.reduction // plane_tile(node, stationary, machine)[0])
            if tiles > SLOTS and dim is not None:
                found[operand.value] = dim, tiles
    return found


def needed_whole(graph: Graph) -> dict[str, frozenset[int]]:
    """By value, the dimensions of which one element some sums further on takes everything: of up to ``AHEAD`` sums as many
    as leave a dimension of which it does not, along which readers can follow."""
    found: dict[str, frozenset[int]] = {}
    taken: dict[str, list[int]] = {}
    for _ in range(AHEAD):
        taken = _one_sum_further(graph, taken)
        for value, box in taken.items():
            shape = graph.types[value].shape
            whole = frozenset(j for j, n in enumerate(shape) if 1 < n <= box[j])
            if value not in found or any(n > 1 and j not in whole for j, n in enumerate(shape)):
                found[value] = whole
    return found


def _one_sum_further(graph: Graph, taken: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """By value how much of each dimension an element takes that lies one sum behind those of ``taken``; maps, views and concats
    between do not count."""
    found: dict[str, list[int]] = {}
    for node in reversed(graph.nodes):
        sums = isinstance(node, Compute) and node.reducer is not None
        box = (taken if sums else found).get(node.output, [1] * len(graph.types[node.output].shape))
        for value, part in _boxes(node, box, graph):
            met = found.setdefault(value, part)
            found[value] = [max(pair) for pair in zip(met, part, strict=True)]
    return found


def _boxes(node: Node, box: list[int], graph: Graph) -> Iterator[tuple[str, list[int]]]:
    """How much of each dimension of what a node reads a box of its results takes."""
    if isinstance(node, Reshape):
        yield node.input, _reshaped(graph.types[node.input].shape, graph.types[node.output].shape, box)
    elif isinstance(node, Join):
        for part in node.parts:
            yield part, [min(pair) for pair in zip(box, graph.types[part].shape, strict=True)]
    elif isinstance(node, View | Compute):
        inner = node.loops[node.parallel :] if isinstance(node, Compute) else ()
        for operand in operands_of(node):
            rows = zip(graph.types[operand.value].shape, operand.access.matrix, strict=True)
            reach = [(n, sum(abs(c) * (m - 1) for c, m in zip(row, (*box, *inner), strict=False))) for n, row in rows]
            yield operand.value, [min(n, 1 + steps) for n, steps in reach]


def _reshaped(before: tuple[int, ...], after: tuple[int, ...], box: list[int]) -> list[int]:
    """A box of ``after`` as one of ``before`` around its elements."""
    found = [1] * len(before)
    for old, new in groups(before, after):
        span = 1 + sum((box[i] - 1) * prod(after[k] for k in new if k > i) for i in new)
        for i in old:
            inside = prod(before[k] for k in old if k > i)
            found[i] = min(before[i], -(-span // inside))
    return found


def scalars(graph: Graph) -> set[str]:
    """Results of reductions that somebody takes once for each of many elements (a row's sum, its largest), and nobody as
    rows or columns of a product."""
    found = {n.output for n in graph.nodes if isinstance(n, Compute) and n.reducer and not n.is_contraction}
    found -= {*graph.outputs, *(s.update for s in graph.states)}
    wide = set()
    for node in graph.nodes:
        if not isinstance(node, Compute):
            found.difference_update(reads_of(node))
            continue
        for i, operand in enumerate(node.operands):
            if node.is_contraction and i < FACTORS:
                found.discard(operand.value)
            elif prod(node.loops) >= SPREAD * graph.types[operand.value].elements:
                wide.add(operand.value)
    return found & wide


def stored_once(graph: Graph, machine: Machine, *, short: bool) -> frozenset[str]:
    """Constants that are looked up and multiplied, as tied embeddings are, where there is no room for a copy of each that is
    packed for the planes; ``short``: there is none in any case. Planes load them as they stand, which takes longer where
    a row does not fill its last line."""
    constants, tied = graph.constants, _looked_up(graph) & factors(graph).keys() & graph.constants.keys()
    size = sum(a.nbytes for a in constants.values()) + sum(s.initial.nbytes for s in graph.states)
    lacking = short or size + sum(constants[v].nbytes for v in tied) > machine.memory_bytes
    return tied if lacking and not machine.external.instances else frozenset()


def _looked_up(graph: Graph) -> frozenset[str]:
    return frozenset(n.data.value for n in graph.nodes if isinstance(n, Gather))


def factors(graph: Graph) -> Counter[str]:
    """By value how many contractions it is a factor of."""
    contractions = (n for n in graph.nodes if isinstance(n, Compute) and n.is_contraction)
    return Counter(operand.value for node in contractions for operand in node.operands[:FACTORS])
