"""Reductions over small windows become maps over shifted views: a vector unit folds up to four values in one pass.

The values meet in the order of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from compiler.ir import REDUCED, Compute, Graph, Node, Operand, TensorType, Term, arg, const, expression, term_of
from compiler.passes.rewriter import Rewriter

LARGEST = 32  # points of a window; beyond, a reduction fills the lanes better
POINTS = 256  # results that make it worth while: fewer do not fill the lanes, and a reduction tree is one instruction
STREAMS = 4  # values that one map takes
FOLDS = {"max": "max", "min": "min", "sum": "add"}


@dataclass(frozen=True)
class _Value:
    """A value of the reduction's tree. ``folded``: of several elements; otherwise the expression is yet to be applied to it.
    ``alone``: nothing stood beside it where the tree is filled up with zeros, which decide the sign of a zero."""

    operand: Operand
    folded: bool = False
    alone: bool = False


def windows(graph: Graph) -> Graph:
    """Every reduction of at most ``LARGEST`` points of one operand as maps of at most four values."""
    writer = Rewriter(graph)
    return writer.each(lambda node: _maps(node, writer) if _fits(node) else None, Compute)


def _fits(node: Compute) -> bool:
    if node.reducer not in FOLDS or node.is_contraction or not 1 < node.reduction <= LARGEST or node.points < POINTS:
        return False
    behind = node.post.reads if node.post is not None else {}
    if len(node.expr.reads) != 1 or len(behind) >= STREAMS - 1 or node.indices:
        return False
    return _slides(node, node.operands[next(iter(node.expr.reads))]) or (_is_plain(node) and not behind)


def _is_plain(node: Compute) -> bool:
    """Whether elements are reduced as they are, in a tree that is full where that matters."""
    return node.expr.is_identity and not (_is_float_sum(node) and node.reduction & (node.reduction - 1))


def _slides(node: Compute, operand: Operand) -> bool:
    """Whether the reduction is over windows: each of its loops moves a coordinate that a loop over results moves as well.
    Neighbours along one dimension of which each is in one window are none: they lie side by side as they are."""
    inner = [i for i in node.inner if node.loops[i] > 1]
    rows = [[operand.access.matrix[j][: node.parallel] for j in operand.access.dims(i)] for i in inner]
    steps = [max((max(row, default=0) for row in some), default=0) for some in rows]
    return all(steps) and (len(inner) > 1 or steps[0] < node.loops[inner[0]])


def _is_float_sum(node: Compute) -> bool:
    return node.reducer == "sum" and node.expr.dtype.is_float


def _maps(node: Compute, writer: Rewriter) -> list[Node]:
    whole = node.operands[next(iter(node.expr.reads))]
    values = [_Value(_at(whole, node, point)) for point in product(*(range(node.loops[i]) for i in node.inner))]
    behind = [_at(node.operands[i], node, (0,) * len(node.inner)) for i in (node.post.reads if node.post else ())]
    made: list[Node] = []
    while len(values) > STREAMS - len(behind):
        folded: list[_Value] = []
        for at in range(0, len(values), STREAMS):
            group = values[at : at + STREAMS]
            if len(group) > 1:
                tag = f"~w{len(made)}"
                value = writer.value(node.output + tag, TensorType(node.expr.dtype, node.shape))
                made.append(_map(node, writer.name(node.name + tag), value, group))
                folded.append(_Value(writer.whole(value), folded=True))
            else:
                folded.append(replace(group[0], alone=True))
        values = folded
    last = _map(node, node.name, node.output, values)
    if node.post is not None:
        places = {i: arg(len(values) + at, dtype) for at, (i, dtype) in enumerate(node.post.reads.items())}
        expr = expression(term_of(node.post, places | {REDUCED: term_of(last.expr)}))
        last = replace(last, operands=(*last.operands, *behind), expr=expr)
    return [*made, last]


def _at(operand: Operand, node: Compute, point: tuple[int, ...]) -> Operand:
    """The operand at one point of the window."""
    access = operand.access
    for loop, place in zip(node.inner, point, strict=True):
        access = access.shifted(loop, place)
    return operand.read_by(access.keep(range(node.parallel)))


def _map(node: Compute, name: str, output: str, values: list[_Value]) -> Compute:
    """The values folded pair by pair, as the reduction's tree does."""
    assert node.reducer is not None
    ((place, dtype),) = node.expr.reads.items()
    terms: list[Term] = []
    for i, value in enumerate(values):
        element = arg(i, node.expr.dtype if value.folded else dtype)
        term = element if value.folded else term_of(node.expr, {place: element})
        odd = i == len(values) - 1 and len(values) % 2 and i
        terms.append(term + const(0.0, node.expr.dtype) if _is_float_sum(node) and (value.alone or odd) else term)
    expr = expression(paired(terms, FOLDS[node.reducer]))
    operands = tuple(value.operand for value in values)
    return replace(
        node, name=name, output=output, loops=node.shape, operands=operands, expr=expr, reducer=None, post=None
    )


def paired(terms: Sequence[Term], op: str) -> Term:
    """Neighbours joined by ``op``, then neighbours of these, until one is left."""
    while len(terms) > 1:
        pairs = [a.op(op, b) for a, b in zip(terms[0::2], terms[1::2], strict=False)]
        terms = [*pairs, *(terms[-1:] if len(terms) % 2 else [])]
    return terms[0]
