"""Windows that reach beyond both ends of a short dimension are sums over the dimension itself.

A 5x5 filter over an image of three rows meets padding in most of its rows. Summed over the rows that there are, with the tap
that each of them meets, no product is with padding; and the filter's rows become numbers that do not slide.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.ir import Compute, Graph
from compiler.passes.rewriter import Rewriter


def reach(graph: Graph) -> Graph:
    """Every contraction by constant weights whose windows are longer than what they slide over, without padding there."""
    return Rewriter(graph).each(lambda node: [_short(node, graph)] if node.is_contraction else None, Compute)


def _short(node: Compute, graph: Graph) -> Compute:
    constant = next((n for n in (1, 0) if node.operands[n].value in graph.constants), -1)
    if constant < 0 or node.operands[1 - constant].fill != 0 or node.operands[constant].fill is not None:
        return node
    if not np.isfinite(graph.constants[node.operands[constant].value]).all():
        return node  # a product of padding and infinity is a number that counts
    for over in node.inner:
        found = _summed(node, constant, over, graph)
        node = found if found is not None else node
    return node


def _summed(node: Compute, constant: int, over: int, graph: Graph) -> Compute | None:
    """The contraction with the loop over taps exchanged for one over the dimension that they meet; None where that does not
    save products."""
    fixed, moving = node.operands[constant], node.operands[1 - constant]
    taps, places = fixed.access.dims(over), moving.access.dims(over)
    if len(taps) != 1 or len(places) != 1 or fixed.access.loops(taps[0]) != (over,):
        return None
    (at,), (image,) = taps, places
    row, extent = moving.access.matrix[image], graph.types[moving.value].shape[image]
    slides = row[over] == fixed.access.matrix[at][over] == 1 and sum(map(bool, row[node.parallel :])) == 1
    if extent >= node.loops[over] or not slides:
        return None
    # Place p of the dimension is met by tap p - (where the window begins).
    tap = tuple(int(i == over) - (c if i < node.parallel else 0) for i, c in enumerate(row))
    weights = fixed.access.replaced(at, fixed.access.offset[at] - moving.access.offset[image], tap)
    loops = (*node.loops[:over], extent, *node.loops[over + 1 :])
    if not weights.inside(at, graph.types[fixed.value].shape[at], loops):
        return None
    operands = list(node.operands)
    operands[constant] = fixed.read_by(weights)
    operands[1 - constant] = moving.read_by(
        moving.access.replaced(image, 0, tuple(int(i == over) for i in range(len(row))))
    )
    return replace(node, loops=loops, operands=tuple(operands))
