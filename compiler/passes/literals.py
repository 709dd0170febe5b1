"""Constants of one element become literals of the expressions that read them: no stream has to feed them."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.expr import Expr, Step
from compiler.ir.graph import Compute, Graph, Node

EXACT = 1 << 53


def literals(graph: Graph) -> Graph:
    """Every read of a one-element constant by a map, a reduction or an epilogue as a literal (factors stay operands)."""
    return replace(graph, nodes=tuple(_literal(node, graph) for node in graph.nodes))


def _literal(node: Node, graph: Graph) -> Node:
    if not isinstance(node, Compute):
        return node
    known: dict[int, int | float] = {}
    for i, operand in enumerate(node.operands):
        array = graph.constants.get(operand.value)
        if array is None or array.size != 1 or operand.fill is not None or (node.is_contraction and i < 2):
            continue
        value = array.reshape(()).item()
        if abs(value) <= EXACT:  # not what is infinite or no number, nor what the word of a literal cannot hold
            known[i] = float(value) if array.dtype.kind == "f" else int(value)
    if not known or len(known) == len(node.operands):  # an operation reads at least one value
        return node
    kept = [i for i in range(len(node.operands)) if i not in known]
    places = {old: new for new, old in enumerate(kept)}

    def rewritten(expr: Expr) -> Expr:
        return Expr(tuple(_step(s, known, places) for s in expr.steps))

    return replace(
        node,
        operands=tuple(node.operands[i] for i in kept),
        expr=rewritten(node.expr),
        post=rewritten(node.post) if node.post else None,
    )


def _step(step: Step, known: dict[int, int | float], places: dict[int, int]) -> Step:
    if step.op != "arg" or step.imm == -1:
        return step
    position = int(step.imm or 0)
    if position in known:
        return Step("const", (), step.dtype, known[position])
    return replace(step, imm=places[position])
