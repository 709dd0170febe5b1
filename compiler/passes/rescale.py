"""Constant factors inside an epilogue go where they cost nothing: into constant weights before or behind it.

``x / 2 * (1 + erf(x / sqrt(2)))`` behind a dense layer takes five steps besides its erf. With the layer's weights and bias
divided by sqrt(2) its result is what erf reads; a product with ``1 + e`` is one step, ``a * e + a``; and the factor that is left
goes into the weights of the layer that reads the result. Source: the error-linear unit of D. Hendrycks and K. Gimpel,
"Gaussian Error Linear Units", 2016; the same holds for other gates of an input times a constant. The factor of a gate to
which something is added (``f * (x * clip(x / 6 + 1 / 2)) + c``, a scale and a shift that were learned) goes into the weights
before it: the product and the sum are then one step.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.ir.graph import Compute, Graph, Node, Operand, readers_of, reads_of
from compiler.ir.terms import Term, const, expression, term_of
from compiler.ir.types import TensorType
from compiler.passes.multiply_add import fused

Array = np.ndarray[Any, Any]
LEAST, MOST = 2.0**-10, 2.0**10  # of a factor that weights take: ranges stay those of the type


def rescale(graph: Graph) -> Graph:
    """Epilogues with their constant factors in the weights before and behind them, where that saves steps."""
    work = _Work(graph)
    for name in [n.output for n in graph.nodes if _has_epilogue(n)]:
        work.simplified(name)
    if work.nodes == {n.output: n for n in graph.nodes}:
        return graph
    nodes = tuple(work.nodes[n.output] for n in graph.nodes)
    used = {value for n in nodes for value in reads_of(n)} | {*graph.outputs}
    kept = {name: a for name, a in work.constants.items() if name in used or name in graph.constants}
    return replace(graph, nodes=nodes, constants=kept, types=work.types)


def _has_epilogue(node: Node) -> bool:
    return isinstance(node, Compute) and node.is_contraction and node.post is not None and node.post.dtype.is_float


@dataclass(frozen=True)
class _Part:
    """A term in which the sum is replaced by another: the old one times the factor if ``linear``, else the old one."""

    term: Term
    linear: bool


class _Work:
    """The graph's nodes by their outputs, its constants and those added."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: dict[str, Node] = {n.output: n for n in graph.nodes}
        self.readers = readers_of(graph)
        self.constants, self.types = dict(graph.constants), dict(graph.types)
        self.kept = {*graph.outputs, *(s.update for s in graph.states)}
        self.uses = Counter(value for n in graph.nodes for value in reads_of(n))

    def simplified(self, name: str) -> None:
        """Exchange a contraction, and who reads it, for what takes fewer steps."""
        node = self.nodes[name]
        assert isinstance(node, Compute)
        assert node.post is not None
        root = term_of(node.post)
        parts, factor = _factors(root)
        if not parts or root.name not in ("mul", "add"):
            return
        core = _gated(parts)
        able = self._takers(name)
        total = self._scalable(node, core)
        inner = _inner(core, total) if total is not None else None
        within = _within(core, total, inner)
        best: Term | None = None
        taken, before = 1.0, 1.0
        found = [(core, factor, 1.0), (within, factor / inner if inner else 1.0, inner or 1.0)]
        found += [(shifted, 1.0, own) for shifted, own in _shifted(root, total)]
        for term, left, own in found:
            if term is None or (able and not LEAST <= abs(left) <= MOST):
                continue
            whole = term if able or left == 1.0 else term * const(left, root.dtype)
            if _steps(whole) < _steps(best or root):
                best, taken, before = whole, left if able else 1.0, own
        if best is not None:
            self._exchange(node, best, before)
            for reader in able if taken != 1.0 else []:
                self._scale_reader(reader, name, taken)

    def _takers(self, name: str) -> list[str]:
        """Who reads the value, if all of them multiply it by constants of their own."""
        readers = [self.nodes[r.output] for r in self.readers.get(name, [])]
        good = all(self._weights(r, name) is not None for r in readers)
        return [r.output for r in readers] if readers and good and name not in self.kept else []

    def _weights(self, node: Node, moving: str | None = None) -> int | None:
        """The position of a contraction's constant factor that nobody else reads, beside ``moving`` if that is given."""
        if not isinstance(node, Compute) or not node.is_contraction or not node.expr.dtype.is_float:
            return None
        known = [o.value in self.constants for o in node.operands[:2]]
        if sum(known) != 1:
            return None
        weights, other = node.operands[known.index(True)], node.operands[known.index(False)]
        if moving is not None and (other.value != moving or sum(o.value == moving for o in node.operands) != 1):
            return None
        plain = weights.fill in (None, 0.0) and other.fill in (None, 0.0)
        return known.index(True) if plain and self.uses[weights.value] == 1 else None

    def _scalable(self, node: Compute, core: Term) -> Term | None:
        """The sum in an epilogue, with its bias, if constant weights and that bias may be multiplied by a factor."""
        total = _total(core)
        if self._weights(node) is None or total is None or (total.name == "add" and self._bias(node, total) is None):
            return None
        return total

    def _bias(self, node: Compute, total: Term) -> Operand | None:
        """The constant that is added to the sum and to nothing else."""
        at = _addend(total).imm
        operand = node.operands[at] if isinstance(at, int) and at > 1 else None
        alone = operand is not None and operand.value in self.constants and operand.fill is None
        again = sum(s.op == "arg" and s.imm == at for s in node.post.steps) if node.post else 0
        return operand if alone and again == 1 else None

    def _exchange(self, node: Compute, post: Term, factor: float) -> None:
        operands = list(node.operands)
        if factor != 1.0:
            total = _total(post)
            position = self._weights(node)
            assert position is not None
            assert total is not None
            places = [position, *([int(_addend(total).imm or 0)] if total.name == "add" else [])]
            for at in places:
                operands[at] = replace(operands[at], value=self._scaled(operands[at].value, factor))
        self.nodes[node.output] = replace(node, operands=tuple(operands), post=expression(post))

    def _scale_reader(self, output: str, moving: str, factor: float) -> None:
        reader = self.nodes[output]
        position = self._weights(reader, moving)
        assert isinstance(reader, Compute)
        assert position is not None
        operands = list(reader.operands)
        operands[position] = replace(operands[position], value=self._scaled(operands[position].value, factor))
        self.nodes[output] = replace(reader, operands=tuple(operands))

    def _scaled(self, value: str, factor: float) -> str:
        name = f"{value}~times"
        while name in self.types:
            name += "'"
        array: Array = self.constants[value]
        with np.errstate(all="ignore"):
            self.constants[name] = array * array.dtype.type(factor)
        self.types[name] = TensorType(self.types[value].dtype, array.shape)
        self.uses[name] = 1
        return name


