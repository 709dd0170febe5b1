"""A product and the sum that it goes into become one step: arithmetic units multiply and add in one pass.

The step rounds after the multiplication and after the addition, so results keep their bits; what is billed stays two
operations. A conversion without loss to what arithmetic computes in anyway is no step: its units widen what they read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from compiler.ir import Compute, Expr, Graph, Step, Term, expression
from compiler.numerics.scalar import SCALAR, may_widen
from compiler.passes.identities import MULTIPLY_ADD
from compiler.passes.patterns import Found, rewritten
from compiler.passes.rewriter import Rewriter


def multiply_add(graph: Graph) -> Graph:
    """Every expression with ``add(mul(a, b), c)`` and ``add(scale(a, b), c)`` of floats as ``muladd(a, b, c)``.

    A contraction's own product, and a reduction's, stay as they are: planes and adder trees take them.
    """
    return Rewriter(graph).each(lambda node: [_node(node)], Compute)


def _node(node: Compute) -> Compute:
    made = replace(node, expr=fused(widened(node.expr)), post=fused(widened(node.post)) if node.post else None)
    # A reduction that became a contraction would be summed in another order.
    return made if made.is_contraction == node.is_contraction else replace(made, expr=fused(node.expr))


def widened(expr: Expr) -> Expr:
    """The expression without conversions that lose nothing and that only arithmetic in the same type reads."""
    steps = expr.steps
    kept = {len(steps) - 1}.union(*(_read_as_they_are(step, steps) for step in steps))
    casts = {at: (steps[step.args[0]].dtype, step.dtype) for at, step in enumerate(steps) if step.op == "cast"}
    gone = {at for at, (old, new) in casts.items() if at not in kept and may_widen(old.numpy, new.numpy)}
    if not gone:
        return expr
    terms: list[Term] = []
    for at, step in enumerate(steps):
        args = tuple(terms[a] for a in step.args)
        terms.append(args[0] if at in gone else Term(step.op, args, step.dtype, step.imm))
    return expression(terms[-1])


def _read_as_they_are(step: Step, steps: Sequence[Step]) -> set[int]:
    """Arguments whose type decides what a step does."""
    if step.op == "select" or SCALAR.get(step.op, SCALAR["cast"]).result != "same":
        return set(step.args)
    return {a for a in step.args if steps[a].dtype != step.dtype}


def fused(expr: Expr) -> Expr:
    """The expression with every product that only one sum reads taken into it; of two products the first."""
    uses = Counter(a for step in expr.steps for a in step.args)
    once: set[int] = set()
    terms: list[Term] = []
    found = False

    def alone(match: Found) -> bool:
        return id(match["p"]) in once

    for at, step in enumerate(expr.steps):
        term = Term(step.op, tuple(terms[a] for a in step.args), step.dtype, step.imm)
        if step.op == "add" and step.dtype.is_float:
            taken = rewritten(term, MULTIPLY_ADD, alone)
            found |= taken is not None
            term = taken or term
        terms.append(term)
        if uses[at] == 1:
            once.add(id(term))
    return expression(terms[-1]) if found else expr
