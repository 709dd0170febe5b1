"""Reductions in parts: what is made first is reduced while the rest is still being made.

A look-up makes row after row, planes make row after row of what moves past the weights. A reduction over such rows would
wait for the last; cut into chunks, only the last chunk and a few parts are left to do then. A chunk of 2**m neighbours is a
subtree of the reduction's tree, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.expr import Expr, Step
from compiler.ir.expr import identity as plain
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand, Reshape
from compiler.ir.types import TensorType
from compiler.numerics.reduce import identity
from compiler.passes.windows import FOLDS

LEAST = 1 << 16  # elements of a reduction that is worth further instructions
PARTS = 8
SHORT = 32  # elements of a chunk, below which the parts themselves would be work


def parts(graph: Graph, least: int = LEAST) -> Graph:
    """Reductions of ``least`` elements or more over rows that are made one after the other, in chunks; the same values."""
    makers: dict[str, Node] = {n.output: n for n in graph.nodes}
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        wanted = isinstance(node, Compute) and _fits(node, types, least) and _late(node, graph, makers)
        nodes += _chunked(node, types) if wanted and isinstance(node, Compute) else [node]
    return graph.with_nodes(tuple(nodes), types=types) if len(nodes) > len(graph.nodes) else graph


def _chunk(node: Compute) -> int:
    """Neighbours in one part: the smallest power of two of which there are no more than ``PARTS``."""
    return 1 << (-(-node.loops[-1] // PARTS) - 1).bit_length()


def _fits(node: Compute, types: Mapping[str, TensorType], least: int) -> bool:
    """Whether one long loop over whole rows is reduced, results being few."""
    if node.reducer not in FOLDS or node.is_contraction or len(node.loops) != node.parallel + 1:
        return False
    if node.points * node.reduction < least or _chunk(node) < SHORT or any(s.op == "index" for s in node.expr.steps):
        return False
    last = node.parallel
    whole = node.loops[last] % _chunk(node) == 0
    moving = [o for o in node.operands if any(row[last] for row in o.access.matrix)]
    return whole or (node.expr.is_identity and all(_covers(o, last, node.loops[last], types) for o in moving))


def _covers(operand: Operand, loop: int, extent: int, types: Mapping[str, TensorType]) -> bool:
    """Whether the loop walks along one dimension of the operand from its beginning to its end, and nowhere else."""
    used = [j for j, row in enumerate(operand.access.matrix) if row[loop]]
    if len(used) != 1 or operand.fill is not None:
        return False
    row, j = operand.access.matrix[used[0]], used[0]
    alone = sum(map(abs, row)) == 1 and row[loop] == 1 and operand.access.offset[j] == 0
    return alone and types[operand.value].shape[j] == extent


def _late(node: Compute, graph: Graph, makers: Mapping[str, Node]) -> bool:
    """Whether some operand is made row after row along what is reduced."""
    return any(
        row[node.parallel] and _in_rows(operand.value, j, graph, makers)
        for operand in node.operands
        for j, row in enumerate(operand.access.matrix)
    )


def _in_rows(value: str, dim: int, graph: Graph, makers: Mapping[str, Node]) -> bool:
    """Whether a value is made one index after the other along a dimension."""
    maker = makers.get(value)
    if isinstance(maker, Reshape):
        return _in_rows(
            maker.input, _outer(graph.types[maker.input].shape, graph.types[value].shape, dim), graph, makers
        )
    if isinstance(maker, Gather):
        return any(row[dim] for o in maker.indices if o is not None for row in o.access.matrix)
    if not isinstance(maker, Compute) or not maker.is_contraction:
        return False
    constant = [o.value in graph.constants for o in maker.operands[:2]]
    used = [any(row[dim] for row in o.access.matrix) for o in maker.operands[:2]]
    return any(constant) and not all(constant) and used[constant.index(False)] and not used[constant.index(True)]


def _outer(source: tuple[int, ...], shape: tuple[int, ...], dim: int) -> int:
    """The dimension of ``source`` that a step along ``dim`` of the same elements in ``shape`` moves along."""
    step = prod(shape[dim + 1 :])
    return max((j for j in range(len(source)) if prod(source[j + 1 :]) <= step < prod(source[j:])), default=0)


def _chunked(node: Compute, types: dict[str, TensorType]) -> list[Node]:
    """The parts, and the reduction of them."""
    assert node.reducer is not None
    last, chunk = node.parallel, _chunk(node)
    count = -(-node.loops[last] // chunk)
    outer = node.loops[:last]
    name = f"{node.output}~parts"
    if name in types:
        return [node]
    fill = identity(node.reducer, node.expr.dtype.numpy) if node.loops[last] % chunk else None
    before = {int(s.imm) for s in node.expr.steps if s.op == "arg" and s.imm is not None}
    used = {old: new for new, old in enumerate(sorted(before))}
    operands = tuple(_cut(node.operands[i], last, chunk, fill) for i in used)
    types[name] = TensorType(node.expr.dtype, (*outer, count))
    first = replace(
        node,
        name=f"{node.name}~parts",
        output=name,
        loops=(*outer, count, chunk),
        parallel=last + 1,
        operands=operands,
        expr=_renumbered(node.expr, used),
        post=None,
    )
    behind = {int(s.imm) for s in node.post.steps if s.op == "arg" and s.imm is not None} - {-1} if node.post else set()
    places = {old: new + 1 for new, old in enumerate(sorted(behind))}
    post = _renumbered(node.post, places) if node.post is not None else None
    read = (Operand(name, Access.identity(last + 1)), *(node.operands[i] for i in sorted(behind)))
    return [first, replace(node, loops=(*outer, count), operands=read, expr=plain(node.expr.dtype), post=post)]


def _cut(operand: Operand, last: int, chunk: int, fill: float | None) -> Operand:
    """An operand read in chunks of the last loop."""
    access = operand.access
    rows = tuple((*row[:last], row[last] * chunk, row[last]) for row in access.matrix)
    moves = any(row[last] for row in access.matrix)
    behind = fill if moves and fill is not None else operand.fill
    return replace(operand, access=replace(access, matrix=rows), fill=behind)


def _renumbered(expr: Expr, places: Mapping[int, int]) -> Expr:
    """The expression over other positions of operands."""

    def moved(step: Step) -> Step:
        known = step.op == "arg" and step.imm is not None and step.imm in places
        return replace(step, imm=places[int(step.imm or 0)]) if known else step

    return Expr(tuple(moved(step) for step in expr.steps))