def _steps(term: Term) -> int:
    """Steps of an expression once products and sums are one; a quotient is two."""
    free = ("arg", "const", "cast")
    return sum((s.op not in free) + (s.op == "div") for s in fused(expression(term)).steps)


def _literal(term: Term) -> float | None:
    return float(term.imm) if term.name == "const" and term.imm is not None and term.imm != 0 else None


def _by(term: Term) -> tuple[Term, float] | None:
    """What a term multiplies by a literal, and the literal."""
    if term.name not in ("mul", "div"):
        return None
    first, second = term.args
    if (known := _literal(second)) is not None:
        return first, known if term.name == "mul" else 1.0 / known
    known = _literal(first) if term.name == "mul" else None
    return (second, known) if known is not None else None


def _factors(term: Term) -> tuple[list[Term], float]:
    """The factors of a product that are no literals, and the product of those that are."""
    found = _by(term)
    if found is not None:
        parts, factor = _factors(found[0])
        return parts, factor * found[1]
    if term.name == "mul":
        (left, one), (right, two) = (_factors(a) for a in term.args)
        return left + right, one * two
    return [term], 1.0


def _gated(parts: list[Term]) -> Term:
    """The product of the parts; of ``e + 1`` among them as ``a * e + a``."""
    for at, part in enumerate(parts if len(parts) > 1 else []):
        for one, other in (part.args, part.args[::-1]) if part.name == "add" else ():
            if _literal(one) == 1.0:
                rest = _product(parts[:at] + parts[at + 1 :])
                return rest * other + rest
    return _product(parts)


