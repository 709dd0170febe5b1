"""Maps and reductions whose operands lie across each other, some of them read from copies in the order of the walk.

A sum of two values of which one lies channel by channel and the other pixel by pixel reads a line, or writes one, for each of
its elements. A copy is made in blocks that are read along lines and written along lines, and the sum then reads whole lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from compiler.costs.cycles import vector_stages
from compiler.tiling import relayout, vector

if TYPE_CHECKING:
    from compiler.ir.graph import Compute
    from compiler.isa.instruction import Instruction
    from compiler.tiling.place import Place
    from compiler.tiling.tiler import Tiler

SLOW = 2  # times the cycles of its arithmetic that a node takes before copies are considered
CLEARLY = 1.1  # times the cycles with a copy that a node takes without


def emit(node: Compute, tiler: Tiler) -> None:
    """Make the tiles of a map or a reduction, and a copy of an operand where both together clearly take fewer cycles."""
    made = vector.pieces_of(node, tiler, {})
    copies: dict[int, str] = {}
    if vector.beats(made, tiler) > SLOW * _arithmetic(node, tiler):
        options = [_with_copy(node, i, tiler) for i, o in enumerate(node.operands) if _worth(o.value, node, tiler)]
        cycles, other, operand, order, home = min(
            options, key=lambda option: option[0], default=(0, made, -1, (), None)
        )
        if home is not None and cycles * CLEARLY < vector.beats(made, tiler):
            made, copies = other, {operand: relayout.stored(node.operands[operand].value, order, home, tiler)}
    vector.append(node, made, copies, tiler)


def _arithmetic(node: Compute, tiler: Tiler) -> int:
    """Cycles that a node keeps the lanes busy."""
    return -(-node.points * node.reduction // tiler.target.vector.lanes) * vector_stages(node, tiler.target)[0]


def _worth(value: str, node: Compute, tiler: Tiler) -> bool:
    """Whether a copy of an operand may be made, of no more elements than are read."""
    read = node.points * node.reduction
    return not tiler.is_constant(value) and tiler.may_copy(value) and 1 < tiler.graph.types[value].elements <= read


def _with_copy(
    node: Compute, operand: int, tiler: Tiler
) -> tuple[int, list[Instruction], int, tuple[int, ...], Place | None]:
    """Cycles of a node that reads a copy of an operand, that of the copy included; its instructions, and what the copy is."""
    read = node.operands[operand]
    loops = tiler.storage_order(node.output, list(range(node.parallel)))
    order = vector.walked(read, [*loops, *range(node.parallel, len(node.loops))])
    home = relayout.drafted(read.value, order, tiler)
    made = vector.pieces_of(node, tiler, {operand: home})
    return vector.beats(made, tiler) + relayout.cycles(read.value, order, home, tiler), made, operand, order, home
