"""Gathers whose places are known become slices, side by side where the places change their step.

A reflected border, a reversal, every second row: what is looked up at constant places that lie in a few even runs is moved
along strides, without an address for every element. So is what is looked up at places that go up evenly along several loops,
such as the distances between a query and a key that pick from a table of relative positions: it is one view.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.ir import Access, Gather, Graph, Join, Node, Operand, TensorType, View
from compiler.passes.rewriter import Rewriter

RUNS = 8  # more are cheaper to look up
SHORTEST = 8  # elements of a run, taken together

Run = tuple[int, int, int]  # first place, step, elements


def known_places(graph: Graph) -> Graph:
    """Every gather at few even runs of constant places, as views; the same values."""
    writer = Rewriter(graph)
    return writer.each(lambda node: _sliced(node, writer), Gather)


def _sliced(node: Gather, writer: Rewriter) -> list[Node] | None:
    """The views, and the join of them; None where the places are data, or in many runs."""
    even = _even(node, writer)
    if even is not None:
        return [View(node.name, node.output, node.source, guard=node.guard, operand=node.data.read_by(even))]
    found = [(j, index) for j, index in enumerate(node.indices) if index is not None]
    if len(found) != 1 or node.data.fill is not None:
        return None
    dim, index = found[0]
    listed = _places(index, writer)
    if listed is None or node.data.access.loops(dim):
        return None
    places, loop = listed
    extent = writer.types[node.data.value].shape[dim]
    places = places + node.data.access.offset[dim]
    places = np.where(places < 0, places + extent, places)
    if len(places) != node.loops[loop] or ((places < 0) | (places >= extent)).any():
        return None  # a place outside stays a fault
    runs = _runs(places)
    if len(runs) > RUNS or len(runs) * SHORTEST > len(places):
        return None
    return _views(node, dim, loop, runs, writer)


def _even(node: Gather, writer: Rewriter) -> Access | None:
    """The access that reads what is looked up, where all places go up evenly along the loops; None where one does not, or
    lies outside, which stays a fault."""
    access, shape = node.data.access, writer.types[node.data.value].shape
    if 0 in node.loops or node.data.fill is not None:
        return None
    for j, index in enumerate(node.indices):
        if index is None:
            continue
        steps = _steps(index, node.loops, writer)
        if steps is None:
            return None
        row = tuple(a + b for a, b in zip(access.matrix[j], steps[1], strict=True))
        access = access.replaced(j, access.offset[j] + steps[0], row)
        if access.range(j, node.loops)[1] < 0:  # counted from the end
            access = access.replaced(j, access.offset[j] + shape[j], row)
    return access if access.stays_inside(shape, node.loops) else None


def _steps(index: Operand, loops: tuple[int, ...], writer: Rewriter) -> tuple[int, tuple[int, ...]] | None:
    """The first of constant places and by how much they go up with each loop; None where they are not even, or data."""
    array = writer.constants.get(index.value)
    if array is None or not array.size or index.fill is not None:
        return None
    whole = np.asarray(array, np.int64)
    first = int(whole.flat[0])
    corners = np.eye(whole.ndim, dtype=np.int64).tolist()  # the second place along each dimension
    rises = [int(whole[tuple(at)]) - first if n > 1 else 0 for at, n in zip(corners, whole.shape, strict=True)]
    even = sum((at * rise for at, rise in zip(np.ix_(*map(np.arange, whole.shape)), rises, strict=True)), first)
    if not np.array_equal(np.broadcast_to(even, whole.shape), whole):
        return None
    offset = first + sum(rise * o for rise, o in zip(rises, index.access.offset, strict=True))
    rows = index.access.matrix
    return offset, tuple(sum(rise * row[i] for rise, row in zip(rises, rows, strict=True)) for i in range(len(loops)))


def _places(index: Operand, writer: Rewriter) -> tuple[np.ndarray[Any, Any], int] | None:
    """A constant list of places, and the loop that walks along it; None where it is none."""
    array, access = writer.constants.get(index.value), index.access
    moved = [j for j in range(len(access.offset)) if access.loops(j)]
    loop = access.plain(moved[0]) if len(moved) == 1 else None
    if array is None or loop is None or index.fill is not None or any(access.offset):
        return None
    return (np.asarray(array, np.int64).reshape(-1), loop) if array.size == array.shape[moved[0]] else None


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


def _views(node: Gather, dim: int, loop: int, runs: list[Run], writer: Rewriter) -> list[Node]:
    def view(name: str, output: str, start: int, step: int) -> View:
        row = tuple(step if i == loop else 0 for i in range(len(node.loops)))
        operand = node.data.read_by(node.data.access.replaced(dim, start, row))
        return View(name, output, node.source, guard=node.guard, operand=operand)

    if len(runs) == 1:
        return [view(node.name, node.output, *runs[0][:2])]
    whole = writer.types[node.output]
    made: list[Node] = []
    for number, (start, step, count) in enumerate(runs):
        kind = TensorType(whole.dtype, (*whole.shape[:loop], count, *whole.shape[loop + 1 :]))
        value = writer.value(f"{node.output}~run{number}", kind)
        made.append(view(writer.name(f"{node.name}~run{number}"), value, start, step))
    parts = tuple(part.output for part in made)
    return [*made, Join(node.name, node.output, node.source, guard=node.guard, parts=parts, axis=loop)]
