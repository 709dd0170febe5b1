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

from compiler.ir import (
    FREE,
    REDUCED,
    Compute,
    Graph,
    Node,
    Operand,
    TensorType,
    Term,
    arg,
    exchanged,
    expression,
    identity,
    sources_of,
    term_of,
)
from compiler.passes.rewriter import Rewriter
from compiler.precision.plan import is_largest

MANY = 8  # elements, from which on two activations instead of one each are worth two reductions
LARGE = 40  # steps of an expression that is looked into
SHARES = ("tanh", "erf", "sigmoid")
Powers = dict[tuple[int, int], float]  # coefficients by the degrees of two variables


def ends(graph: Graph) -> Graph:
    """Largest elements of activations that nobody else reads as activations of the largest and smallest elements."""
    writer = Rewriter(graph)
    instead: dict[str, list[Node]] = {}
    for node in graph.nodes:
        maker = (
            writer.makers.get(node.operands[0].value) if isinstance(node, Compute) and _takes_largest(node) else None
        )
        if isinstance(node, Compute) and isinstance(maker, Compute) and maker.guard == node.guard:
            alone = maker.output not in graph.kept and len(writer.readers[maker.output]) == 1
            first, *others = (_at_ends(node, maker, writer) if alone else None) or [maker, node]
            instead[maker.output], instead[node.output] = [first], others
    return writer.done(made for node in graph.nodes for made in instead.get(node.output, [node]))


def _takes_largest(node: Compute) -> bool:
    return is_largest(node) and node.reduction >= MANY and node.operands[0].fill is None


def _at_ends(node: Compute, maker: Compute, writer: Rewriter) -> list[Node] | None:
    """The maker without its activation, the smallest elements, the largest ones with the activation of both."""
    expr = maker.expr if maker.reducer is None else maker.post
    if expr is None or len(expr.steps) > LARGE:
        return None
    whole = term_of(expr)
    inner = _inner(whole)
    if inner is None or (inner.name in FREE and (maker.reducer is None or not inner.reads(REDUCED))):
        return None
    before = writer.value(f"{maker.output}~before", TensorType(inner.dtype, writer.types[maker.output].shape))
    least = writer.value(f"{node.output}~least", TensorType(inner.dtype, writer.types[node.output].shape))
    first = replace(maker, output=before)
    if maker.reducer is None:
        first = replace(first, expr=expression(inner))
    else:
        first = replace(first, post=None if inner.reads(REDUCED) else expression(inner))
    also = Operand.whole(least, node.parallel, len(node.loops))
    largest, lowest = (exchanged(whole, inner, arg(i, inner.dtype)) for i in (REDUCED, 1))
    largest_of = replace(
        node,
        source=sources_of(maker, node),
        operands=(replace(node.operands[0], value=before), also),
        expr=identity(inner.dtype),
        post=expression(largest.op("max", lowest)),
    )
    name = writer.name(f"{node.name}~least")
    smallest = replace(largest_of, name=name, output=least, operands=largest_of.operands[:1], reducer="min", post=None)
    return [first.pruned(keep=2 if maker.is_contraction else 0), smallest, largest_of]


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
    return _joined(term.name, known) if len(known) == len(args) else None


def _joined(name: str, args: list[Powers]) -> Powers | None:
    """An operator on polynomials; None for a quotient by anything but a number."""
    if name == "add":
        return _sum(*args)
    if name == "div":
        divisor = args[1].get((0, 0), 0.0)
        return _product(args[0], {(0, 0): 1 / divisor}) if set(args[1]) == {(0, 0)} and divisor else None
    product = _product(args[0], args[1])
    return _sum(product, args[2]) if name == "muladd" else product


def _sum(left: Powers, right: Powers) -> Powers:
    return {degrees: left.get(degrees, 0.0) + right.get(degrees, 0.0) for degrees in dict.fromkeys((*left, *right))}


def _product(left: Powers, right: Powers) -> Powers:
    found: Powers = {}
    for (i, j), c in left.items():
        for (k, n), factor in right.items():
            found[i + k, j + n] = found.get((i + k, j + n), 0.0) + c * factor
    return found
