"""Reductions that read shuffled dimensions walk over the dimensions as they were.

A channel shuffle is a transposition between two reshapes: (group, channel) becomes (channel, group) becomes one dimension.
No strides say where an element of that dimension lies, so it would be stored. A product in groups, a pool, or whatever else
reads it can walk over (channel, group) instead: its loop over the dimension becomes two, which read the value in place. The
same holds for pixels that a transposition took from channels, and for windows that an image was cut into.
"""

from __future__ import annotations

from compiler.ir import Compute, Graph, Node, Operand, Reshape, View
from compiler.passes.loop_splitting import Sizes, merged, split
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import fold_views

FACTORS = 2  # operands that a contraction multiplies


def shuffles(graph: Graph) -> Graph:
    """Every reduction that would wait for a stored shuffle with its loops split, so that it reads what there was before."""
    writer = Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        sizes = _sizes(node, writer) if node.reducer is not None and not node.indices else None
        return split(node, sizes, writer) if sizes else None

    found = writer.each(made, Compute)
    return graph if found is graph else fold_views(found)


def _sizes(node: Compute, writer: Rewriter) -> Sizes | None:
    """The loops to be split for the sake of the first operand that is a shuffle; None where none is."""
    for operand in node.operands[:FACTORS]:
        reshape = writer.makers.get(operand.value)
        view = writer.makers.get(reshape.input) if isinstance(reshape, Reshape) else None
        if isinstance(reshape, Reshape) and isinstance(view, View) and view.guard == node.guard:
            sizes = _shuffled(node, operand, reshape, view, writer)
            if sizes:
                return sizes
    return None


def _shuffled(node: Compute, operand: Operand, reshape: Reshape, view: View, writer: Rewriter) -> Sizes:
    shape, origin = (writer.types[value].shape for value in (reshape.output, reshape.input))
    dims = merged(operand, node.loops, shape, origin) or {}
    return {
        loop: tuple(origin[j] for j in some)
        for loop, some in dims.items()
        if _is_moved(view, some) and (_is_batch(node, loop) or _is_one(view, some))
    }


def _is_moved(view: View, dims: tuple[int, ...]) -> bool:
    """Whether dimensions of a view that lie side by side do not so in what it shows."""
    access = view.operand.access
    places = [access.only(d) for d in dims]
    if None in places:
        return True
    order = [(j, -access.matrix[j][d]) for j, d in zip(places, dims, strict=True) if j is not None]
    return order != sorted(order)


def _is_batch(node: Compute, loop: int) -> bool:
    """Whether a loop of a contraction moves both factors and the result."""
    both = all(o.access.uses(loop) for o in node.operands[:FACTORS])
    return node.is_contraction and loop < node.parallel and both


def _is_one(view: View, dims: tuple[int, ...]) -> bool:
    """Whether several dimensions of a view are parts of one in what it shows: then no storage order sets them side by side."""
    moved = [j for d in dims for j in view.operand.access.dims(d)]
    return len(set(moved)) < len(moved)
