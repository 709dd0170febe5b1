"""Reductions of few steps fold several elements per cycle: a lane has four units behind each other and four operands.

A sum of plain elements keeps one unit of a lane busy; with four neighbours read by four operands it is done in a quarter of
the cycles. Neighbours at a multiple of four are a subtree of the reduction's tree, and what is read beyond the end is what the
tree is filled up with, so results keep their bits. Where the order cannot matter, the operands take stretches instead,
which lie together in memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand, Reshape
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import DType, TensorType
from compiler.numerics.reduce import identity
from compiler.passes.ahead import ROOM, room
from compiler.passes.fuse import MAX_STREAMS
from compiler.passes.windows import FOLDS

LEAST = 1 << 16  # elements of a reduction that keeps a vector unit busy long enough for others to wait


def folds(graph: Graph, least: int = LEAST) -> Graph:
    """Reductions of ``least`` elements or more that leave units of a lane idle take two or four elements at a time; the same
    values."""
    types = dict(graph.types)
    made = {n.output for n in graph.nodes if isinstance(n, Compute | Gather)}  # their places are chosen for who reads
    made |= {n.output for n in graph.nodes if isinstance(n, Reshape) and n.input in made}
    made -= _joined(graph, least)
    nodes: list[Node] = []
    for node in graph.nodes:
        able = isinstance(node, Compute) and _fits(node, least) and all(o.value in made for o in node.operands)
        nodes += _folded(node, types) if able and isinstance(node, Compute) else [node]
    return graph.with_nodes(tuple(nodes), types=types)


def _joined(graph: Graph, least: int) -> set[str]:
    """Values that a map reads element by element beside another one as large. Folding would decide for one of the two in
    which order it lies in memory, and a map of two orders fetches a line for each element."""
    found: set[str] = set()
    for node in graph.nodes:
        if isinstance(node, Compute) and node.reducer is None:
            large = {o.value for o in node.operands if prod(graph.types[o.value].shape) >= node.points >= least}
            found |= large if len(large) > 1 else set()
    return found


def _fits(node: Compute, least: int) -> bool:
    counts = any(s.op == "index" and int(s.imm or 0) >= node.parallel for s in node.expr.steps)
    large = node.reduction > 1 and node.points * node.reduction >= least
    return large and node.reducer in FOLDS and not node.is_contraction and not counts


def _folded(node: Compute, types: dict[str, TensorType]) -> list[Node]:
    moving = [i for i, o in enumerate(node.operands) if _moves(o, range(node.parallel, len(node.loops)))]
    for count in (4, 2):
        streams = len(node.operands) + (count - 1) * len(moving)
        if streams > MAX_STREAMS or count * (room(node.expr) + 1) > ROOM:
            continue
        flat, before = _flat(node, count, types)
        if flat is None or 2 * flat.loops[-1] <= count:  # a tree not filled up so far: 0.0 would be added to -0.0
            continue
        if flat.loops[-1] % count == 0 or _ends(flat, moving, types):
            return [*before, _several(flat, moving, count)]
    return [node]


def _moves(operand: Operand, loops: range) -> bool:
    return any(row[i] for row in operand.access.matrix for i in loops)


def _several(node: Compute, moving: list[int], count: int) -> Compute:
    """``count`` elements of the last loop in one point of it."""
    assert node.reducer is not None
    last = len(node.loops) - 1
    extent = -(-node.loops[last] // count)
    step, apart = (1, extent) if _any_order(node) else (count, 1)
    fill = identity(node.reducer, node.expr.dtype.numpy) if node.loops[last] % count else None
    operands = [_taken(o, last, step, 0, fill if i in moving else None) for i, o in enumerate(node.operands)]
    terms = [term_of(node.expr)]
    for number in range(1, count):
        places: dict[int, Term] = {}
        for i in moving:
            places[i] = arg(len(operands), _type_of(node, i))
            operands.append(_taken(node.operands[i], last, step, number * apart, fill))
        terms.append(term_of(node.expr, places))
    while len(terms) > 1:
        terms = [a.op(FOLDS[node.reducer], b) for a, b in zip(terms[0::2], terms[1::2], strict=True)]
    loops = (*node.loops[:last], extent)
    return replace(node, loops=loops, operands=tuple(operands), expr=expression(terms[0]))


def _type_of(node: Compute, position: int) -> DType:
    return next(s.dtype for s in node.expr.steps if s.op == "arg" and s.imm == position)


def _taken(operand: Operand, loop: int, step: int, start: int, fill: float | None) -> Operand:
    """An operand read at ``step`` times the loop's coordinate plus ``start``."""
    access = operand.access
    offset = tuple(o + row[loop] * start for o, row in zip(access.offset, access.matrix, strict=True))
    rows = tuple((*row[:loop], row[loop] * step, *row[loop + 1 :]) for row in access.matrix)
    return replace(operand, access=Access(offset, rows), fill=operand.fill if fill is None else fill)


