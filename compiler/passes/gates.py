"""Factors of what is summed go to the smaller side: ``sum_c w[o, c] (g[c] x[c, p])`` is ``sum_c (w[o, c] g[c]) x[c, p]``.

A gate on channels (Hu and others, "Squeeze-and-excitation networks", 2018) weighs every pixel before a 1x1 convolution.
Multiplied into the convolution's filters it takes as many products as there are filters, and what it weighs is not stored
again. Results differ by the order in which three factors are rounded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand, reads_of
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType
from compiler.passes.clean import dead_code

WORTH = 4  # times fewer products than before: weights that come at run time cannot be loaded ahead


def gates(graph: Graph) -> Graph:
    """Every contraction by constant weights with the gates of what it reads multiplied into the weights."""
    uses = Counter(value for node in graph.nodes for value in reads_of(node))
    uses.update((*graph.outputs, *(s.update for s in graph.states)))
    made = {n.output: n for n in graph.nodes if isinstance(n, Compute) and uses[n.output] == 1}
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        pair = _moved(node, graph, made) if isinstance(node, Compute) and node.is_contraction else None
        if pair is None:
            nodes.append(node)
            continue
        nodes += pair
        types[pair[0].output] = TensorType(pair[0].expr.dtype, pair[0].loops)
    return dead_code(graph.with_nodes(tuple(nodes), types=types)) if len(nodes) > len(graph.nodes) else graph


def _moved(node: Compute, graph: Graph, made: dict[str, Compute]) -> tuple[Compute, Compute] | None:
    """The weights' product with a gate, and the contraction by it; None where there is none, or it would not be shorter."""
    for moving in (0, 1):
        weights, factor = node.operands[1 - moving], node.operands[moving]
        before = made.get(factor.value) if weights.value in graph.constants else None
        if before is None or not weights.fill is factor.fill is None:
            continue
        if before.reducer is not None or before.guard != node.guard or not before.expr.dtype.is_float:
            continue
        shorter = graph.types[weights.value].elements * WORTH <= before.points
        dims = _dims(weights.access) if shorter and node.expr.dtype == before.expr.dtype else None
        if dims is not None and (found := _taken(node, moving, before, dims)) is not None:
            return found
    return None


def _dims(access: Access) -> dict[int, int] | None:
    """By loop the dimension of the weights that it alone walks along, from the first element on; None where that is not so."""
    found: dict[int, int] = {}
    for j, row in enumerate(access.matrix):
        used = [i for i, c in enumerate(row) if c]
        if access.offset[j] or len(used) > 1 or any(row[i] != 1 or i in found for i in used):
            return None
        found.update(dict.fromkeys(used, j))
    return found


def _taken(node: Compute, moving: int, before: Compute, dims: dict[int, int]) -> tuple[Compute, Compute] | None:
    """The product ``before`` taken apart: one side goes to the weights, the other is what the contraction reads instead."""
    root = term_of(before.expr)
    if root.name != "mul" or any(s.op == "index" for s in before.expr.steps):
        return None
    walk = node.operands[moving].access
    for kept, gate in (root.args, root.args[::-1]):
        if kept.name != "arg" or not isinstance(kept.imm, int):
            continue
        source = _behind(before.operands[kept.imm], walk, len(node.loops))
        reads = {p: _behind(before.operands[p], walk, len(node.loops)) for p in sorted(_positions(gate))}
        if source.fill is not None or not reads or any(not _along(o, dims) for o in reads.values()):
            continue
        name = f"{before.output}~weights"
        made = _weighed(node.operands[1 - moving], before, gate, reads, (node.loops, dims))
        operands = list(node.operands)
        operands[moving], operands[1 - moving] = source, replace(node.operands[1 - moving], value=name)
        return replace(made, output=name), replace(node, operands=tuple(operands))
    return None


def _positions(term: Term) -> set[int]:
    """Operands that a term reads."""
    own = {term.imm} if term.name == "arg" and isinstance(term.imm, int) else set()
    return own.union(*(_positions(a) for a in term.args))


def _behind(operand: Operand, walk: Access, loops: int) -> Operand:
    """What a map reads as who reads the map would."""
    return replace(operand, access=operand.access.compose(walk, loops))


def _along(operand: Operand, dims: dict[int, int]) -> bool:
    """Whether an operand moves along loops of the weights alone."""
    return operand.fill is None and all(i in dims for row in operand.access.matrix for i, c in enumerate(row) if c)


def _weighed(
    weights: Operand,
    before: Compute,
    gate: Term,
    reads: dict[int, Operand],
    walk: tuple[tuple[int, ...], dict[int, int]],
) -> Compute:
    """The weights times the gate, an element for each that the contraction uses."""
    extents, dims = walk
    rank = len(weights.access.matrix)
    loops = {j: loop for loop, j in dims.items()}
    operands = [Operand(weights.value, Access.identity(rank))]
    known: dict[int, Term] = {}
    for position, operand in reads.items():
        rows = tuple(tuple(row[loops[j]] if j in loops else 0 for j in range(rank)) for row in operand.access.matrix)
        dtype = next(s.dtype for s in before.expr.steps if s.op == "arg" and s.imm == position)
        known[position] = arg(len(operands), dtype)
        operands.append(replace(operand, access=Access(operand.access.offset, rows)))
    shape = tuple(extents[loops[j]] if j in loops else 1 for j in range(rank))
    expr = expression(arg(0, before.expr.dtype) * term_of(expression(gate), known))
    return replace(before, loops=shape, parallel=rank, operands=tuple(operands), expr=expr)
