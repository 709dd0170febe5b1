"""A product and the sum that it goes into become one step: arithmetic units multiply and add in one pass.

The step rounds after the multiplication and after the addition, so results keep their bits; what is billed stays two
operations. A conversion without loss to what arithmetic computes in anyway is no step: its units widen what they read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.ir.expr import Expr, Step
from compiler.ir.graph import Compute, Graph
from compiler.ir.terms import Term, expression
from compiler.numerics.scalar import SCALAR, may_widen


def multiply_add(graph: Graph) -> Graph:
    """Every expression with ``add(mul(a, b), c)`` and ``add(scale(a, b), c)`` of floats as ``muladd(a, b, c)``.

    A contraction's own product, and a reduction's, stay as they are: planes and adder trees take them.
    """
    nodes = tuple(_node(n) if isinstance(n, Compute) else n for n in graph.nodes)
    return graph.with_nodes(nodes)


def _node(node: Compute) -> Compute:
    made = replace(node, expr=fused(widened(node.expr)), post=fused(widened(node.post)) if node.post else None)
    # A reduction that became a contraction would be summed in another order.
    return made if made.is_contraction == node.is_contraction else replace(made, expr=fused(node.expr))


def widened(expr: Expr) -> Expr:
    """The expression without conversions that lose nothing and that only arithmetic in the same type reads."""
    steps = expr.steps
    kept = {len(steps) - 1}
    for step in steps:
        if step.op == "select" or SCALAR.get(step.op, SCALAR["cast"]).result != "same":
            kept.update(step.args)
        kept.update(a for a in step.args if steps[a].dtype != step.dtype)
    gone = {
        at
        for at, step in enumerate(steps)
        if step.op == "cast" and at not in kept and may_widen(steps[step.args[0]].dtype.numpy, step.dtype.numpy)
    }
    if not gone:
        return expr
    terms: list[Term] = []
    for at, step in enumerate(steps):
        args = tuple(terms[a] for a in step.args)
        terms.append(args[0] if at in gone else Term(step.op, args, step.dtype, step.imm))
    return expression(terms[-1])


def fused(expr: Expr) -> Expr:
    """The expression with every product that only one sum reads taken into it."""
    uses = Counter(a for step in expr.steps for a in step.args)
    terms: list[Term] = []
    found = False
    for step in expr.steps:
        term = _taken(step, terms, uses)
        found |= term is not None
        terms.append(term or Term(step.op, tuple(terms[a] for a in step.args), step.dtype, step.imm))
    return expression(terms[-1]) if found else expr


def _taken(step: Step, terms: list[Term], uses: Counter[int]) -> Term | None:
    """A sum with the product among its arguments as one step; of two products the first."""
    if step.op != "add" or not step.dtype.is_float:
        return None
    for at, other in (step.args, step.args[::-1]):
        product = terms[at]
        if product.name not in ("mul", "scale") or uses[at] != 1 or product.dtype != step.dtype:
            continue
        first, second = product.args
        if product.name == "mul" and not second.dtype.is_float:  # a code times a float: the code comes first
            first, second = second, first
        if second.dtype.is_float:
            return Term("muladd", (first, second, terms[other]), step.dtype)
    return None
