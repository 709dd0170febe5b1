"""Gathers whose places are known become slices, side by side where the places change their step.

A reflected border, a reversal, every second row: what is looked up at constant places that lie in a few even runs is moved
along strides, without an address for every element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.graph import Gather, Graph, Join, Node, Operand, View
from compiler.ir.types import TensorType

RUNS = 8  # more are cheaper to look up
SHORTEST = 8  # elements of a run, taken together

Run = tuple[int, int, int]  # first place, step, elements


def known_places(graph: Graph) -> Graph:
    """Every gather at few even runs of constant places, as views; the same values."""
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += (_sliced(node, graph, types) if isinstance(node, Gather) else None) or [node]
    return graph.with_nodes(tuple(nodes), types=types)


def _sliced(node: Gather, graph: Graph, types: dict[str, TensorType]) -> list[Node] | None:
    """The views, and the join of them; None where the places are data, of several dimensions, or in many runs."""
    found = [(j, index) for j, index in enumerate(node.indices) if index is not None]
    if len(found) != 1 or node.data.fill is not None:
        return None
    dim, index = found[0]
    places, loop = _places(index, graph)
    if places is None or any(node.data.access.matrix[dim]):
        return None
    extent = types[node.data.value].shape[dim]
    places = places + node.data.access.offset[dim]
    places = np.where(places < 0, places + extent, places)
    if len(places) != node.loops[loop] or ((places < 0) | (places >= extent)).any():
        return None  # a place outside stays a fault
    runs = _runs(places)
    if len(runs) > RUNS or len(runs) * SHORTEST > len(places):
        return None
    return _views(node, dim, loop, runs, types)


def _places(index: Operand, graph: Graph) -> tuple[np.ndarray[Any, Any] | None, int]:
    """A constant list of places, and the loop that walks along it."""
    array = graph.constants.get(index.value)
    moved = [(j, i) for j, row in enumerate(index.access.matrix) for i, c in enumerate(row) if c]
    if array is None or len(moved) != 1 or index.fill is not None or any(index.access.offset):
        return None, -1
    axis, loop = moved[0]
    if index.access.matrix[axis][loop] != 1 or array.size != array.shape[axis]:
        return None, -1
    return np.asarray(array, np.int64).reshape(-1), loop


def _runs(places: np.ndarray[Any, Any]) -> list[Run]:
    """The places as runs of one step each, the longest from the left."""
    runs: list[Run] = []
    at = 0
    while at < len(places) and len(runs) <= RUNS:
        step = int(places[at + 1] - places[at]) if at + 1 < len(places) else 0
        after = np.flatnonzero(np.diff(places[at:]) != step)
        count = int(after[0]) + 1 if len(after) else len(places) - at
        runs.append((int(places[at]), step, count))
        at += count
    return runs


def _views(node: Gather, dim: int, loop: int, runs: list[Run], types: dict[str, TensorType]) -> list[Node]:
    data, whole = node.data.access, types[node.output]
    made: list[View] = []
    for number, (start, step, count) in enumerate(runs):
        matrix, offset = list(data.matrix), list(data.offset)
        matrix[dim] = tuple(step if i == loop else 0 for i in range(len(node.loops)))
        offset[dim] = start
        name = node.output
        if len(runs) > 1:
            name = f"{node.output}~run{number}"
            while name in types:
                name += "'"
            shape = (*whole.shape[:loop], count, *whole.shape[loop + 1 :])
            types[name] = TensorType(whole.dtype, shape)
        operand = replace(node.data, access=Access(tuple(offset), tuple(matrix)))
        made.append(View(f"{node.name}~run{number}", name, node.source, guard=node.guard, operand=operand))
    if len(runs) == 1:
        return [replace(made[0], name=node.name)]
    parts = tuple(view.output for view in made)
    return [*made, Join(node.name, node.output, node.source, guard=node.guard, parts=parts, axis=loop)]
