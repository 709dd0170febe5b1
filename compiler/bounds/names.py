"""What a box of a value surely takes of the values that it is another name for: behind a reshape, and behind a join.

A box is a product of index sets, given by their sizes. What is answered is the size of a product of index sets that lies in
any box of these sizes, in the coordinates of the value that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from compiler.bounds.shape import Box
from compiler.ir.graph import Graph, Join, Reshape
from compiler.isa.timing import ceil_div

Group = tuple[list[int], list[int]]


def behind(node: Reshape | Join, graph: Graph, box: Box) -> list[tuple[str, Box]]:
    """Values that a box surely takes something of, and at least how many indices along each dimension."""
    if not all(box) or not all(graph.types[node.output].shape):
        return []
    if isinstance(node, Reshape):
        return [(node.input, reshaped(graph.types[node.input].shape, graph.types[node.output].shape, box))]
    whole = graph.types[node.output].shape[node.axis]
    found = []
    for part in node.parts:
        shape = graph.types[part].shape
        least = box[node.axis] - (whole - shape[node.axis])  # of so many indices this part has at least the rest
        if least > 0:
            found.append((part, (*box[: node.axis], least, *box[node.axis + 1 :])))
    return found


def reshaped(before: Box, after: Box, box: Box) -> Box:
    """The box of ``before`` in a box of ``after``. Dimensions that together are the same elements are looked at together:
    all of them are all; of one, as many indices as elements; of several, some line along the last has its share."""
    found = [1] * len(before)
    for old, new in _groups(before, after):
        count = prod(box[i] for i in new)
        if count == prod(after[i] for i in new):
            for i in old:
                found[i] = before[i]
        elif old:
            found[old[-1]] = ceil_div(count, prod(before[i] for i in old[:-1]))
    return tuple(found)


def _groups(before: Sequence[int], after: Sequence[int]) -> Iterator[Group]:
    """Dimensions, by place, that stand for each other; those of one index are left out."""
    left = [i for i, n in enumerate(before) if n != 1]
    right = [i for i, n in enumerate(after) if n != 1]
    while left and right:
        old, new = [left.pop(0)], [right.pop(0)]
        one, other = before[old[0]], after[new[0]]
        while one != other:
            if one < other:
                old.append(left.pop(0))
                one *= before[old[-1]]
            else:
                new.append(right.pop(0))
                other *= after[new[-1]]
        yield old, new