def _any_order(node: Compute) -> bool:
    """Whether elements may meet in any order and give the same bits: whole numbers, and largest ones without a sign."""
    return not node.expr.dtype.is_float or (node.reducer != "sum" and node.expr.steps[-1].op == "abs")


def _ends(node: Compute, moving: list[int], types: dict[str, TensorType]) -> bool:
    """Whether plain elements end with the last loop, so that what is read behind it can be filled in."""
    if not node.expr.is_identity:
        return False
    last = len(node.loops) - 1
    return all(_covers(node.operands[i], last, node.loops[last], types) for i in moving)


def _covers(operand: Operand, loop: int, extent: int, types: dict[str, TensorType]) -> bool:
    """Whether the loop walks along one dimension of the operand from its beginning to its end, and nowhere else."""
    used = [j for j, row in enumerate(operand.access.matrix) if row[loop]]
    if len(used) != 1 or operand.fill is not None:
        return False
    row, shape = operand.access.matrix[used[0]], types[operand.value].shape
    alone = sum(map(abs, row)) == 1 and row[loop] == 1 and operand.access.offset[used[0]] == 0
    return alone and shape[used[0]] == extent


def _flat(node: Compute, count: int, types: dict[str, TensorType]) -> tuple[Compute | None, list[Node]]:
    """The node with one reduction loop, where its last one is no multiple of ``count``; its operand is reshaped before."""
    inner = node.loops[node.parallel :]
    if len(inner) == 1 or node.loops[-1] % count == 0:
        return node, []
    moving = [i for i, o in enumerate(node.operands) if _moves(o, range(node.parallel, len(node.loops)))]
    if len(moving) != 1:
        return None, []
    operand = node.operands[moving[0]]
    shape = types[operand.value].shape
    first = len(shape) - len(inner)
    whole = first >= 0 and all(
        _covers(operand, node.parallel + at, extent, types)
        and operand.access.matrix[first + at][node.parallel + at] == 1
        for at, extent in enumerate(inner)
    )
    if not whole:
        return None, []
    name = f"{operand.value}~flat"
    while name in types:
        name += "'"
    types[name] = TensorType(types[operand.value].dtype, (*shape[:first], prod(inner)))
    before = Reshape(f"{node.name}~flat", name, node.source, operand.value, guard=node.guard)
    rank = node.parallel + 1
    reads = [replace(o, access=_narrow(o.access, rank)) for o in node.operands]
    rows = (*(row[:rank] for row in operand.access.matrix[:first]), (*(0,) * node.parallel, 1))
    reads[moving[0]] = Operand(name, Access((*operand.access.offset[:first], 0), rows))
    return replace(node, loops=(*node.loops[: node.parallel], prod(inner)), operands=tuple(reads)), [before]


def _narrow(access: Access, rank: int) -> Access:
    return Access(access.offset, tuple(row[:rank] for row in access.matrix))
