"""Reductions that read shuffled dimensions walk over the dimensions as they were.

A channel shuffle is a transposition between two reshapes: (group, channel) becomes (channel, group) becomes one dimension.
No strides say where an element of that dimension lies, so it would be stored. A product in groups, a pool, or whatever else
reads it can walk over (channel, group) instead: its loop over the dimension becomes two, which read the value in place. The
same holds for pixels that a transposition took from channels, and for windows that an image was cut into.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Node, Operand, Reshape, View
from compiler.ir.types import TensorType
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import fold_views, groups

Sizes = dict[int, tuple[int, ...]]  # of a loop: the loops that take its place
FACTORS = 2  # operands that a contraction multiplies


def shuffles(graph: Graph) -> Graph:
    """Every reduction that would wait for a stored shuffle with its loops cut, so that it reads what there was before."""
    writer = Rewriter(graph)
    found = False
    for node in graph.nodes:
        sizes = _sizes(node, writer) if isinstance(node, Compute) and node.reducer is not None else None
        if sizes and isinstance(node, Compute):
            writer.nodes += _cut(node, sizes, writer)
            found = True
        else:
            writer.nodes.append(node)
    return fold_views(writer.done()) if found else graph


def _sizes(node: Compute, writer: Rewriter) -> Sizes | None:
    """The loops to be cut for the sake of the first operand that is a shuffle; None where none is."""
    if any(step.op == "index" for step in (*node.expr.steps, *(node.post.steps if node.post else ()))):
        return None
    for operand in node.operands[:FACTORS]:
        reshape = writer.makers.get(operand.value)
        view = writer.makers.get(reshape.input) if isinstance(reshape, Reshape) else None
        if isinstance(reshape, Reshape) and isinstance(view, View) and view.guard == node.guard:
            sizes = _shuffled(node, operand, reshape, view, writer.graph.types)
            if sizes:
                return sizes
    return None


def _shuffled(
    node: Compute, operand: Operand, reshape: Reshape, view: View, types: Mapping[str, TensorType]
) -> Sizes | None:
    shape, origin = types[reshape.output].shape, types[reshape.input].shape
    if 0 in shape or 0 in node.loops:
        return None
    found: Sizes = {}
    for left, right in groups(shape, origin):
        inner = [j for j in right if origin[j] > 1]
        if len(inner) <= 1:
            continue
        wide = [j for j in left if shape[j] > 1]
        loop = _walker(operand.access, wide[0], node.loops, shape) if len(wide) == 1 else None
        if loop is None or loop in found:
            return None
        if _is_moved(view, inner) and (_is_batch(node, loop) or _is_one(view, inner)):
            found[loop] = tuple(origin[j] for j in inner)
    return found


def _walker(access: Access, j: int, loops: tuple[int, ...], shape: tuple[int, ...]) -> int | None:
    """The loop that walks over all of coordinate ``j`` and nothing else; None where there is none."""
    moved = [i for i, c in enumerate(access.matrix[j]) if c]
    if len(moved) != 1 or access.matrix[j][moved[0]] != 1 or access.offset[j] or loops[moved[0]] != shape[j]:
        return None
    return moved[0]


def _is_moved(view: View, dims: list[int]) -> bool:
    """Whether dimensions of a view that lie side by side do not so in what it shows."""
    places = [[(j, row[d]) for j, row in enumerate(view.operand.access.matrix) if row[d]] for d in dims]
    return any(len(some) != 1 for some in places) or places != sorted(
        places, key=lambda some: (some[0][0], -some[0][1])
    )


def _is_batch(node: Compute, loop: int) -> bool:
    """Whether a loop of a contraction moves both factors and the result."""
    return (
        node.is_contraction
        and loop < node.parallel
        and all(any(row[loop] for row in o.access.matrix) for o in node.operands[:FACTORS])
    )


def _is_one(view: View, dims: list[int]) -> bool:
    """Whether several dimensions of a view are parts of one in what it shows: then no storage order sets them side by side."""
    return any(sum(bool(row[d]) for d in dims) > 1 for row in view.operand.access.matrix)


def _cut(node: Compute, sizes: Sizes, writer: Rewriter) -> list[Node]:
    """The node over more loops, and its result as it was."""
    cut = [sizes.get(i, (n,)) for i, n in enumerate(node.loops)]
    steps = [(i, prod(some[at + 1 :])) for i, some in enumerate(cut) for at in range(len(some))]
    loops = tuple(n for some in cut for n in some)
    parallel = sum(len(some) for some in cut[: node.parallel])
    operands = tuple(
        replace(
            o,
            access=Access(o.access.offset, tuple(tuple(row[i] * step for i, step in steps) for row in o.access.matrix)),
        )
        for o in node.operands
    )
    made = replace(node, loops=loops, parallel=parallel, operands=operands)
    if parallel == node.parallel:
        return [made]
    kind = writer.types[node.output]
    name = writer.value(f"{node.output}~cut", TensorType(kind.dtype, loops[:parallel]))
    made = replace(made, name=writer.name(f"{node.name}~cut"), output=name)
    return [made, Reshape(node.name, node.output, node.source, name, guard=node.guard)]
