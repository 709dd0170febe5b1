"""A constant factor of a product's result that is read in another order is a factor of the product.

Exporters of attention scale queries and keys by the root of the scale each, behind the transposition into heads. As a map
that is a pass over every element, in which a product's epilogue cannot share because the map reads it in another order; as a
factor in the epilogue it goes into constant weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from compiler.ir import REDUCED, Compute, Graph, Term, View, arg, const, expression, sources_of, term_of
from compiler.passes.patterns import matches, pattern
from compiler.passes.rewriter import Rewriter

SCALED = pattern("u * c")


def factors(graph: Graph) -> Graph:
    """Maps that only multiply a product by constant weights, which nobody else reads, by a number: as views of the product
    with the factor in its epilogue."""
    writer = Rewriter(graph)
    made = dict(writer.makers)
    for node in graph.nodes:
        factor = _factor(node) if isinstance(node, Compute) else None
        if factor is None or not isinstance(node, Compute):
            continue
        (operand,) = node.operands
        product = made.get(operand.value)
        alone = len(writer.readers[operand.value]) == 1 and operand.value not in graph.kept
        if alone and isinstance(product, Compute) and product.guard == node.guard and _takes(product, factor, graph):
            whole = arg(REDUCED, product.expr.dtype) if product.post is None else term_of(product.post)
            source = sources_of(product, node)
            made[product.output] = replace(product, post=expression(whole * factor), source=source)
            made[node.output] = View(node.name, node.output, node.source, operand, guard=node.guard)
    return writer.done(made[n.output] for n in graph.nodes)


def _factor(node: Compute) -> Term | None:
    """The number by which a map multiplies what it reads, if that is all it does."""
    if not node.is_map or len(node.operands) != 1 or node.operands[0].fill not in (None, 0.0):
        return None
    root = term_of(node.expr)
    found = next(matches(SCALED, root), None)
    literal = found["c"].imm if found and root.dtype.is_float and found["u"].name == "arg" else None
    return const(float(literal), root.dtype) if literal is not None and isfinite(literal) else None


def _takes(node: Compute, factor: Term, graph: Graph) -> bool:
    """Whether one factor of a product is constant, so that it can take another of its type."""
    known = sum(o.value in graph.constants for o in node.operands[:2])
    whole = (node.post or node.expr).dtype
    return node.is_contraction and node.expr.dtype.is_float and known == 1 and whole == factor.dtype
