"""Reshapes that join dimensions move behind the map that reads them, so that the map reads what there was before them.

A transposed convolution whose windows do not overlap gives (row, place in it, column, place in it), which a reshape makes
rows and columns of; an image that is repeated along rows and columns is a view of the same kind. A map over rows and
columns cannot say which of them it reads there. One over all four can: it then becomes the end of the convolution, or
reads the image as it was, and nothing is stored between. Its result is reshaped instead, which moves nothing. So it is with
a view of a view: an image that is repeated first along its rows and then along its columns is copied once, not twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand, Reshape, View
from compiler.ir.types import TensorType
from compiler.passes.clean import uses
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
    counts = uses(graph)
    makers = {node.output: node for node in graph.nodes}
    reshaped = {node.input for node in graph.nodes if isinstance(node, Reshape)}
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        wanted = isinstance(node, kind) and (_is_map(node) if isinstance(node, Compute) else node.output in reshaped)
        sizes = _sizes(node, graph, makers, counts) if isinstance(node, Compute | View) and wanted else None
        if isinstance(node, Compute | View) and sizes:
            nodes += _over(node, sizes, types)
        else:
            nodes.append(node)
    return graph.with_nodes(tuple(nodes), types=types) if len(nodes) > len(graph.nodes) else graph


def _sizes(node: Compute | View, graph: Graph, makers: Mapping[str, Node], counts: Counter[str]) -> Sizes | None:
    """The loops of a map or a view to be cut for the sake of the first operand for which that helps."""
    if isinstance(node, View) and counts[node.output] != 1:
        return None  # a reshape is not all that reads it: behind folding nobody reads through the two
    for operand in _operands(node):
        reshape = makers.get(operand.value)
        if not isinstance(reshape, Reshape) or operand.fill is not None or counts[operand.value] != 1:
            continue
        maker = makers.get(reshape.input)
        helps = isinstance(maker, View) or (_is_sum(maker) and isinstance(node, Compute))
        if maker is not None and helps and counts[reshape.input] == 1 and maker.guard == node.guard:
            shapes = (graph.types[value].shape for value in (node.output, reshape.output, reshape.input))
            sizes = _cut(operand, *shapes)
            if sizes:
                return sizes
    return None


def _is_sum(node: Node | None) -> bool:
    return isinstance(node, Compute) and node.reducer is not None


def _is_map(node: Compute) -> bool:
    """Whether a node gives an element for each point of its loops, wherever the point is."""
    return node.reducer is None and node.post is None and all(s.op != "index" for s in node.expr.steps)


def _operands(node: Compute | View) -> tuple[Operand, ...]:
    return (node.operand,) if isinstance(node, View) else node.operands


def _cut(operand: Operand, extents: tuple[int, ...], shape: tuple[int, ...], origin: tuple[int, ...]) -> Sizes | None:
    """The loops that go over several dimensions of ``origin`` each; None where the operand is read in another way."""
    if 0 in shape:
        return None
    found: Sizes = {}
    for left, right in groups(shape, origin):
        wide = [j for j in left if shape[j] > 1]
        inner = tuple(origin[j] for j in right if origin[j] > 1)
        if len(inner) <= 1:
            continue
        loops = [i for i, c in enumerate(operand.access.matrix[wide[0]]) if c] if len(wide) == 1 else []
        if len(loops) != 1 or extents[loops[0]] != shape[wide[0]] or loops[0] in found:
            return None
        if operand.access.matrix[wide[0]][loops[0]] != 1 or operand.access.offset[wide[0]]:
            return None
        found[loops[0]] = inner
    return found


def _over(node: Compute | View, sizes: Sizes, types: dict[str, TensorType]) -> list[Node]:
    """The map or view with loops in place of others, and its result as it was."""
    cut = [sizes.get(i, (n,)) for i, n in enumerate(types[node.output].shape)]
    loops = tuple(n for some in cut for n in some)
    steps = [(i, prod(some[at + 1 :])) for i, some in enumerate(cut) for at in range(len(some))]
    operands = tuple(
        replace(
            o,
            access=Access(o.access.offset, tuple(tuple(row[i] * step for i, step in steps) for row in o.access.matrix)),
        )
        for o in _operands(node)
    )
    name = f"{node.output}~cut"
    while name in types:
        name += "'"
    types[name] = TensorType(types[node.output].dtype, loops)
    made: Node
    if isinstance(node, View):
        made = replace(node, name=f"{node.name}~cut", output=name, operand=operands[0])
    else:
        made = replace(node, name=f"{node.name}~cut", output=name, loops=loops, parallel=len(loops), operands=operands)
    return [made, Reshape(node.name, node.output, node.source, name, guard=node.guard)]
