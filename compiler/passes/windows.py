"""Reductions over small windows become maps over shifted views: a vector unit folds up to four values in one pass.

The values meet in the order of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from compiler.ir.expr import REDUCED
from compiler.ir.graph import Compute, Graph, Node, Operand
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType
from compiler.passes.rewriter import Rewriter

LARGEST = 32  # points of a window; beyond, a reduction fills the lanes better
POINTS = 256  # results that make it worth while: fewer do not fill the lanes, and a reduction tree is one instruction
STREAMS = 4  # values that one map takes
FOLDS = {"max": "max", "min": "min", "sum": "add"}


def windows(graph: Graph) -> Graph:
    """Every reduction of at most ``LARGEST`` points of one operand as maps of at most four."""
    writer = Rewriter(graph)
    return writer.each(lambda node: _maps(node, writer) if _fits(node) else None, Compute)


def _fits(node: Compute) -> bool:
    count = node.reduction
    if node.reducer not in FOLDS or not node.expr.is_identity or not 1 < count <= LARGEST or node.points < POINTS:
        return False
    if node.post is not None and node.post.reads:
        return False
    # The reduction's tree is filled up with zeros, which changes the sign of a sum of negative zeros.
    return node.reducer != "sum" or not node.expr.dtype.is_float or count & (count - 1) == 0


def _maps(node: Compute, writer: Rewriter) -> list[Node]:
    whole = node.operands[int(node.expr.steps[0].imm or 0)]
    values = [_at(whole, node, point) for point in product(*(range(node.loops[i]) for i in node.inner))]
    made: list[Node] = []
    while len(values) > STREAMS:
        folded: list[Operand] = []
        for at in range(0, len(values), STREAMS):
            group = values[at : at + STREAMS]
            if len(group) > 1:
                tag = f"~w{len(made)}"
                value = writer.value(node.output + tag, TensorType(node.expr.dtype, node.shape))
                made.append(_map(node, writer.name(node.name + tag), value, group))
                group = [writer.whole(value)]
            folded += group
        values = folded
    last = _map(node, node.name, node.output, values)
    if node.post is not None:
        last = replace(last, expr=expression(term_of(node.post, {REDUCED: term_of(last.expr)})))
    return [*made, last]


def _at(operand: Operand, node: Compute, point: tuple[int, ...]) -> Operand:
    """The operand at one point of the window."""
    access = operand.access
    for loop, place in zip(node.inner, point, strict=True):
        access = access.shifted(loop, place)
    return operand.read_by(access.keep(range(node.parallel)))


def _map(node: Compute, name: str, output: str, values: list[Operand]) -> Compute:
    """The values folded pair by pair, as the reduction's tree does."""
    assert node.reducer is not None
    expr = expression(paired([arg(i, node.expr.dtype) for i in range(len(values))], FOLDS[node.reducer]))
    operands = tuple(values)
    return replace(
        node, name=name, output=output, loops=node.shape, operands=operands, expr=expr, reducer=None, post=None
    )


def paired(terms: Sequence[Term], op: str) -> Term:
    """Neighbours joined by ``op``, then neighbours of these, until one is left."""
    while len(terms) > 1:
        pairs = [a.op(op, b) for a, b in zip(terms[0::2], terms[1::2], strict=False)]
        terms = [*pairs, *(terms[-1:] if len(terms) % 2 else [])]
    return terms[0]
