"""Windows that reach beyond both ends of a short dimension are sums over the dimension itself.

A 5x5 filter over an image of three rows meets padding in most of its rows. Summed over the rows that there are, with the tap
that each of them meets, no product is with padding; and the filter's rows become numbers that do not slide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Operand


def reach(graph: Graph) -> Graph:
    """Every contraction by constant weights whose windows are longer than what they slide over, without padding there."""
    nodes = tuple(_short(n, graph) if isinstance(n, Compute) and n.is_contraction else n for n in graph.nodes)
    return graph.with_nodes(nodes) if any(a is not b for a, b in zip(nodes, graph.nodes, strict=True)) else graph


def _short(node: Compute, graph: Graph) -> Compute:
    constant = next((n for n in (1, 0) if node.operands[n].value in graph.constants), -1)
    if constant < 0 or node.operands[1 - constant].fill != 0 or node.operands[constant].fill is not None:
        return node
    if not np.isfinite(graph.constants[node.operands[constant].value]).all():
        return node  # a product of padding and infinity is a number that counts
    for over in range(node.parallel, len(node.loops)):
        found = _summed(node, constant, over, graph)
        node = found if found is not None else node
    return node


def _summed(node: Compute, constant: int, over: int, graph: Graph) -> Compute | None:
    """The contraction with the loop over taps exchanged for one over the dimension that they meet; None where that does not
    save products."""
    fixed, moving = node.operands[constant], node.operands[1 - constant]
    at, image = _only(fixed.access, over), _only(moving.access, over)
    if at < 0 or image < 0:
        return None
    extent, taps = graph.types[moving.value].shape[image], graph.types[fixed.value].shape[at]
    row = moving.access.matrix[image]
    if extent >= node.loops[over] or row[over] != 1 or any(row[node.parallel : over]) or any(row[over + 1 :]):
        return None
    if fixed.access.matrix[at] != tuple(int(i == over) for i in range(len(node.loops))):
        return None
    # Place p of the dimension is met by tap p - (where the window begins).
    tap = tuple(int(i == over) - (c if i < node.parallel else 0) for i, c in enumerate(row))
    start = fixed.access.offset[at] - moving.access.offset[image]
    loops = (*node.loops[:over], extent, *node.loops[over + 1 :])
    weights = _with(fixed, at, start, tap)
    low, high = weights.access.range(at, loops)
    if low < 0 or high >= taps:
        return None
    operands = list(node.operands)
    operands[constant] = weights
    operands[1 - constant] = _with(moving, image, 0, tuple(int(i == over) for i in range(len(row))))
    return replace(node, loops=loops, operands=tuple(operands))


def _only(access: Access, loop: int) -> int:
    """The one coordinate that a loop moves; -1 where there is none, or several."""
    found = [j for j, row in enumerate(access.matrix) if row[loop]]
    return found[0] if len(found) == 1 else -1


def _with(operand: Operand, j: int, offset: int, row: tuple[int, ...]) -> Operand:
    """An operand that is read at another place along one dimension."""
    access = operand.access
    offsets = (*access.offset[:j], offset, *access.offset[j + 1 :])
    return replace(operand, access=Access(offsets, (*access.matrix[:j], row, *access.matrix[j + 1 :])))
