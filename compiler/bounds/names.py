"""What a box of a value surely takes of the values that it is another name for: behind a reshape, and behind a join.

A box is a product of index sets, given by their sizes. What is answered is the size of a product of index sets that lies in
any box of these sizes, in the coordinates of the value that is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from compiler.bounds.shape import Box
from compiler.ir import Graph, Join, Reshape
from compiler.isa.timing import ceil_div

Group = tuple[list[int], list[int]]
Factors = tuple[list[list[int]], list[list[int]]]


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
    all of them are all; else they are taken apart into factors of both, where there are such: of all indices of a
    dimension it is all of its factors, of some their share of some line along the last; as many indices as the product of
    the factors' are of a dimension that they make up. Without factors some line along the last has its share."""
    found = [1] * len(before)
    for old, new, factors in factored(before, after):
        count = prod(box[i] for i in new)
        if count == prod(after[i] for i in new):
            for i in old:
                found[i] = before[i]
        elif factors is not None:
            sizes = [size for i, parts in zip(new, factors[1], strict=True) for size in _share(box[i], parts)]
            for i, parts in zip(old, factors[0], strict=True):
                found[i] = prod(sizes[: len(parts)])
                sizes = sizes[len(parts) :]
        elif old:
            found[old[-1]] = ceil_div(count, prod(before[i] for i in old[:-1]))
    return tuple(found)


def factored(before: Box, after: Box) -> Iterator[tuple[list[int], list[int], Factors | None]]:
    """Dimensions, by place, that stand for each other, and both as products of neighbours in one row of factors."""
    for old, new in _groups(before, after):
        yield old, new, _factors([before[i] for i in old], [after[i] for i in new])


def _factors(before: Sequence[int], after: Sequence[int]) -> Factors | None:
    """Each dimension of both as a product of neighbours in one row of factors; None where there is no such row."""
    old: list[list[int]] = [[] for _ in before]
    new: list[list[int]] = [[] for _ in after]
    i = j = 0
    one, other = before[0], after[0]
    while True:
        factor = min(one, other)
        if one % factor or other % factor:
            return None
        old[i].append(factor)
        new[j].append(factor)
        one, other = one // factor, other // factor
        if one == 1:
            i += 1
        if other == 1:
            j += 1
        if i == len(before) or j == len(after):
            return old, new
        one = before[i] if one == 1 else one
        other = after[j] if other == 1 else other


def _share(count: int, factors: Sequence[int]) -> Box:
    """A product of index sets in any so many of a dimension that is taken apart."""
    if count == prod(factors):
        return tuple(factors)
    return (*[1] * (len(factors) - 1), ceil_div(count, prod(factors[:-1])))


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
