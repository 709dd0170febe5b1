"""Constant factors behind a contraction multiplied into its constant weights, constant addends added up once.

A convolution followed by a normalisation with known statistics becomes a convolution with a bias: two operations per
element less, and one operand stream less to feed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType
from compiler.numerics.scalar import apply
from compiler.passes.clean import dead_code

Array = np.ndarray[Any, Any]


def absorb(graph: Graph) -> Graph:
    """Every contraction by constant weights with its constant factors and addends taken in."""
    work = _Constants(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if isinstance(node, Compute) and node.is_contraction and node.post is not None and node.expr.dtype.is_float:
            while node.post is not None and (simpler := _simplified(node, work)) is not None:
                node = simpler
        nodes.append(node)
    return dead_code(replace(graph, nodes=tuple(nodes), constants=work.constants, types=work.types))


class _Constants:
    """The graph's constants and those added."""

    def __init__(self, graph: Graph) -> None:
        self.constants = dict(graph.constants)
        self.types = dict(graph.types)

    def add(self, base: str, array: Array) -> str:
        n = 1
        while f"{base}~{n}" in self.types:
            n += 1
        name = f"{base}~{n}"
        kind = self.types[base]
        self.constants[name] = array
        self.types[name] = TensorType(kind.dtype, array.shape)
        return name


@dataclass(frozen=True)
class _Known:
    """A constant in a post expression: a literal, or an operand that is a constant."""

    array: Array
    operand: Operand | None
    position: int


def _simplified(node: Compute, work: _Constants) -> Compute | None:
    """The node after one rewriting of its post, or None when nothing matches."""
    assert node.post is not None
    root = term_of(node.post)
    if sum(s.op == "arg" and s.imm == -1 for s in node.post.steps) != 1 or node.post.dtype != node.expr.dtype:
        return None
    return _rewritten(node, work, root)


def _rewritten(node: Compute, work: _Constants, root: Term) -> Compute | None:
    """Looks along the path from the reduced value up to the root for the first pattern that applies."""
    path = _path(root)
    for below, term in pairwise(path):
        other = _other(term, below)
        if other is None:
            return None
        known = _known(node, work, other)
        if known is None or not _alone(root, term):
            return None
        if term.name == "mul":
            return _absorb_factor(node, work, root, term, below, known)
        if below.name == "add":
            inner = _other(below, path[0])
            first = _known(node, work, inner) if inner is not None else None
            if first is None or inner is None:
                return None
            total = _combined(node, work, first, known, "add", inner, other)
            return None if total is None else _replaced(node, root, term, path[0] + total[0], total[1])
    return None


def _alone(root: Term, term: Term) -> bool:
    """Whether the reduced value is read once in ``term`` and nowhere else: a step may serve several others, and a factor of
    one of several uses is no factor of the sum."""

    def reads(one: Term, without: Term | None, seen: dict[int, int]) -> int:
        if one is without:
            return 0
        if id(one) not in seen:
            mine = int(one.name == "arg" and one.imm == -1)
            seen[id(one)] = mine + sum(reads(child, without, seen) for child in one.args)
        return seen[id(one)]

    return reads(term, None, {}) == 1 and reads(root, term, {}) == 0


def _path(root: Term) -> list[Term]:
    """Terms from the reduced value to the root (it occurs once)."""

    def find(term: Term) -> list[Term] | None:
        if term.name == "arg" and term.imm == -1:
            return [term]
        for child in term.args:
            found = find(child)
            if found is not None:
                return [*found, term]
        return None

    return find(root) or []


def _other(term: Term, below: Term) -> Term | None:
    """The second argument of an addition or a product."""
    if term.name not in ("add", "mul") or term.args[0] is term.args[1]:
        return None
    return term.args[1] if term.args[0] is below else term.args[0]


def _known(node: Compute, work: _Constants, term: Term) -> _Known | None:
    if term.name == "const":
        return _Known(np.asarray(term.imm, term.dtype.numpy), None, -1)
    if term.name != "arg" or not isinstance(term.imm, int) or term.imm < 0:
        return None
    operand = node.operands[term.imm]
    array = work.constants.get(operand.value)
    return None if array is None or operand.fill is not None else _Known(array, operand, term.imm)


