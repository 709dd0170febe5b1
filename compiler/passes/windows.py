"""Reductions over small windows become maps over shifted views: a vector unit folds up to four values in one pass.

The values meet in the order of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

from compiler.ir.access import Access
from compiler.ir.expr import Expr
from compiler.ir.graph import Compute, Graph, Node, Operand
from compiler.ir.terms import Term, arg, const, expression, term_of
from compiler.ir.types import DType, TensorType

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
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += _maps(node, types) if isinstance(node, Compute) and _fits(node) else [node]
    return replace(graph, nodes=tuple(nodes), types=types)


def _fits(node: Compute) -> bool:
    count, read = node.reduction, {s.imm for s in node.expr.steps if s.op == "arg"}
    if node.reducer not in FOLDS or node.is_contraction or not 1 < count <= LARGEST or node.points < POINTS:
        return False
    behind = {s.imm for s in node.post.steps if s.op == "arg"} - {-1} if node.post is not None else set()
    counted = any(s.op == "index" for s in (*node.expr.steps, *(node.post.steps if node.post else ())))
    if len(read) != 1 or counted or len(behind) >= STREAMS - 1:
        return False
    if _slides(node, node.operands[int(read.pop() or 0)]):
        return True
    padded = node.reducer == "sum" and node.expr.dtype.is_float and count & (count - 1) != 0
    return node.expr.is_identity and not behind and not padded


def _slides(node: Compute, operand: Operand) -> bool:
    """Whether the reduction is over windows: each of its loops moves a coordinate that a loop over results moves as well.
    Neighbours along one dimension of which each is in one window are none: they lie side by side as they are."""
    outer = node.parallel
    inner = [i for i in range(outer, len(node.loops)) if node.loops[i] > 1]
    steps = [max((max(row[:outer], default=0) for row in operand.access.matrix if row[i]), default=0) for i in inner]
    return all(steps) and (len(inner) > 1 or steps[0] < node.loops[inner[0]])


def _maps(node: Compute, types: dict[str, TensorType]) -> list[Node]:
    shape = node.loops[: node.parallel]
    (read,) = {int(s.imm or 0) for s in node.expr.steps if s.op == "arg"}
    points = product(*(range(n) for n in node.loops[node.parallel :]))
    values = [_Value(_shifted(node.operands[read], node, point)) for point in points]
    behind = _behind(node)
    made: list[Node] = []
    while len(values) > STREAMS - len(behind):
        folded: list[_Value] = []
        for at in range(0, len(values), STREAMS):
            group = values[at : at + STREAMS]
            if len(group) > 1:
                name = _unused(f"{node.output}~w{len(made)}", types)
                types[name] = TensorType(node.expr.dtype, shape)
                made.append(_map(node, f"{node.name}~w{len(made)}", name, group, shape))
                group = [_Value(Operand(name, Access.identity(len(shape))), folded=True)]
            else:
                group = [replace(group[0], alone=True)]
            folded += group
        values = folded
    last = _map(node, node.name, node.output, values, shape)
    if node.post is not None:
        places: dict[int, Term] = {-1: term_of(last.expr)}
        for number, (i, operand) in enumerate(behind.items()):
            places[i] = arg(len(values) + number, _dtype(node.post, i))
            last = replace(last, operands=(*last.operands, operand))
        last = replace(last, expr=expression(term_of(node.post, places)))
    return [*made, last]


def _behind(node: Compute) -> dict[int, Operand]:
    """Operands of what follows the reduction, as the maps' loops read them."""
    used = (
        sorted({int(s.imm) for s in node.post.steps if s.op == "arg" and s.imm is not None} - {-1}) if node.post else []
    )
    return {i: _shifted(node.operands[i], node, (0,) * (len(node.loops) - node.parallel)) for i in used}


def _dtype(expr: Expr, place: int) -> DType:
    return next(s.dtype for s in expr.steps if s.op == "arg" and s.imm == place)


def _shifted(operand: Operand, node: Compute, point: tuple[int, ...]) -> Operand:
    """The operand at one point of the window."""
    outer = node.parallel
    matrix = operand.access.matrix
    offset = tuple(
        o + sum(c * r for c, r in zip(row[outer:], point, strict=True))
        for o, row in zip(operand.access.offset, matrix, strict=True)
    )
    return replace(operand, access=Access(offset, tuple(row[:outer] for row in matrix)))


def _map(node: Compute, name: str, output: str, values: list[_Value], shape: tuple[int, ...]) -> Compute:
    """Neighbouring values of the reduction's tree folded into one."""
    assert node.reducer is not None
    read = next(s for s in node.expr.steps if s.op == "arg")
    padded = node.reducer == "sum" and node.expr.dtype.is_float
    terms: list[Term] = []
    for i, value in enumerate(values):
        element = arg(i, node.expr.dtype if value.folded else read.dtype)
        term = element if value.folded else term_of(node.expr, {int(read.imm or 0): element})
        last = i == len(values) - 1 and len(values) % 2 and i
        terms.append(term + const(0.0, node.expr.dtype) if padded and (value.alone or last) else term)
    while len(terms) > 1:
        pairs = [a.op(FOLDS[node.reducer], b) for a, b in zip(terms[0::2], terms[1::2], strict=False)]
        terms = pairs + ([terms[-1]] if len(terms) % 2 else [])
    return replace(
        node,
        name=name,
        output=output,
        loops=shape,
        operands=tuple(value.operand for value in values),
        expr=expression(terms[0]),
        reducer=None,
        post=None,
    )


def _unused(name: str, types: dict[str, TensorType]) -> str:
    while name in types:
        name += "'"
    return name