def _product(parts: list[Term]) -> Term:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole * part
    return whole


def _total(root: Term) -> Term | None:
    """The sum, with the operand that is added to it at once; None where it is read in another way too."""
    found: dict[int, Term] = {}

    def look(term: Term) -> None:
        for child in term.args:
            if child.name == "arg" and child.imm == -1:
                biased = term.name == "add" and all(a.name == "arg" for a in term.args)
                found[id(term if biased else child)] = term if biased else child
            look(child)

    look(root)
    return next(iter(found.values())) if len(found) == 1 else None


def _addend(total: Term) -> Term:
    """What is added to the sum at once."""
    return next((a for a in total.args if a.imm != -1), total.args[0])


def _inner(term: Term, total: Term) -> float | None:
    """The first literal that the sum is multiplied by."""
    found = _by(term)
    if found is not None and found[0] is total:
        return found[1]
    return next((f for a in term.args if (f := _inner(a, total)) is not None), None)


def _within(term: Term, total: Term | None, factor: float | None) -> Term | None:
    """An epilogue divided by a factor that the weights take; none where that cannot be."""
    if total is None or not factor or not LEAST <= abs(factor) <= MOST:
        return None
    part = _swapped(term, total, factor)
    return part.term if part is not None and part.linear else None


def _shifted(root: Term, total: Term | None) -> list[tuple[Term, float]]:
    """Ways of a product of the sum with gates of its own, to which something may be added, without the product's literal factor:
    the weights have it, and the gates read the sum divided by it."""
    if total is None:
        return []
    shifts = zip(root.args, root.args[::-1], strict=True) if root.name == "add" else ()
    found = []
    for product, other in [(root, None), *shifts]:
        parts, factor = _factors(product)
        alone = sum(part is total for part in parts) == 1 and (other is None or not _reads_sum(other))
        if not alone or factor == 1.0 or not LEAST <= abs(factor) <= MOST:
            continue
        gated = _product([part if part is total else _divided(part, total, factor) for part in parts])
        found.append((gated if other is None else gated + other, factor))
    return found


def _divided(term: Term, total: Term, factor: float) -> Term:
    """The term if the sum were ``factor`` times what it is."""
    if term is total:
        return total * const(1.0 / factor, term.dtype)
    found = _by(term)
    if found is not None and found[0] is total:
        return total * const(found[1] / factor, term.dtype)
    args = tuple(_divided(a, total, factor) for a in term.args)
    return term if all(a is b for a, b in zip(args, term.args, strict=True)) else replace(term, args=args)


def _reads_sum(term: Term) -> bool:
    return (term.name == "arg" and term.imm == -1) or any(map(_reads_sum, term.args))


def _swapped(term: Term, total: Term, factor: float) -> _Part | None:
    """The term if the sum were ``factor`` times what it is; None where it is no such term, nor that times the factor."""
    if term is total:
        return _Part(term, linear=True)
    found = _by(term)
    if found is not None and found[0] is total:
        ratio = found[1] / factor
        return _Part(total if abs(ratio - 1.0) < 1e-7 else total * const(ratio, term.dtype), linear=False)
    parts = [_swapped(a, total, factor) for a in term.args]
    args = tuple(p.term for p in parts if p is not None)
    if len(args) < len(parts):
        return None
    linear = [p.linear for p in parts if p is not None]
    if (
        any(linear)
        and not (term.name in ("add", "sub") and all(linear))
        and not (term.name == "mul" and sum(linear) == 1)
    ):
        return None
    made = term if all(a is b for a, b in zip(args, term.args, strict=True)) else replace(term, args=args)
    return _Part(made, linear=any(linear))
