"""Reshapes that join dimensions move behind the map that reads them, so that the map reads what there was before them.

A transposed convolution whose windows do not overlap gives (row, place in it, column, place in it), which a reshape makes
rows and columns of; an image that is repeated along rows and columns is a view of the same kind. A map over rows and
columns cannot say which of them it reads there. One over all four can: it then becomes the end of the convolution, or
reads the image as it was, and nothing is stored between. Its result is reshaped instead, which moves nothing. So it is with
a view of a view: an image that is repeated first along its rows and then along its columns is copied once, not twice.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from compiler.ir import Compute, Graph, Node, Reshape, View, operands_of
from compiler.passes.clean import uses
from compiler.passes.loop_splitting import Sizes, merged, split
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import settled

ROUNDS = 8  # reshapes and views behind each other on the way to a map


def sink(graph: Graph) -> Graph:
    """Every map over joined dimensions of what only it reads, a sum or a repeating view, over these dimensions themselves;
    then every view that is left to be stored."""
    for kind in (Compute, View):
        graph = settled(graph, partial(_once, kind), ROUNDS)
    return graph


def _once(kind: type[Compute | View], graph: Graph) -> Graph:
    counts, writer = uses(graph), Rewriter(graph)
    reshaped = {node.input for node in graph.nodes if isinstance(node, Reshape)}

    def made(node: Compute | View) -> list[Node] | None:
        if isinstance(node, Compute):
            wanted = node.is_map and not node.expr.indices
        else:  # a reshape must be all that reads it: behind folding nobody reads through the two
            wanted = node.output in reshaped and counts[node.output] == 1
        sizes = _sizes(node, writer, counts) if wanted else None
        return split(node, sizes, writer) if sizes else None

    return writer.each(made, kind)


def _sizes(node: Compute | View, writer: Rewriter, counts: Counter[str]) -> Sizes | None:
    """The loops of a map or a view to be cut for the sake of the first operand for which that helps."""
    for operand in operands_of(node):
        reshape = writer.makers.get(operand.value)
        if not isinstance(reshape, Reshape) or operand.fill is not None:
            continue
        maker = writer.makers.get(reshape.input)
        alone = counts[operand.value] == counts[reshape.input] == 1
        if maker is not None and alone and maker.guard == node.guard and _helps(maker, node):
            own, shape, origin = (writer.types[value].shape for value in (node.output, reshape.output, reshape.input))
            dims = merged(operand, own, shape, origin)
            if dims:
                return {loop: tuple(origin[j] for j in some) for loop, some in dims.items()}
    return None


def _helps(maker: Node, reader: Compute | View) -> bool:
    """Whether a reader of what is made takes it in place, or becomes the end of a reduction."""
    reduces = isinstance(maker, Compute) and maker.reducer is not None
    return isinstance(maker, View) or (reduces and isinstance(reader, Compute))
