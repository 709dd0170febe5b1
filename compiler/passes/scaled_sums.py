"""Sums of scaled codes: the codes are added up first, which is exact, and their sum is scaled once."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Compute, DType, Graph, Node, Term, arg, const, expression, term_of
from compiler.passes.rewriter import Rewriter

EXACT = 1 << 24  # whole numbers below are exact in float32, whatever the order of additions
LARGEST_CODE = 1 << 8


def scaled_sums(graph: Graph) -> Graph:
    """Every float32 sum of bytes times one literal as the literal times the sum of bytes."""
    return Rewriter(graph).each(lambda node: [_scaled(node)], Compute)


def _scaled(node: Compute) -> Node:
    term = term_of(node.expr)
    if node.reducer != "sum" or term.name != "mul" or term.dtype != DType.F32 or node.reduction * LARGEST_CODE > EXACT:
        return node
    code, factor = term.args if term.args[1].name == "const" else term.args[::-1]
    if code.name != "arg" or code.dtype.size > 1 or code.dtype.is_float or factor.name != "const":
        return node
    scaled = arg(-1, DType.F32) * const(float(factor.imm or 0), DType.F32)
    post = scaled if node.post is None else term_of(node.post, {-1: scaled})
    return replace(node, expr=expression(Term("cast", (code,), DType.F32)), post=expression(post))
