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

from compiler.ir import REDUCED, Compute, Graph, Node, Term, const, expression, reads_of, term_of
from compiler.passes.identities import GATE
from compiler.passes.multiply_add import fused
from compiler.passes.patterns import matches, pattern, rewritten
from compiler.passes.rewriter import Rewriter

Array = np.ndarray[Any, Any]
LEAST, MOST = 2.0**-10, 2.0**10  # of a factor that weights take: ranges stay those of the type
PRODUCT, QUOTIENT = pattern("x * c"), pattern("x / c")


def rescale(graph: Graph) -> Graph:
    """Epilogues with their constant factors in the weights before and behind them, where that saves steps."""
    work = _Work(graph)
    for node in graph.nodes:
        if isinstance(node, Compute) and node.is_contraction and node.post is not None and node.post.dtype.is_float:
            work.simplified(node.output)
    made = work.writer.done(work.nodes[n.output] for n in graph.nodes)
    used = {value for n in made.nodes for value in reads_of(n)} | {*graph.outputs}
    return replace(made, constants={n: a for n, a in made.constants.items() if n in used or n in graph.constants})


@dataclass(frozen=True)
class _Part:
    """A term in which the sum is replaced by another: the old one times the factor if ``linear``, else the old one."""

    term: Term
    linear: bool


@dataclass(frozen=True)
class _Way:
    """A new epilogue: ``left`` is a factor that its readers' weights take, ``before`` one of the weights before it."""

    term: Term
    left: float
    before: float

    @property
    def alone(self) -> _Way:
        """With the factor in the epilogue."""
        return _Way(self.term * const(self.left, self.term.dtype), 1.0, self.before)


class _Work:
    """The graph's nodes by their outputs, as they become."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.writer = graph, Rewriter(graph)
        self.nodes = dict(self.writer.makers)
        self.uses = Counter(value for n in graph.nodes for value in reads_of(n))

    def simplified(self, name: str) -> None:
        """Exchange a contraction, and who reads it, for what takes fewer steps."""
        node = self.nodes[name]
        assert isinstance(node, Compute)
        assert node.post is not None
        root, takers = term_of(node.post), self._takers(name)
        ways = self._ways(node, root)
        if takers:
            able = [way for way in ways if _is_ordinary(way.left)]
        else:
            able = [way if way.left == 1.0 else way.alone for way in ways]
        best = min([_Way(root, 1.0, 1.0), *able], key=lambda way: _steps(way.term))
        if best.term is not root:
            self._exchange(node, best)
            for reader in takers if best.left != 1.0 else []:
                self._scale_reader(reader, name, best.left)

    def _ways(self, node: Compute, root: Term) -> list[_Way]:
        """Epilogues that give the same: without literal factors; also with one in the weights; with a shift behind it."""
        parts, factor = _factors(root)
        if not parts or root.name not in ("mul", "add"):
            return []
        core = _gated(parts)
        found = [_Way(core, factor, 1.0)]
        total = self._scalable(node, core)
        inner = None if total is None else _inner(core, total)
        within = None if total is None or inner is None else _within(core, total, inner)
        if within is not None and inner:
            found.append(_Way(within, factor / inner, inner))
        return found + ([] if total is None else _shifted(root, total))

    def _takers(self, name: str) -> list[str]:
        """Who reads the value, if all of them multiply it by constants of their own."""
        readers = [self.nodes[r.output] for r in self.writer.readers.get(name, [])]
        good = all(self._weights(r, name) is not None for r in readers)
        return [r.output for r in readers] if good and name not in self.graph.kept else []

    def _weights(self, node: Node, moving: str | None = None) -> int | None:
        """The position of a contraction's constant factor that nobody else reads, beside ``moving`` if that is given."""
        if not isinstance(node, Compute) or not node.is_contraction or not node.expr.dtype.is_float:
            return None
        known = [i for i, o in enumerate(node.operands[:2]) if o.value in self.writer.constants]
        if len(known) != 1 or any(o.fill not in (None, 0.0) for o in node.operands[:2]):
            return None
        (at,) = known
        beside = moving is None or _reading(node, moving) == [1 - at]
        return at if beside and self.uses[node.operands[at].value] == 1 else None

    def _scalable(self, node: Compute, core: Term) -> Term | None:
        """The sum in an epilogue, with its bias, if constant weights and that bias may be multiplied by a factor."""
        total = _total(core)
        if self._weights(node) is None or total is None or (total.name == "add" and not self._is_bias(node, total)):
            return None
        return total

    def _is_bias(self, node: Compute, total: Term) -> bool:
        """Whether a constant is added to the sum, and to nothing else."""
        at = _addend(total).imm
        operand = node.operands[at] if isinstance(at, int) and at > 1 else None
        if operand is None or node.post is None or operand.fill is not None:
            return False
        return operand.value in self.writer.constants and node.post.times(int(at or 0)) == 1

    def _exchange(self, node: Compute, way: _Way) -> None:
        made = replace(node, post=expression(way.term))
        if way.before != 1.0:
            total, position = _total(way.term), self._weights(node)
            assert position is not None
            assert total is not None
            places = [position, *([int(_addend(total).imm or 0)] if total.name == "add" else [])]
            made = self._scaled(made, places, way.before)
        self.nodes[node.output] = made

    def _scale_reader(self, output: str, moving: str, factor: float) -> None:
        reader = self.nodes[output]
        position = self._weights(reader, moving)
        assert isinstance(reader, Compute)
        assert position is not None
        self.nodes[output] = self._scaled(reader, [position], factor)

    def _scaled(self, node: Compute, places: list[int], factor: float) -> Compute:
        """The node with constants times the factor."""
        operands = list(node.operands)
        for at in places:
            array: Array = self.writer.constants[operands[at].value]
            with np.errstate(all="ignore"):
                name = self.writer.constant(f"{operands[at].value}~times", array * array.dtype.type(factor))
            self.uses[name] = 1
            operands[at] = replace(operands[at], value=name)
        return replace(node, operands=tuple(operands))


