"""Maps and reductions whose operands lie across each other, one of them read from a copy in the order of the walk.

A sum of two values of which one lies channel by channel and the other pixel by pixel reads a line, or writes one, for each of
its elements. A copy is made in blocks that are read along lines and written along lines, and the sum then reads whole lines.
"""

from __future__ import annotations

from typing import NamedTuple

from compiler.costs import vector_stages
from compiler.ir import Compute
from compiler.isa import Instruction
from compiler.tiling import relayout, vector
from compiler.tiling.place import Place
from compiler.tiling.tiler import Tiler

SLOW = 2  # times the cycles of its arithmetic that a node takes before copies are considered
CLEARLY = 1.1  # times the cycles with a copy that a node takes without


class _Copy(NamedTuple):
    """A copy of an operand in another order, the instructions that read it, and the cycles of both together."""

    cycles: int
    operand: int
    order: tuple[int, ...]
    home: Place
    readers: list[Instruction]


def emit(node: Compute, tiler: Tiler) -> None:
    """Make the tiles of a map or a reduction, and a copy of an operand where both together clearly take fewer cycles."""
    made = vector.pieces_of(node, tiler, {})
    cycles, copies = vector.beats(made, tiler), dict[int, str]()
    if cycles > SLOW * _arithmetic(node, tiler):
        found = (_copy(node, i, tiler) for i, o in enumerate(node.operands) if _worth(o.value, node, tiler))
        best = min(found, key=lambda copy: copy.cycles, default=None)
        if best and best.cycles * CLEARLY < cycles:
            value = node.operands[best.operand].value
            made, copies = best.readers, {best.operand: relayout.stored(value, best.order, best.home, tiler)}
    vector.append(node, made, copies, tiler)


def _arithmetic(node: Compute, tiler: Tiler) -> int:
    """Cycles that a node keeps the lanes busy."""
    return -(-node.points * node.reduction // tiler.target.vector.lanes) * vector_stages(node, tiler.target)[0]


def _worth(value: str, node: Compute, tiler: Tiler) -> bool:
    """Whether a copy of an operand may be made, of no more elements than are read."""
    read = node.points * node.reduction
    return not tiler.is_constant(value) and tiler.may_copy(value) and 1 < tiler.graph.types[value].elements <= read


def _copy(node: Compute, operand: int, tiler: Tiler) -> _Copy:
    """A copy of an operand in the order in which the node walks over it."""
    read = node.operands[operand]
    loops = tiler.storage_order(node.output, list(range(node.parallel)))
    order = vector.walked(read, [*loops, *range(node.parallel, len(node.loops))])
    home = relayout.drafted(read.value, order, tiler)
    readers = vector.pieces_of(node, tiler, {operand: home})
    cycles = vector.beats(readers, tiler) + relayout.cycles(read.value, order, home, tiler)
    return _Copy(cycles, operand, order, home, readers)
