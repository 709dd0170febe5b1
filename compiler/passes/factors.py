"""A constant factor of a product's result that is read in another order is a factor of the product.

Exporters of attention scale queries and keys by the root of the scale each, behind the transposition into heads. As a map
that is a pass over every element, in which a product's epilogue cannot share because the map reads it in another order; as a
factor in the epilogue it goes into constant weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from compiler.ir.graph import Compute, Graph, View, sources_of
from compiler.ir.terms import Term, arg, const, expression, term_of
from compiler.passes.rewriter import Rewriter


def factors(graph: Graph) -> Graph:
    """Maps that only multiply a product by constant weights, which nobody else reads, by a number: as views of the product
    with the factor in its epilogue."""
    writer = Rewriter(graph)
    made = dict(writer.makers)
    for node in graph.nodes:
        factor = _factor(node) if isinstance(node, Compute) and node.is_map and len(node.operands) == 1 else None
        if factor is None or not isinstance(node, Compute):
            continue
        (operand,) = node.operands
        product, alone = made.get(operand.value), len(writer.readers[operand.value]) == 1
        if not isinstance(product, Compute) or not alone or operand.value in graph.kept:
            continue
        whole = arg(-1, product.expr.dtype) if product.post is None else term_of(product.post)
        fits = product.guard == node.guard and operand.fill in (None, 0.0) and whole.dtype == factor.dtype
        if fits and _is_weighted(product, graph):
            source = sources_of(product, node)
            made[product.output] = replace(product, post=expression(whole * factor), source=source)
            made[node.output] = View(node.name, node.output, node.source, operand, guard=node.guard)
    return writer.done(made[n.output] for n in graph.nodes)


def _factor(node: Compute) -> Term | None:
    """The number by which a map multiplies what it reads, if that is all it does."""
    root = term_of(node.expr)
    if root.name != "mul" or not root.dtype.is_float or sorted(a.name for a in root.args) != ["arg", "const"]:
        return None
    known = next(a for a in root.args if a.name == "const")
    return const(float(known.imm), root.dtype) if known.imm is not None and isfinite(known.imm) else None


def _is_weighted(node: Compute, graph: Graph) -> bool:
    """Whether one factor of a product is constant: it can take another."""
    known = sum(o.value in graph.constants for o in node.operands[:2])
    return node.is_contraction and node.expr.dtype.is_float and known == 1