def _reading(node: Compute, value: str) -> list[int]:
    """Operands that are a value."""
    return [i for i, o in enumerate(node.operands) if o.value == value]


def _is_ordinary(factor: float) -> bool:
    """Whether weights may take a factor: ranges stay those of the type."""
    return LEAST <= abs(factor) <= MOST


def _steps(term: Term) -> int:
    """Steps of an expression once products and sums are one; a quotient is two."""
    free = ("arg", "const", "cast")
    return sum((s.op not in free) + (s.op == "div") for s in fused(expression(term)).steps)


def _by(term: Term) -> tuple[Term, float] | None:
    """What a term multiplies by a literal, and the literal."""
    for wanted in (PRODUCT, QUOTIENT):
        for found in matches(wanted, term):
            if found["c"].imm:
                literal = float(found["c"].imm)
                return found["x"], literal if wanted is PRODUCT else 1.0 / literal
    return None


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
        taken = rewritten(_product(parts[:at] + parts[at + 1 :]) * part, GATE)
        if taken is not None:
            return taken
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


def _within(term: Term, total: Term, factor: float) -> Term | None:
    """An epilogue divided by a factor that the weights take; none where that cannot be."""
    part = _swapped(term, total, factor) if _is_ordinary(factor) else None
    return part.term if part is not None and part.linear else None


def _shifted(root: Term, total: Term) -> list[_Way]:
    """Ways of a product of the sum with gates of its own, to which something may be added, without the product's literal factor:
    the weights have it, and the gates read the sum divided by it."""
    shifts = zip(root.args, root.args[::-1], strict=True) if root.name == "add" else ()
    found = []
    for product, other in [(root, None), *shifts]:
        parts, factor = _factors(product)
        alone = sum(part is total for part in parts) == 1 and (other is None or not _reads_sum(other))
        if alone and factor != 1.0 and _is_ordinary(factor):
            gated = _product([part if part is total else _divided(part, total, factor) for part in parts])
            found.append(_Way(gated if other is None else gated + other, 1.0, factor))
    return found


def _divided(term: Term, total: Term, factor: float) -> Term:
    """The term if the sum were ``factor`` times what it is."""
    if term is total:
        return total * const(1.0 / factor, term.dtype)
    found = _by(term)
    if found is not None and found[0] is total:
        return total * const(found[1] / factor, term.dtype)
    return term.on(_divided(a, total, factor) for a in term.args)


def _reads_sum(term: Term) -> bool:
    return term.reads(REDUCED) or any(map(_reads_sum, term.args))


def _swapped(term: Term, total: Term, factor: float) -> _Part | None:
    """The term if the sum were ``factor`` times what it is; None where it is no such term, nor that times the factor."""
    if term is total:
        return _Part(term, linear=True)
    found = _by(term)
    if found is not None and found[0] is total:
        ratio = found[1] / factor
        return _Part(total if abs(ratio - 1.0) < 1e-7 else total * const(ratio, term.dtype), linear=False)
    parts = [part for a in term.args if (part := _swapped(a, total, factor)) is not None]
    linear = sum(part.linear for part in parts)
    takes = {"add": len(parts), "sub": len(parts), "mul": 1}.get(
        term.name, 0
    )  # arguments that are to be linear, or none
    if len(parts) < len(term.args) or linear not in (0, takes):
        return None
    return _Part(term.on(part.term for part in parts), linear=linear > 0)
