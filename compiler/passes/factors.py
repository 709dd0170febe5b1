"""A constant factor of a product's result that is read in another order is a factor of the product.

Exporters of attention scale queries and keys by the root of the scale each, behind the transposition into heads. As a map
that is a pass over every element, in which a product's epilogue cannot share because the map reads it in another order; as a
factor in the epilogue it goes into constant weights.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite

from compiler.ir.graph import Compute, Graph, Node, View, readers_of
from compiler.ir.terms import Term, arg, const, expression, term_of


def factors(graph: Graph) -> Graph:
    """Maps that only multiply a product by constant weights, which nobody else reads, by a number: as views of the product
    with the factor in its epilogue."""
    readers = readers_of(graph)
    kept = {*graph.outputs, *(s.update for s in graph.states)}
    made = {n.output: n for n in graph.nodes}
    for node in graph.nodes:
        factor = _factor(node)
        if factor is None or not isinstance(node, Compute):
            continue
        (operand,) = node.operands
        product = made.get(operand.value)
        alone = operand.value not in kept and len(readers[operand.value]) == 1 and operand.fill in (None, 0.0)
        if (
            not alone
            or not isinstance(product, Compute)
            or not _weighted(product, graph)
            or product.guard != node.guard
        ):
            continue
        whole = arg(-1, product.expr.dtype) if product.post is None else term_of(product.post)
        if whole.dtype != factor.dtype:
            continue
        source = tuple(dict.fromkeys((*product.source, *node.source)))
        made[product.output] = replace(product, post=expression(whole * factor), source=source)
        made[node.output] = View(node.name, node.output, node.source, operand, guard=node.guard)
    return graph.with_nodes(tuple(made[n.output] for n in graph.nodes))


def _factor(node: Node) -> Term | None:
    """The number by which a map multiplies what it reads, if that is all it does."""
    if not isinstance(node, Compute) or node.reducer is not None or node.post is not None or len(node.operands) != 1:
        return None
    root = term_of(node.expr)
    if root.name != "mul" or not root.dtype.is_float or sorted(a.name for a in root.args) != ["arg", "const"]:
        return None
    known = next(a for a in root.args if a.name == "const")
    return const(float(known.imm), root.dtype) if known.imm is not None and isfinite(known.imm) else None


def _weighted(node: Compute, graph: Graph) -> bool:
    """Whether one factor of a product is constant: it can take another."""
    return (
        node.is_contraction
        and node.expr.dtype.is_float
        and sum(o.value in graph.constants for o in node.operands[:2]) == 1
    )
