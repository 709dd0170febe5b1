"""Loops that are split so that a node walks over the dimensions from which a reshape made the one that it reads."""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Compute, Node, Operand, Reshape, TensorType, View
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import groups

Shape = tuple[int, ...]
Sizes = dict[int, Shape]  # by loop: the extents of those that take its place


def merged(operand: Operand, extents: Shape, shape: Shape, origin: Shape) -> dict[int, tuple[int, ...]] | None:
    """By loop of a reader of a value of ``shape``, reshaped from ``origin``: the dimensions of ``origin`` that it walks over,
    where these are several. None where the operand is read in another way."""
    if 0 in shape:
        return None
    found: dict[int, tuple[int, ...]] = {}
    for left, right in groups(shape, origin):
        inner = tuple(j for j in right if origin[j] > 1)
        if len(inner) <= 1:
            continue
        wide = [j for j in left if shape[j] > 1]
        loop = operand.access.plain(wide[0]) if len(wide) == 1 else None
        if loop is None or extents[loop] != shape[wide[0]] or loop in found:
            return None
        found[loop] = inner
    return found


def split(node: Compute | View, sizes: Sizes, writer: Rewriter) -> list[Node]:
    """The node over more loops, and its result in the shape that it had."""
    kind = writer.types[node.output]
    extents = node.loops if isinstance(node, Compute) else kind.shape
    cut = [sizes.get(i, (n,)) for i, n in enumerate(extents)]
    rank = sum(map(len, cut[: len(kind.shape)]))
    loops = tuple(n for some in cut for n in some)

    def read(operand: Operand) -> Operand:
        access = operand.access
        for loop in sorted(sizes, reverse=True):  # from behind, so that loops before keep their numbers
            access = access.split(loop, sizes[loop])
        return operand.read_by(access)

    made: Node = node
    if isinstance(made, Compute):
        made = replace(made, loops=loops, parallel=rank, operands=tuple(map(read, made.operands)))
    elif isinstance(made, View):
        made = replace(made, operand=read(made.operand))
    if rank == len(kind.shape):
        return [made]
    value = writer.value(f"{node.output}~cut", TensorType(kind.dtype, loops[:rank]))
    made = replace(made, name=writer.name(f"{node.name}~cut"), output=value)
    return [made, Reshape(node.name, node.output, node.source, value, guard=node.guard)]
