"""Indices that are known of what is read, carried back: a step of a sequence reads one element of it, and it is known which.

By dimension stands the index, or None where it may be any. A box of which an index is known lies at that index alone.
"""

from __future__ import annotations

import numpy as np

from compiler.bounds import names
from compiler.bounds.reads import Along, Reading
from compiler.bounds.shape import Box
from compiler.ir.graph import Graph, Join, Reshape

Pins = tuple[int | None, ...]


def taken(reading: Reading, outputs: Pins) -> Pins:
    """The indices of a value that outputs at such ones take."""
    return tuple(_index(a, reading.loops, outputs) for a in reading.dimensions)


def _index(a: Along, loops: Box, outputs: Pins) -> int | None:
    """The index along one dimension, where known loops alone move it; padding, or the only one there is, tells nothing."""
    found = a.offset
    for i, c in enumerate(a.row):
        if c and loops[i] > 1:
            at = outputs[i] if i < len(outputs) else None
            if at is None:
                return None
            found += c * at
    return found if a.taps == 1 and a.extent > 1 and 0 <= found < a.extent else None


def behind(node: Reshape | Join, graph: Graph, box: Box, pins: Pins) -> list[tuple[str, Box, Pins]]:
    """``names.behind`` with the indices that are known; of a join the one part that has an index along its axis."""
    if isinstance(node, Reshape):
        found = names.behind(node, graph, box)
        return [
            (value, some, renamed(graph.types[value].shape, graph.types[node.output].shape, pins))
            for value, some in found
        ]
    axis, index = node.axis, pins[node.axis]
    if index is None:
        return [(part, some, pins) for part, some in names.behind(node, graph, box)]
    for part in node.parts:
        size = graph.types[part].shape[axis]
        if index < size:
            return [(part, box, (*pins[:axis], index if size > 1 else None, *pins[axis + 1 :]))]
        index -= size
    return []


def renamed(before: Box, after: Box, pins: Pins) -> Pins:
    """The indices that are known behind a reshape: of dimensions that stand for others of which all are known."""
    found: list[int | None] = [None] * len(before)
    for old, new, _ in names.factored(before, after):
        known = [at for j in new if (at := pins[j]) is not None]
        if len(known) == len(new):
            flat = np.ravel_multi_index(known, [after[j] for j in new])
            places = np.unravel_index(flat, [before[i] for i in old])
            for i, place in zip(old, places, strict=True):
                found[i] = int(place)
    return tuple(found)
