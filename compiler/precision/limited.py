"""Values whose size the operations before limit, whatever the inputs are: what a tanh gives, and what products, sums and
choices make of such values. The states of recurrent cells are."""

from __future__ import annotations

from compiler.ir import REDUCED, Compute, Expr, Graph, Node
from compiler.precision.plan import moved

LIMITS = {"tanh", "sigmoid", "erf", "sin", "cos", "sign", "const"}
KEEPS = {"add", "sub", "mul", "muladd", "neg", "abs", "min", "max", "cast"}
CHOICES = {"select"}  # its first argument is a truth value


def bounded(graph: Graph) -> set[str]:
    """Values that stay within limits for every input; constants are."""
    found = set(graph.constants)
    for node in graph.nodes:
        if _is_bounded(node, found):
            found.add(node.output)
    return found


def _is_bounded(node: Node, known: set[str]) -> bool:
    passed = moved(node)
    if passed:
        return all(value in known for value in passed)
    if not isinstance(node, Compute):
        return False
    values = [operand.value in known for operand in node.operands]
    result = _limits(node.expr, values) and node.reducer in (None, "max", "min")
    return _limits(node.post, [*values, result]) if node.post else result


def _limits(expr: Expr, operands: list[bool]) -> bool:
    """Whether an expression of such operands is bounded; the last of them is what was reduced."""
    held: list[bool] = []
    for step in expr.steps:
        if step.op == "arg":
            held.append(operands[-1 if step.imm == REDUCED else int(step.imm or 0)])
        elif step.op in CHOICES:
            held.append(all(held[i] for i in step.args[1:]))
        else:
            held.append(step.op in LIMITS or (step.op in KEEPS and all(held[i] for i in step.args)))
    return held[-1]
