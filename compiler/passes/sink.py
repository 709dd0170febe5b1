"""Reshapes that join dimensions move behind the map that reads them, so that the map reads what there was before them.

A transposed convolution whose windows do not overlap gives (row, place in it, column, place in it), which a reshape makes
rows and columns of; an image that is repeated along rows and columns is a view of the same kind. A map over rows and
columns cannot say which of them it reads there. One over all four can: it then becomes the end of the convolution, or
reads the image as it was, and nothing is stored between. Its result is reshaped instead, which moves nothing. So it is with
a view of a view: an image that is repeated first along its rows and then along its columns is copied once, not twice.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

from compiler.ir.graph import Compute, Graph, Node, Operand, Reshape, View, operands_of
from compiler.ir.types import TensorType
from compiler.passes.clean import uses
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import groups, settled

ROUNDS = 8  # reshapes and views behind each other on the way to a map
Sizes = dict[int, tuple[int, ...]]  # of a loop: the loops that take its place


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
        return _over(node, sizes, writer) if sizes else None

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
            shapes = (writer.types[value].shape for value in (node.output, reshape.output, reshape.input))
            sizes = _cut(operand, *shapes)
            if sizes:
                return sizes
    return None


def _helps(maker: Node, reader: Compute | View) -> bool:
    """Whether a reader of what is made takes it in place, or becomes the end of a reduction."""
    reduces = isinstance(maker, Compute) and maker.reducer is not None
    return isinstance(maker, View) or (reduces and isinstance(reader, Compute))


def _cut(operand: Operand, extents: tuple[int, ...], shape: tuple[int, ...], origin: tuple[int, ...]) -> Sizes | None:
    """The loops that go over several dimensions of ``origin`` each; None where the operand is read in another way."""
    if 0 in shape:
        return None
    found: Sizes = {}
    for left, right in groups(shape, origin):
        inner = tuple(origin[j] for j in right if origin[j] > 1)
        if len(inner) <= 1:
            continue
        wide = [j for j in left if shape[j] > 1]
        loop = operand.access.plain(wide[0]) if len(wide) == 1 else None
        if loop is None or extents[loop] != shape[wide[0]] or loop in found:
            return None
        found[loop] = inner
    return found


def _over(node: Compute | View, sizes: Sizes, writer: Rewriter) -> list[Node]:
    """The map or view with loops in place of others, and its result as it was."""
    kind = writer.types[node.output]
    loops = tuple(n for i, extent in enumerate(kind.shape) for n in sizes.get(i, (extent,)))

    def split(operand: Operand) -> Operand:
        access = operand.access
        for loop in sorted(sizes, reverse=True):
            access = access.split(loop, sizes[loop])
        return operand.read_by(access)

    value = writer.value(f"{node.output}~cut", TensorType(kind.dtype, loops))
    made: Node = replace(node, name=writer.name(f"{node.name}~cut"), output=value)
    if isinstance(made, Compute):
        made = replace(made, loops=loops, parallel=len(loops), operands=tuple(map(split, made.operands)))
    elif isinstance(made, View):
        made = replace(made, operand=split(made.operand))
    return [made, Reshape(node.name, node.output, node.source, value, guard=node.guard)]
