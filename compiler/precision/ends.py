"""The largest of many activations is that of the largest or of the smallest sum: one function at two places instead of many.

GELU and SiLU fall to their only minimum and rise from there, so over any set of numbers they are largest at an end of it. With
``w`` a polynomial of odd powers of ``u`` that have no negative coefficients, ``f(u) = u (1 + tanh(w))`` has the derivative
``(1 + tanh(w)) (1 + 2 u w'(u) s(-2 w))``, ``s`` being the logistic function: left of zero both ``|u| w'(u)`` and ``s(-2 w)`` fall
as ``u`` rises, so the derivative changes its sign once; right of zero it is positive. With ``u (1 + erf(k u))`` the second
derivative is positive between ``-1/k`` and ``1/k`` and negative outside, from where the first one goes to zero: once again.

Rounded values of a function may differ in their last bit from its order, so only precisions that round anyway may do so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.expr import FREE
from compiler.ir.graph import Compute, Graph, Node, Operand, readers_of
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType
from compiler.precision.rewrite import pruned

MANY = 8  # elements, from which on two activations instead of one each are worth two reductions
LARGE = 40  # steps of an expression that is looked into
SHARES = ("tanh", "erf", "sigmoid")
Powers = dict[tuple[int, int], float]  # coefficients by the degrees of two variables


def ends(graph: Graph) -> Graph:
    """Largest elements of activations that nobody else reads as activations of the largest and smallest elements."""
    readers = readers_of(graph)
    kept = {*graph.outputs, *(s.update for s in graph.states)}
    makers = {n.output: n for n in graph.nodes}
    types = dict(graph.types)
    instead: dict[str, list[Node]] = {}
    for node in graph.nodes:
        maker = makers.get(node.operands[0].value) if _takes_largest(node) and isinstance(node, Compute) else None
        if not isinstance(maker, Compute) or maker.output in kept or len(readers[maker.output]) != 1:
            continue
        found = _at_ends(node, maker, types) if isinstance(node, Compute) and maker.guard == node.guard else None
        if found is not None:
            instead[maker.output], instead[node.output] = found[:1], found[1:]
    nodes = tuple(made for node in graph.nodes for made in instead.get(node.output, [node]))
    return graph.with_nodes(nodes, types=types) if instead else graph


def _takes_largest(node: Node) -> bool:
    plain = isinstance(node, Compute) and node.reducer == "max" and node.expr.is_identity and node.post is None
    return plain and isinstance(node, Compute) and node.reduction >= MANY and node.operands[0].fill is None


def _at_ends(node: Compute, maker: Compute, types: dict[str, TensorType]) -> list[Node] | None:
    """The maker without its activation, the smallest elements, the largest ones with the activation of both."""
    expr = maker.expr if maker.reducer is None else maker.post
    if expr is None or len(expr.steps) > LARGE:
        return None
    whole = term_of(expr)
    inner = _inner(whole)
    if inner is None or (inner.name in FREE and (maker.reducer is None or inner.imm != -1)):
        return None
    before, least = f"{maker.output}~before", f"{node.output}~least"
    if before in types or least in types:
        return None
    types[before] = TensorType(inner.dtype, types[maker.output].shape)
    types[least] = TensorType(inner.dtype, types[node.output].shape)
    short = None if inner.name == "arg" and inner.imm == -1 else expression(inner)
    if maker.reducer is None:
        first = replace(maker, output=before, expr=expression(inner))
    else:
        first = replace(maker, output=before, post=short)
    source = tuple(dict.fromkeys((*maker.source, *node.source)))
    read = replace(node.operands[0], value=before)
    plain = expression(arg(0, inner.dtype))
    smallest = replace(
        node, name=f"{node.name}~least", output=least, source=source, operands=(read,), expr=plain, reducer="min"
    )
    also = Operand(least, Access.identity(node.parallel, len(node.loops)))
    largest, lowest = (_with(whole, inner, arg(i, inner.dtype)) for i in (-1, 1))
    post = expression(largest.op("max", lowest))
    done = replace(node, source=source, operands=(read, also), expr=plain, post=post)
    return [pruned(first, keep=2 if maker.is_contraction else 0), smallest, done]


def _with(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    return Term(term.name, tuple(_with(a, old, new) for a in term.args), term.dtype, term.imm)


def _inner(term: Term) -> Term | None:
    """What an activation is a function of; None where the term is no activation that is largest at an end."""
    while term.name in ("nearest", "cast") and term.args[0].dtype.is_float:  # roundings keep the order
        term = term.args[0]
    for share in dict.fromkeys(t for t in _subterms(term) if t.name in SHARES):
        for inner in dict.fromkeys(_subterms(share.args[0])):
            powers = None if inner.name == "const" else _powers(share.args[0], inner)
            if powers and _rises(powers, straight=share.name == "erf") and _is_gate(_powers(term, inner, share), share):
                return inner
    return None


def _subterms(term: Term) -> Iterator[Term]:
    yield term
    for below in term.args:
        yield from _subterms(below)


def _rises(powers: Powers, *, straight: bool) -> bool:
    """Odd powers, none with a negative coefficient; ``straight``: the first alone."""
    degrees = {degree for (degree, _), c in powers.items() if c}
    odd = bool(degrees) and all(degree % 2 == 1 for degree in degrees) and all(c >= 0 for c in powers.values())
    return odd and not (straight and degrees != {1})


def _is_gate(powers: Powers | None, share: Term) -> bool:
    """Whether it is a positive number times the number times ``1 + share``, or times the logistic function itself."""
    found = {degrees: c for degrees, c in (powers or {}).items() if c}
    whole = found.pop((1, 1), 0.0)
    return whole > 0 and found == ({} if share.name == "sigmoid" else {(1, 0): whole})


def _powers(term: Term, inner: Term, share: Term | None = None) -> Powers | None:
    """The term as a polynomial of ``inner`` and ``share``: coefficients by both degrees; None where it is none."""
    if term == inner:
        return {(1, 0): 1.0}
    if share is not None and term == share:
        return {(0, 1): 1.0}
    if term.name == "const" and term.dtype.is_float and term.imm is not None:
        return {(0, 0): float(term.imm)}
    if term.name not in ("add", "mul", "muladd", "div"):
        return None
    args = [_powers(a, inner, share) for a in term.args]
    known = [a for a in args if a is not None]
    if len(known) < len(args):
        return None
    if term.name == "add":
        return _sum(*known)
    if term.name == "div":
        divisor = known[1].get((0, 0), 0.0)
        return _product(known[0], {(0, 0): 1 / divisor}) if set(known[1]) == {(0, 0)} and divisor else None
    product = _product(known[0], known[1])
    return _sum(product, known[2]) if term.name == "muladd" else product


def _sum(left: Powers, right: Powers) -> Powers:
    return {degrees: left.get(degrees, 0.0) + right.get(degrees, 0.0) for degrees in dict.fromkeys((*left, *right))}


def _product(left: Powers, right: Powers) -> Powers:
    found: Powers = {}
    for (i, j), c in left.items():
        for (k, n), factor in right.items():
            found[i + k, j + n] = found.get((i + k, j + n), 0.0) + c * factor
    return found
