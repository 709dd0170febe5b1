"""Reductions over small windows become maps over shifted views: a vector unit folds up to four values in one pass.

The values meet in the order of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType

LARGEST = 32  # points of a window; beyond, a reduction fills the lanes better
POINTS = 256  # results that make it worth while: fewer do not fill the lanes, and a reduction tree is one instruction
STREAMS = 4  # values that one map takes
FOLDS = {"max": "max", "min": "min", "sum": "add"}


def windows(graph: Graph) -> Graph:
    """Every reduction of at most ``LARGEST`` points of one operand as maps of at most four."""
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _maps(node, types) if isinstance(node, Compute) and _fits(node) else [node]
    return replace(graph, nodes=tuple(nodes), types=types)


def _fits(node: Compute) -> bool:
    count = node.reduction
    if node.reducer not in FOLDS or not node.expr.is_identity or not 1 < count <= LARGEST or node.points < POINTS:
        return False
    if node.post is not None and any(s.op == "arg" and s.imm != -1 for s in node.post.steps):
        return False
    # The reduction's tree is filled up with zeros, which changes the sign of a sum of negative zeros.
    return node.reducer != "sum" or not node.expr.dtype.is_float or count & (count - 1) == 0


def _maps(node: Compute, types: dict[str, TensorType]) -> list[Node]:
    shape = node.loops[: node.parallel]
    whole = node.operands[int(node.expr.steps[0].imm or 0)]
    values = [_shifted(whole, node, point) for point in product(*(range(n) for n in node.loops[node.parallel :]))]
    made: list[Node] = []
    while len(values) > STREAMS:
        folded: list[Operand] = []
        for at in range(0, len(values), STREAMS):
            group = values[at : at + STREAMS]
            if len(group) > 1:
                name = _unused(f"{node.output}~w{len(made)}", types)
                types[name] = TensorType(node.expr.dtype, shape)
                made.append(_map(node, f"{node.name}~w{len(made)}", name, group, shape))
                group = [Operand(name, Access.identity(len(shape)))]
            folded += group
        values = folded
    last = _map(node, node.name, node.output, values, shape)
    if node.post is not None:
        last = replace(last, expr=expression(term_of(node.post, {-1: term_of(last.expr)})))
    return [*made, last]


def _shifted(operand: Operand, node: Compute, point: tuple[int, ...]) -> Operand:
    """The operand at one point of the window."""
    outer = node.parallel
    matrix = operand.access.matrix
    offset = tuple(
        o + sum(c * r for c, r in zip(row[outer:], point, strict=True))
        for o, row in zip(operand.access.offset, matrix, strict=True)
    )
    return replace(operand, access=Access(offset, tuple(row[:outer] for row in matrix)))


def _map(node: Compute, name: str, output: str, values: list[Operand], shape: tuple[int, ...]) -> Compute:
    assert node.reducer is not None
    terms: list[Term] = [arg(i, node.expr.dtype) for i in range(len(values))]
    while len(terms) > 1:
        pairs = [a.op(FOLDS[node.reducer], b) for a, b in zip(terms[0::2], terms[1::2], strict=False)]
        terms = pairs + ([terms[-1]] if len(terms) % 2 else [])
    return replace(
        node,
        name=name,
        output=output,
        loops=shape,
        operands=tuple(values),
        expr=expression(terms[0]),
        reducer=None,
        post=None,
    )


def _unused(name: str, types: dict[str, TensorType]) -> str:
    while name in types:
        name += "'"
    return name
