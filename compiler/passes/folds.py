"""Reductions of few steps fold several elements per cycle: a lane has four units behind each other and four operands.

A sum of plain elements keeps one unit of a lane busy; with four neighbours read by four operands it is done in a quarter of
the cycles. Neighbours at a multiple of four are a subtree of the reduction's tree, and what is read beyond the end is what the
tree is filled up with, so results keep their bits. Where the order cannot matter, the operands take stretches instead,
which lie together in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.ir import Access, Compute, Gather, Graph, Node, Operand, Reshape, TensorType, arg, expression, term_of
from compiler.numerics.reduce import identity
from compiler.passes.ahead import ROOM, room
from compiler.passes.fuse import MAX_STREAMS
from compiler.passes.parts import walks_whole
from compiler.passes.rewriter import Rewriter
from compiler.passes.windows import FOLDS, paired

LEAST = 1 << 16  # elements of a reduction that keeps a vector unit busy long enough for others to wait


def folds(graph: Graph, least: int = LEAST) -> Graph:
    """Reductions of ``least`` elements or more that leave units of a lane idle take two or four elements at a time; the same
    values."""
    made = {n.output for n in graph.nodes if isinstance(n, Compute | Gather)}  # their places are chosen for who reads
    made |= {n.output for n in graph.nodes if isinstance(n, Reshape) and n.input in made}
    made -= _read_together(graph, least)
    writer = Rewriter(graph)

    def folded(node: Compute) -> list[Node] | None:
        able = _fits(node, least) and all(o.value in made for o in node.operands)
        return _folded(node, writer) if able else None

    return writer.each(folded, Compute)


def _read_together(graph: Graph, least: int) -> set[str]:
    """Values that a map reads element by element beside another one as large. Folding would decide for one of the two in
    which order it lies in memory, and a map of two orders fetches a line for each element."""
    found: set[str] = set()
    for node in graph.nodes:
        if isinstance(node, Compute) and node.reducer is None:
            large = {o.value for o in node.operands if graph.types[o.value].elements >= node.points >= least}
            found |= large if len(large) > 1 else set()
    return found


def _fits(node: Compute, least: int) -> bool:
    large = node.reduction > 1 and node.points * node.reduction >= least
    counts = not node.expr.indices.isdisjoint(node.inner)
    return large and node.reducer in FOLDS and not node.is_contraction and not counts


def _moving(node: Compute) -> list[int]:
    """Operands that reduction loops move."""
    return [i for i, o in enumerate(node.operands) if o.access.uses(node.inner)]


def _folded(node: Compute, writer: Rewriter) -> list[Node] | None:
    moving = _moving(node)
    for count in (4, 2):
        streams = len(node.operands) + (count - 1) * len(moving)
        if streams > MAX_STREAMS or count * (room(node.expr) + 1) > ROOM:
            continue
        flat = len(node.inner) > 1 and node.loops[-1] % count != 0
        if flat and not _is_line(node, moving, writer.types):
            continue
        if _is_long(node, node.reduction if flat else node.loops[-1], count, writer.types):
            before, taken = _flattened(node, moving[0], writer) if flat else ([], node)
            return [*before, _several(taken, moving, count)]
    return None


def _is_long(node: Compute, extent: int, count: int, types: Mapping[str, TensorType]) -> bool:
    """Whether a loop of that extent is one of groups of ``count``, the last of which may be filled up: not a tree that was
    not filled up so far, since 0.0 would be added to -0.0."""
    ends = node.expr.is_identity and (extent != node.loops[-1] or walks_whole(node, types))
    return 2 * extent > count and (extent % count == 0 or ends)


def _several(node: Compute, moving: list[int], count: int) -> Compute:
    """``count`` elements of the last loop in one point of it."""
    assert node.reducer is not None
    last = len(node.loops) - 1
    extent = -(-node.loops[last] // count)
    step, apart = (1, extent) if _any_order(node) else (count, 1)
    fill = identity(node.reducer, node.expr.dtype.numpy) if node.loops[last] % count else None

    def element(i: int, number: int) -> Operand:
        """An operand at one of the elements that are taken together."""
        o = node.operands[i]
        behind = fill if fill is not None and i in moving else o.fill
        return Operand(o.value, o.access.shifted(last, number * apart, step), behind)

    operands = [element(i, 0) for i in range(len(node.operands))]
    terms = [term_of(node.expr)]
    for number in range(1, count):
        terms.append(term_of(node.expr, {i: arg(len(operands) + n, node.expr.reads[i]) for n, i in enumerate(moving)}))
        operands += [element(i, number) for i in moving]
    expr = expression(paired(terms, FOLDS[node.reducer]))
    return replace(node, loops=(*node.loops[:last], extent), operands=tuple(operands), expr=expr)


def _any_order(node: Compute) -> bool:
    """Whether elements may meet in any order and give the same bits: whole numbers, and largest ones without a sign."""
    return not node.expr.dtype.is_float or (node.reducer != "sum" and node.expr.steps[-1].op == "abs")


def _is_line(node: Compute, moving: list[int], types: Mapping[str, TensorType]) -> bool:
    """Whether the reduction loops walk the last dimensions of the only operand that they move."""
    if len(moving) != 1 or node.operands[moving[0]].fill is not None:
        return False
    access, shape = node.operands[moving[0]].access, types[node.operands[moving[0]].value].shape
    first = len(shape) - len(node.inner)
    return first >= 0 and all(access.walked(i, node.loops, shape) == first + at for at, i in enumerate(node.inner))


def _flattened(node: Compute, moving: int, writer: Rewriter) -> tuple[list[Node], Compute]:
    """A reshape, and the node with its reduction loops as one, which reads it."""
    operand = node.operands[moving]
    kind = writer.types[operand.value]
    first = len(kind.shape) - len(node.inner)
    name = writer.value(f"{operand.value}~flat", TensorType(kind.dtype, (*kind.shape[:first], node.reduction)))
    before = Reshape(writer.name(f"{node.name}~flat"), name, node.source, operand.value, guard=node.guard)
    over = [*range(node.parallel), None]
    reads = [o.keep(over) for o in node.operands]
    line = Access.of_loops([node.parallel], node.parallel + 1)
    reads[moving] = Operand(name, operand.access.project(range(first)).keep(over).stacked(line))
    return [before], replace(node, loops=(*node.shape, node.reduction), operands=tuple(reads))
