"""Constant factors behind a contraction multiplied into its constant weights, constant addends added up once.

A convolution followed by a normalisation with known statistics becomes a convolution with a bias: two operations per
element less, and one operand stream less to feed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from compiler.ir import REDUCED, Access, Compute, Expr, Graph, Node, Operand, Term, arg, exchanged, expression, term_of
from compiler.numerics.scalar import apply
from compiler.passes.clean import dead_code
from compiler.passes.rewriter import Rewriter

Array = np.ndarray[Any, Any]
Operands = tuple[Operand, ...]


def absorb(graph: Graph) -> Graph:
    """Every contraction by constant weights with its constant factors and addends taken in."""
    writer = Rewriter(graph)

    def made(node: Compute) -> list[Node]:
        while (simpler := _simplified(node, writer)) is not None:
            node = simpler
        return [node]

    return dead_code(writer.each(made, Compute))


@dataclass(frozen=True)
class _Known:
    """A constant in a post expression: a literal, or an operand that is a constant."""

    array: Array
    operand: Operand | None
    position: int


def _simplified(node: Compute, writer: Rewriter) -> Compute | None:
    """The node after one rewriting of its post, or None when nothing matches: the first pattern on the way from the reduced
    value up to the root."""
    if not node.is_contraction or node.post is None or not _reads_sum_once(node, node.post):
        return None
    root = term_of(node.post)
    path = _path(root)
    for below, term in pairwise(path):
        known = _beside(node, writer, term, below)
        if known is None or not _alone(root, term):
            return None
        if term.name == "mul" or below.name == "add":
            scales = term.name == "mul"
            found = (
                _with_factor(node, writer, below, known) if scales else _with_bias(node, writer, below, known, "add")
            )
            return None if found is None else _replaced(node, root, term, *found)
    return None


def _reads_sum_once(node: Compute, post: Expr) -> bool:
    """Whether a post of the sum's type, a float's, has one step that reads the sum."""
    return node.expr.dtype.is_float and post.times(REDUCED) == 1 and post.dtype == node.expr.dtype


def _alone(root: Term, term: Term) -> bool:
    """Whether the reduced value is read once in ``term`` and nowhere else: a step may serve several others, and a factor of
    one of several uses is no factor of the sum."""

    def reads(one: Term, without: Term | None, seen: dict[int, int]) -> int:
        if one is without:
            return 0
        if id(one) not in seen:
            seen[id(one)] = int(one.reads(REDUCED)) + sum(reads(child, without, seen) for child in one.args)
        return seen[id(one)]

    return reads(term, None, {}) == 1 and reads(root, term, {}) == 0


def _path(term: Term) -> list[Term]:
    """Terms from the reduced value to the root (it occurs once); none where it does not occur."""
    if term.reads(REDUCED):
        return [term]
    below = next((found for child in term.args if (found := _path(child))), [])
    return [*below, term] if below else []


def _other(term: Term, below: Term) -> Term | None:
    """The second argument of an addition or a product."""
    if term.name not in ("add", "mul") or term.args[0] is term.args[1]:
        return None
    return term.args[1] if term.args[0] is below else term.args[0]


def _beside(node: Compute, writer: Rewriter, term: Term, below: Term) -> _Known | None:
    """The constant that is added to ``below``, or by which it is multiplied."""
    other = _other(term, below)
    return None if other is None else _known(node, writer, other)


def _known(node: Compute, writer: Rewriter, term: Term) -> _Known | None:
    if term.name == "const":
        return _Known(np.asarray(term.imm, term.dtype.numpy), None, -1)
    if term.name != "arg" or not isinstance(term.imm, int) or term.imm == REDUCED:
        return None
    operand = node.operands[term.imm]
    array = writer.constants.get(operand.value)
    return None if array is None or operand.fill is not None else _Known(array, operand, term.imm)


def _combined(node: Compute, writer: Rewriter, a: _Known, b: _Known, how: str) -> tuple[Term, Operands] | None:
    """``a how b`` as one constant: both literals, one literal, or two operands that are read alike."""
    dtype = node.expr.dtype
    base, other = (a, b) if a.operand is not None else (b, a)
    if base.operand is None:
        return Term("const", (), dtype, float(apply(how, [a.array, b.array], dtype.numpy))), node.operands
    aligned = _spread(other, base.operand.access, base.array.shape)
    if aligned is None:
        return None
    both = [base.array, aligned] if base is a else [aligned, base.array]
    value = writer.constant(f"{base.operand.value}~1", apply(how, both, dtype.numpy))
    operands = list(node.operands)
    operands[base.position] = replace(base.operand, value=value)
    return arg(base.position, dtype), tuple(operands)


def _spread(known: _Known, access: Access, shape: tuple[int, ...]) -> Array | None:
    """The constant as a factor of a tensor read by ``access``: each of its wide dimensions is one of the tensor's."""
    if known.operand is None:
        return known.array
    places: list[int] = []
    for j, n in enumerate(known.array.shape):
        mine = known.operand.access.project((j,))
        if n == 1:
            if any(mine.offset):
                return None
            continue
        match = next((k for k, m in enumerate(shape) if m == n and access.project((k,)) == mine), -1)
        if match <= max(places, default=-1):
            return None
        places.append(match)
    return known.array.reshape([shape[k] if k in places else 1 for k in range(len(shape))])


def _with_factor(node: Compute, writer: Rewriter, below: Term, factor: _Known) -> tuple[Term, Operands] | None:
    """``(reduced [+ b]) * f``: f goes into the weights, and into b; what replaces the product, and the operands then."""
    weights = node.operands[1]
    array = writer.constants.get(weights.value)
    if array is None or factor.array.size == 0 or not np.isfinite(factor.array).all():
        return None
    spread = _spread(factor, weights.access, array.shape)
    if spread is None or below.name not in ("add", "arg"):
        return None
    biased = (below, node.operands) if below.name == "arg" else _with_bias(node, writer, below, factor, "mul")
    if biased is None:
        return None
    new, operands = biased
    value = writer.constant(f"{weights.value}~1", apply("mul", [array, spread], array.dtype))
    return new, (operands[0], replace(weights, value=value), *operands[2:])


def _with_bias(node: Compute, writer: Rewriter, total: Term, more: _Known, how: str) -> tuple[Term, Operands] | None:
    """The sum with its bias combined with another constant."""
    reduced = next((a for a in total.args if a.reads(REDUCED)), None)
    known = None if reduced is None else _beside(node, writer, total, reduced)
    combined = None if known is None else _combined(node, writer, known, more, how)
    return None if combined is None or reduced is None else (reduced + combined[0], combined[1])


def _replaced(node: Compute, root: Term, old: Term, new: Term, operands: Operands) -> Compute:
    """The node with one subtree of its post exchanged; operands that nobody reads any more are dropped."""
    post = expression(exchanged(root, old, new))
    made = replace(node, operands=operands, post=post).pruned(keep=2)
    return replace(made, post=None) if post.steps[0].imm == REDUCED and post.is_identity else made
