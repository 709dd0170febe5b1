"""Independent contractions of one value become one with their columns side by side (A6).

Query, key and value of an attention read the same rows: one pass of the planes then serves all of their columns, and the
rows are fetched once. The results are slices of the combined one, which cost nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.ir import Compute, Graph, Node, Operand, TensorType, View, sources_of
from compiler.passes.rewriter import Rewriter

Array = np.ndarray[Any, Any]


def combine(graph: Graph) -> Graph:
    """Groups of contractions that differ in their constants only, as one each; ``metadata["combined"]`` lists them."""
    wide = [group for group in _groups(graph) if len(group) > 1]
    if not wide:
        return graph
    work = _Work(graph)
    first = {group[0].output: group for group in wide}
    gone = {node.output for group in wide for node in group}

    def made(node: Compute) -> list[Node] | None:
        if node.output in first:
            return work.combined(first[node.output])
        return [] if node.output in gone else None

    listed = json.dumps([[node.name for node in group] for group in wide])
    return replace(work.writer.each(made, Compute), metadata={**graph.metadata, "combined": listed})


def _groups(graph: Graph) -> list[list[Compute]]:
    """Contractions that can be one, each on its own at least."""
    groups: dict[object, list[Compute]] = {}
    for node in graph.nodes:
        if isinstance(node, Compute) and node.is_contraction and node.operands[1].value in graph.constants:
            opened = _opened(node, graph)
            key = _key(opened, graph)
            if key is not None:
                groups.setdefault(key, []).append(opened)
    return list(groups.values())


def _key(node: Compute, graph: Graph) -> object | None:
    """What two contractions must have in common; None for one that cannot be combined."""
    column = _column(node, graph)
    if column is None or node.operands[0].value in graph.constants or (node.post and column in node.post.indices):
        return None
    shared = [_shared(operand, column, graph) for operand in node.operands[1:]]
    if any(part is None for part in shared):
        return None
    loops = tuple(0 if i == column else n for i, n in enumerate(node.loops))
    kind = graph.types[node.output].dtype
    return repr((node.operands[0], shared, loops, node.expr, node.post, column, kind, node.guard))


def _shared(operand: Operand, column: int, graph: Graph) -> object | None:
    """What an operand has in common with those of others: all where the columns reuse it, all but the column's extent where
    it is a constant along them; None where it is neither."""
    along = operand.access.along(column)
    if along is None:
        return None if operand.access.uses(column) else operand
    if operand.value not in graph.constants or operand.fill is not None:
        return None
    kind = graph.types[operand.value]
    return operand.access, (*kind.shape[:along], 0, *kind.shape[along + 1 :]), kind.dtype


def _opened(node: Compute, graph: Graph) -> Compute:
    """A contraction by a single column, as a loop of one step over it; others as they are."""
    if _column(node, graph) is not None:
        return node
    weights = node.operands[1]
    idle = [i for i, n in enumerate(node.shape) if n == 1 and not any(o.access.uses(i) for o in node.operands)]
    still = [j for j, n in enumerate(graph.types[weights.value].shape) if n == 1 and not weights.access.loops(j)]
    if not idle or not still:
        return node
    row = tuple(int(i == idle[-1]) for i in range(len(node.loops)))
    opened = weights.read_by(weights.access.replaced(still[0], weights.access.offset[still[0]], row))
    return replace(node, operands=(node.operands[0], opened, *node.operands[2:]))


def _column(node: Compute, graph: Graph) -> int | None:
    """The one loop that only the constant factor has, perhaps of one step; every constant that it moves spans it whole."""
    moving, fixed = (o.access for o in node.operands[:2])
    own = sorted((fixed.moving - moving.moving).intersection(range(node.parallel)))
    own = [i for i in own if node.loops[i] > 1] or own
    if len(own) != 1:
        return None
    spans = [(graph.types[o.value].shape, o.access.along(own[0])) for o in node.operands[1:]]
    return own[0] if all(j is None or shape[j] == node.loops[own[0]] for shape, j in spans) else None


class _Work:
    """What the groups become. Constants side by side are made once only, however often the same ones meet (the steps of a
    recurrent layer)."""

    def __init__(self, graph: Graph) -> None:
        self.writer = Rewriter(graph)
        self.joined: dict[tuple[tuple[str, ...], int], str] = {}

    def combined(self, group: list[Compute]) -> list[Node]:
        """One contraction for the group and a slice of it for every member."""
        first, writer = group[0], self.writer
        column = _column(first, writer.graph)
        assert column is not None
        total = sum(node.loops[column] for node in group)
        loops = tuple(total if i == column else n for i, n in enumerate(first.loops))
        kind = TensorType(writer.types[first.output].dtype, loops[: first.parallel])
        operands = tuple(self._side_by_side(group, place, column) for place in range(len(first.operands)))
        output, name = writer.value(f"{first.output}~all", kind), writer.name("+".join(node.name for node in group))
        nodes: list[Node] = [
            replace(first, name=name, output=output, source=sources_of(*group), loops=loops, operands=operands)
        ]
        at = 0
        for node in group:
            whole = writer.whole(output)
            part = whole.read_by(whole.access.replaced(column, at, whole.access.matrix[column]))
            nodes.append(View(node.name, node.output, node.source, guard=node.guard, operand=part))
            at += node.loops[column]
        return nodes

    def _side_by_side(self, group: list[Compute], place: int, column: int) -> Operand:
        """One operand of all members: the first member's, or the constants of all in a row."""
        operand = group[0].operands[place]
        along = operand.access.along(column) if place else None
        if along is None:
            return operand
        key = (tuple(node.operands[place].value for node in group), along)
        if key not in self.joined:
            arrays: list[Array] = [self.writer.graph.constants[part] for part in key[0]]
            self.joined[key] = self.writer.constant(f"{key[0][0]}~all", np.concatenate(arrays, axis=along))
        return replace(operand, value=self.joined[key])
