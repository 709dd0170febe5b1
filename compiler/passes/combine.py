"""Independent contractions of one value become one with their columns side by side (A6).

Query, key and value of an attention read the same rows: one pass of the planes then serves all of their columns, and the
rows are fetched once. The results are slices of the combined one, which cost nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand, View
from compiler.ir.types import TensorType

Array = np.ndarray[Any, Any]


def combine(graph: Graph) -> Graph:
    """Groups of contractions that differ in their constants only, as one each; ``metadata["combined"]`` lists them."""
    groups: dict[object, list[Compute]] = {}
    for node in graph.nodes:
        if isinstance(node, Compute):
            opened = _opened(node, graph)
            if (key := _key(opened, graph)) is not None:
                groups.setdefault(key, []).append(opened)
    wide = [group for group in groups.values() if len(group) > 1]
    if not wide:
        return graph
    work = _Work(graph)
    first = {group[0].output: group for group in wide}
    views = {node.output: work.combined(group) for group in wide for node in group[:1]}
    gone = {node.output for group in wide for node in group}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node.output in first:
            nodes += views[node.output]
        elif node.output not in gone:
            nodes.append(node)
    listed = json.dumps([[node.name for node in group] for group in wide])
    return replace(
        graph,
        nodes=tuple(nodes),
        types=work.types,
        constants=work.constants,
        metadata={**graph.metadata, "combined": listed},
    )


def combined_groups(graph: Graph) -> list[list[str]]:
    """Names of the operations of every group that became one."""
    found: list[list[str]] = json.loads(graph.metadata.get("combined", "[]"))
    return found


def _key(node: Compute, graph: Graph) -> object | None:
    """What two contractions must have in common; None for one that cannot be combined."""
    if not node.is_contraction or node.operands[0].value in graph.constants:
        return None
    column = _column(node, graph)
    if column is None:
        return None
    shared: list[object] = []
    for operand in node.operands[1:]:
        if _along(operand, column) is None:
            if any(row[column] for row in operand.access.matrix):
                return None
            shared.append(operand)
        elif operand.value not in graph.constants or operand.fill is not None:
            return None
        else:
            shape = list(graph.constants[operand.value].shape)
            shape[_along(operand, column) or 0] = 0
            shared.append((operand.access, tuple(shape), graph.types[operand.value].dtype))
    loops = tuple(0 if i == column else n for i, n in enumerate(node.loops))
    kind = graph.types[node.output].dtype
    asks = any(s.op == "index" and s.imm == column for s in (node.post.steps if node.post else ()))
    return None if asks else repr((node.operands[0], shared, loops, node.expr, node.post, column, kind, node.guard))


def _opened(node: Compute, graph: Graph) -> Compute:
    """A contraction by a single column, as a loop of one step over it; other nodes as they are."""
    if not node.is_contraction or node.operands[1].value not in graph.constants or _column(node, graph) is not None:
        return node
    used = [any(row[i] for o in node.operands for row in o.access.matrix) for i in range(node.parallel)]
    free = [i for i in range(node.parallel) if node.loops[i] == 1 and not used[i]]
    weights = node.operands[1]
    shape = graph.types[weights.value].shape
    alone = [j for j, row in enumerate(weights.access.matrix) if shape[j] == 1 and not any(row)]
    if not free or not alone:
        return node
    matrix = list(weights.access.matrix)
    matrix[alone[0]] = tuple(int(i == free[-1]) for i in range(len(node.loops)))
    opened = replace(weights, access=replace(weights.access, matrix=tuple(matrix)))
    return replace(node, operands=(node.operands[0], opened, *node.operands[2:]))


def _column(node: Compute, graph: Graph) -> int | None:
    """The one loop that only the constant factor has, perhaps of one step; every constant that it moves spans it whole."""
    if node.operands[1].value not in graph.constants:
        return None
    moving, fixed = (
        [any(row[i] for row in node.operands[k].access.matrix) for i in range(node.parallel)] for k in (0, 1)
    )
    found = [i for i in range(node.parallel) if fixed[i] and not moving[i]]
    found = [i for i in found if node.loops[i] > 1] or found
    if len(found) != 1:
        return None
    for operand in node.operands[1:]:
        along = _along(operand, found[0])
        if along is not None and graph.types[operand.value].shape[along] != node.loops[found[0]]:
            return None
    return found[0]


def _along(operand: Operand, column: int) -> int | None:
    """The dimension that the column loop walks, alone and step by step; None when there is none."""
    rows = operand.access.matrix
    moved = [j for j, row in enumerate(rows) if row[column]]
    if len(moved) != 1 or operand.access.offset[moved[0]]:
        return None
    row = rows[moved[0]]
    return moved[0] if row[column] == 1 and sum(map(abs, row)) == 1 else None


class _Work:
    """The graph's constants and types, and those added."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.constants = dict(graph.constants)
        self.types = dict(graph.types)
        self.joined: dict[tuple[tuple[str, ...], int], str] = {}

    def combined(self, group: list[Compute]) -> list[Node]:
        """One contraction for the group and a slice of it for every member."""
        first = group[0]
        column = _column(first, self.graph)
        assert column is not None
        total = sum(node.loops[column] for node in group)
        operands = [first.operands[0]]
        for place in range(1, len(first.operands)):
            along = _along(first.operands[place], column)
            if along is None:
                operands.append(first.operands[place])
                continue
            name = self._joined(tuple(node.operands[place].value for node in group), along)
            operands.append(replace(first.operands[place], value=name))
        loops = tuple(total if i == column else n for i, n in enumerate(first.loops))
        output = self._name(f"{first.output}~all")
        self.types[output] = TensorType(self.types[first.output].dtype, loops[: first.parallel])
        sources = tuple(dict.fromkeys(s for node in group for s in node.source))
        name = "+".join(node.name for node in group)
        nodes: list[Node] = [
            replace(first, name=name, output=output, source=sources, loops=loops, operands=tuple(operands))
        ]
        at = 0
        for node in group:
            rank = node.parallel
            offset = tuple(at if j == column else 0 for j in range(rank))
            view = Operand(output, Access(offset, Access.identity(rank).matrix))
            nodes.append(View(node.name, node.output, node.source, guard=node.guard, operand=view))
            at += node.loops[column]
        return nodes

    def _joined(self, parts: tuple[str, ...], along: int) -> str:
        """The constants in a row; once only, however often the same ones meet (the steps of a recurrent layer)."""
        if (parts, along) not in self.joined:
            name = self._name(f"{parts[0]}~all")
            array: Array = np.concatenate([self.graph.constants[part] for part in parts], axis=along)
            self.constants[name] = array
            self.types[name] = TensorType(self.types[parts[0]].dtype, array.shape)
            self.joined[parts, along] = name
        return self.joined[parts, along]

    def _name(self, name: str) -> str:
        while name in self.types:
            name += "'"
        return name