def _combined(
    node: Compute, work: _Constants, a: _Known, b: _Known, how: str, a_term: Term, b_term: Term
) -> tuple[Term, tuple[Operand, ...]] | None:
    """``a how b`` as one constant: both literals, one literal, or two operands that are read alike."""
    dtype = a_term.dtype
    if a.operand is None and b.operand is None:
        return Term("const", (), dtype, float(apply(how, [a.array, b.array], dtype.numpy))), node.operands
    base = a if a.operand is not None else b
    assert base.operand is not None
    other = b if base is a else a
    left, right = a.array, b.array
    if other.operand is not None:
        aligned = _aligned(other, base)
        if aligned is None:
            return None
        left, right = (base.array, aligned) if base is a else (aligned, base.array)
    name = work.add(base.operand.value, apply(how, [left, right], dtype.numpy))
    operands = list(node.operands)
    operands[base.position] = replace(base.operand, value=name)
    return arg(base.position, dtype), tuple(operands)


def _aligned(other: _Known, base: _Known) -> Array | None:
    """``other``'s array so that it broadcasts against ``base``'s, when both are read by the same loops."""
    assert other.operand is not None
    assert base.operand is not None
    return _spread(other, base.operand.access, base.array.shape)


def _spread(known: _Known, access: Access, shape: tuple[int, ...]) -> Array | None:
    """The constant as a factor of a tensor read by ``access``: each of its wide dimensions is one of the tensor's."""
    assert known.operand is not None
    mine = known.operand.access
    places: list[int] = []
    for j, n in enumerate(known.array.shape):
        if n == 1:
            continue
        row = (mine.offset[j], mine.matrix[j])
        match = [k for k, m in enumerate(shape) if m == n and (access.offset[k], access.matrix[k]) == row]
        if not match or (places and match[0] <= places[-1]):
            return None
        places.append(match[0])
    if any(mine.offset[j] for j, n in enumerate(known.array.shape) if n == 1):
        return None
    return known.array.reshape([shape[k] if k in places else 1 for k in range(len(shape))])


def _absorb_factor(
    node: Compute, work: _Constants, root: Term, term: Term, below: Term, factor: _Known
) -> Compute | None:
    """``(reduced [+ b]) * f``: f goes into the weights, and into b."""
    weights = node.operands[1]
    array = work.constants.get(weights.value)
    if array is None or factor.array.size == 0 or not np.isfinite(factor.array).all():
        return None
    spread = factor.array if factor.operand is None else _spread(factor, weights.access, array.shape)
    if spread is None:
        return None
    operands = node.operands
    replacement = below
    if below.name == "add":
        inner = _other(below, _path(below)[0])
        known = _known(node, work, inner) if inner is not None else None
        if inner is None or known is None or below.args[0] is below.args[1]:
            return None
        other = _other(term, below)
        assert other is not None
        combined = _combined(node, work, known, factor, "mul", inner, other)
        if combined is None or len(_path(below)) != 2:
            return None
        replacement, operands = _path(below)[0] + combined[0], combined[1]
    elif below.name != "arg":
        return None
    scaled = work.add(weights.value, apply("mul", [array, spread], array.dtype))
    operands = (operands[0], replace(weights, value=scaled), *operands[2:])
    return _replaced(node, root, term, replacement, operands)


def _replaced(node: Compute, root: Term, old: Term, new: Term, operands: tuple[Operand, ...]) -> Compute:
    """The node with one subtree of its post exchanged; operands that nobody reads any more are dropped."""

    def rebuilt(term: Term) -> Term:
        if term is old:
            return new
        return term if not term.args else Term(term.name, tuple(rebuilt(a) for a in term.args), term.dtype, term.imm)

    post = expression(rebuilt(root))
    used = {0, 1, *(int(s.imm) for s in post.steps if s.op == "arg" and s.imm is not None and s.imm >= 0)}
    places = {old_place: i for i, old_place in enumerate(sorted(used))}
    kept = tuple(operands[i] for i in sorted(used))
    steps = tuple(
        replace(s, imm=places[int(s.imm)]) if s.op == "arg" and s.imm is not None and s.imm >= 0 else s
        for s in post.steps
    )
    final = None if len(steps) == 1 and steps[0].op == "arg" and steps[0].imm == -1 else replace(post, steps=steps)
    return replace(node, operands=kept, post=final)
