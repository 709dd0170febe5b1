"""Loop collapsing: the rows and columns of an image as one loop, where that is how they lie in memory.

A product without windows does not care where a row of the image ends. With one loop over all pixels, its columns may be
cut wherever planes are full, and not only at whole rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from compiler.ir import Access, Compute, Operand
from compiler.tiling.loop_nests import LoopNest, plain
from compiler.tiling.place import Place


def collapsed(node: Compute, loops: Sequence[int], places: Mapping[str, Place]) -> LoopNest | None:
    """The contraction with its parallel ``loops`` (all between the first and the last of them) as one, over values as if
    their dimensions were one; None where they do not lie so, or where it would be no gain: fewer than two have a length."""
    loops = range(min(loops, default=0), max(loops, default=-1) + 1)
    wide = [i for i in loops if node.loops[i] > 1]
    if len(wide) < 2 or (node.post is not None and node.post.counts()):
        return None
    first, count = loops[0], len(loops)
    home = _merged(places[node.output], Access.identity(node.parallel, len(node.loops)), node, first, count)
    operands: list[Operand] = []
    found: list[Place] = []
    for operand in node.operands:
        made = _merged(places[operand.value], operand.access, node, first, count)
        if made is None or operand.fill is not None:
            return None
        operands.append(replace(operand, access=made[1]))
        found.append(made[0])
    if home is None:
        return None
    extents = (*node.loops[:first], prod(node.loops[i] for i in loops), *node.loops[first + count :])
    merged = replace(node, loops=extents, parallel=node.parallel - count + 1, operands=tuple(operands))
    return replace(plain(merged), out=home[1], places=(*found, home[0]))


def _merged(place: Place, access: Access, node: Compute, first: int, count: int) -> tuple[Place, Access] | None:
    """A place and an access to it with the loops as one: none of them is used, or each walks along one whole dimension, in
    their order."""
    inside = range(first, first + count)
    dims = sorted({j for i in inside for j in access.dims(i)})
    rows = [(*row[:first], 0, *row[first + count :]) for row in access.matrix]
    if not dims:
        return place, Access(access.offset, tuple(rows))
    start, extents = dims[0], node.loops[first : first + count]
    behind = start + count
    walked = dims == [*range(start, behind)] and [access.plain(j) for j in dims] == [*inside]
    if not walked or place.shape[start:behind] != extents:
        return None
    reshaped = place.reshaped((*place.shape[:start], prod(extents), *place.shape[behind:]))
    if reshaped is None:
        return None
    rows[start:behind] = [tuple(int(i == first) for i in range(len(rows[start])))]
    return reshaped, Access((*access.offset[: start + 1], *access.offset[behind:]), tuple(rows))
