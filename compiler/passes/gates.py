"""Factors of what is summed go to the smaller side: ``sum_c w[o, c] (g[c] x[c, p])`` is ``sum_c (w[o, c] g[c]) x[c, p]``.

A gate on channels (Hu and others, "Squeeze-and-excitation networks", 2018) weighs every pixel before a 1x1 convolution.
Multiplied into the convolution's filters it takes as many products as there are filters, and what it weighs is not stored
again. Results differ by the order in which three factors are rounded.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Access, Compute, Graph, Node, Operand, TensorType, Term, arg, expression, term_of
from compiler.passes.clean import dead_code, uses
from compiler.passes.rewriter import Rewriter

WORTH = 4  # times fewer products than before: weights that come at run time cannot be loaded ahead


def gates(graph: Graph) -> Graph:
    """Every contraction by constant weights with the gates of what it reads multiplied into the weights."""
    counts, writer = uses(graph), Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        for moving in (0, 1) if node.is_contraction else ():
            before = writer.makers.get(node.operands[moving].value)
            if isinstance(before, Compute) and counts[before.output] == 1 and _fits(node, moving, before, graph):
                found = _moved(node, moving, before, writer)
                if found is not None:
                    return found
        return None

    return dead_code(writer.each(made, Compute))


def _fits(node: Compute, moving: int, before: Compute, graph: Graph) -> bool:
    """Whether a product is a float map by which constant weights, much smaller than it, are multiplied."""
    weights, factor = node.operands[1 - moving], node.operands[moving]
    if weights.value not in graph.constants or not weights.fill is factor.fill is None:
        return False
    if before.expr.ops[-1] != "mul" or before.expr.indices:
        return False
    if before.reducer is not None or before.guard != node.guard or not before.expr.dtype.is_float:
        return False
    shorter = graph.types[weights.value].elements * WORTH <= before.points
    return shorter and node.expr.dtype == before.expr.dtype and _dims(weights.access) is not None


def _dims(access: Access) -> dict[int, int] | None:
    """By loop the dimension of the weights that it alone walks along, from the first element on; None where that is not so."""
    moved = [(access.plain(j), j) for j in range(len(access.offset)) if access.loops(j)]
    alone = not any(access.offset) and len({loop for loop, _ in moved}) == len(moved)
    found = {loop: j for loop, j in moved if loop is not None}
    return found if alone and len(found) == len(moved) else None


def _moved(node: Compute, moving: int, before: Compute, writer: Rewriter) -> list[Node] | None:
    """The product ``before`` taken apart: one side goes to the weights, the other is what the contraction reads instead."""
    root, weights = term_of(before.expr), node.operands[1 - moving]
    dims = _dims(weights.access) or {}
    seen = [o.through(node.operands[moving].access, len(node.loops)) for o in before.operands]
    for kept, gate in (root.args, root.args[::-1]):
        reads = [seen[p] for p in expression(gate).reads]
        source = seen[int(kept.imm or 0)] if kept.name == "arg" else None
        if source is not None and source.fill is None and reads and all(_moves_in(o, dims) for o in reads):
            made = _weighed(weights, before, gate, reads, dims, node.loops, writer)
            operands = list(node.operands)
            operands[moving], operands[1 - moving] = source, replace(weights, value=made.output)
            return [made, replace(node, operands=tuple(operands))]
    return None


def _moves_in(operand: Operand, loops: dict[int, int]) -> bool:
    """Whether an operand moves along these loops alone."""
    return operand.fill is None and operand.access.moving <= loops.keys()


def _weighed(
    weights: Operand,
    before: Compute,
    gate: Term,
    reads: list[Operand],
    dims: dict[int, int],
    extents: tuple[int, ...],
    writer: Rewriter,
) -> Compute:
    """The weights times the gate, an element for each that the contraction uses."""
    walked = {j: loop for loop, j in dims.items()}
    over = [walked.get(j) for j in range(len(weights.access.offset))]
    shape = tuple(1 if loop is None else extents[loop] for loop in over)
    expr = expression(gate)
    known = {old: arg(new + 1, expr.reads[old]) for new, old in enumerate(expr.reads)}
    return replace(
        before,
        output=writer.value(f"{before.output}~weights", TensorType(before.expr.dtype, shape)),
        loops=shape,
        parallel=len(shape),
        operands=(Operand.whole(weights.value, len(shape)), *(o.keep(over) for o in reads)),
        expr=expression(arg(0, before.expr.dtype) * term_of(expr, known)),
    )
