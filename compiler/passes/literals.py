"""Constants of one element become literals of the expressions that read them: no stream has to feed them."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Compute, Expr, Graph, Node, Operand, Step
from compiler.passes.rewriter import Rewriter

EXACT = 1 << 53


def literals(graph: Graph) -> Graph:
    """Every read of a one-element constant by a map, a reduction or an epilogue as a literal (factors stay operands)."""

    def made(node: Compute) -> list[Node]:
        first = 2 if node.is_contraction else 0
        values = {i: _value(o, graph) for i, o in enumerate(node.operands) if i >= first}
        return [_with_literals(node, {i: value for i, value in values.items() if value is not None})]

    return Rewriter(graph).each(made, Compute)


def _value(operand: Operand, graph: Graph) -> int | float | None:
    """The number that an operand is: not what is infinite or no number, nor what the word of a literal cannot hold."""
    array = graph.constants.get(operand.value)
    if array is None or array.size != 1 or operand.fill is not None:
        return None
    value = array.reshape(()).item()
    if not abs(value) <= EXACT:
        return None
    return float(value) if array.dtype.kind == "f" else int(value)


def _with_literals(node: Compute, known: dict[int, int | float]) -> Compute:
    def literal(expr: Expr) -> Expr:
        return Expr(
            tuple(
                Step("const", (), s.dtype, known[int(s.imm or 0)]) if s.op == "arg" and s.imm in known else s
                for s in expr.steps
            )
        )

    if not known or len(known) == len(node.operands):  # an operation reads at least one value
        return node
    made = replace(node, expr=literal(node.expr), post=node.post and literal(node.post))
    return made.reading(i for i in range(len(node.operands)) if i not in known)
