"""Views and reshapes folded into the accesses of their readers, so that nothing is moved that can be read in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand, Reshape, Scatter, View
from compiler.passes.clean import dead_code

Shape = tuple[int, ...]


def fold_views(graph: Graph) -> Graph:
    """Operands read the original of a view or a reshape wherever one bounded affine access can say so."""
    made: dict[str, Node] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        node = _direct(node, graph, made)
        made[node.output] = node
        kept.append(node)
    return dead_code(replace(graph, nodes=tuple(kept)))


def _direct(node: Node, graph: Graph, made: dict[str, Node]) -> Node:
    if isinstance(node, Compute):
        return replace(node, operands=tuple(_through(o, node.loops, graph, made) for o in node.operands))
    if isinstance(node, View):
        return replace(node, operand=_through(node.operand, graph.types[node.output].shape, graph, made))
    if isinstance(node, Gather):
        return replace(node, indices=tuple(i and _through(i, node.loops, graph, made) for i in node.indices))
    if isinstance(node, Scatter):
        indices = tuple(i and _through(i, node.loops, graph, made) for i in node.indices)
        return replace(node, indices=indices, update=_through(node.update, node.loops, graph, made))
    if isinstance(node, Reshape):
        before = made.get(node.input)
        return replace(node, input=before.input) if isinstance(before, Reshape) else node
    return node


def _through(operand: Operand, loops: Shape, graph: Graph, made: dict[str, Node]) -> Operand:
    """The operand read from as far back as one access reaches."""
    operand = replace(operand, access=canonical(operand.access, loops))
    while True:
        before = made.get(operand.value)
        found = None
        if isinstance(before, View):
            found = _through_view(operand, before, loops, graph)
        elif isinstance(before, Reshape):
            found = _through_reshape(operand, before, loops, graph)
        if found is None:
            return operand
        operand = replace(found, access=canonical(found.access, loops))


def canonical(access: Access, loops: Shape) -> Access:
    """Without coefficients of loops that run only once: their coordinate is 0."""
    rows = tuple(tuple(c if n != 1 else 0 for c, n in zip(row, loops, strict=True)) for row in access.matrix)
    return Access(access.offset, rows)


def _through_view(operand: Operand, view: View, loops: Shape, graph: Graph) -> Operand | None:
    shape, source = graph.types[view.output].shape, view.operand
    origin = graph.types[source.value].shape
    if 0 in loops or 0 in shape:
        return None
    leaving = [j for j in range(len(shape)) if not _inside(operand.access, j, shape[j], loops)]
    guarded = source.fill is not None and not source.access.stays_inside(origin, shape)
    if leaving:
        if guarded and not _same(source.fill, operand.fill):
            return None
        if not all(_leaves_too(source.access, j, shape, origin) for j in leaving):
            return None
    access = source.access.compose(operand.access, len(loops))
    fill = source.fill if guarded else operand.fill
    return Operand(source.value, access, None if access.stays_inside(origin, loops) else fill)


def _same(a: float | None, b: float | None) -> bool:
    return repr(a) == repr(b)


def _inside(access: Access, j: int, n: int, loops: Shape) -> bool:
    low, high = access.range(j, loops)
    return low >= 0 and high < n


def _leaves_too(access: Access, j: int, shape: Shape, origin: Shape) -> bool:
    """Whether a coordinate j outside the view always reads outside the original: then one guard serves both."""
    for k, row in enumerate(access.matrix):
        if not row[j] or any(c for i, c in enumerate(row) if i != j and shape[i] > 1):
            continue
        before, behind = access.offset[k] - row[j], access.offset[k] + row[j] * shape[j]
        low, high = min(before, behind), max(before, behind)
        if low < 0 and high >= origin[k]:
            return True
    return False


def _through_reshape(operand: Operand, reshape: Reshape, loops: Shape, graph: Graph) -> Operand | None:
    shape, origin = graph.types[reshape.output].shape, graph.types[reshape.input].shape
    if 0 in loops or 0 in shape:
        return None
    access = reshaped(operand.access, shape, origin, loops)
    if access is None:
        return None
    inside = access.stays_inside(origin, loops)
    return Operand(reshape.input, access, None if inside else operand.fill)


def reshaped(access: Access, shape: Shape, origin: Shape, loops: Shape) -> Access | None:
    """An access to a value of ``shape`` as one to the same elements in ``origin``; None where no affine one exists."""
    offsets: list[int] = []
    rows: list[tuple[int, ...]] = []
    for left, right in groups(shape, origin):
        part = _regroup(access, [(j, shape[j]) for j in left], [origin[j] for j in right], loops)
        if part is None:
            return None
        offsets += part.offset
        rows += part.matrix
    return Access(tuple(offsets), tuple(rows))


def groups(shape: Shape, origin: Shape) -> list[tuple[range, range]]:
    """Runs of dimensions on both sides that hold the same elements."""
    groups = []
    i = j = 0
    while i < len(shape) or j < len(origin):
        a, b = i, j
        left = right = 1
        first = True
        while first or left != right:
            first = False
            if left <= right and i < len(shape):
                left *= shape[i]
                i += 1
            else:
                right *= origin[j]
                j += 1
        while i < len(shape) and shape[i] == 1:
            i += 1
        while j < len(origin) and origin[j] == 1:
            j += 1
        groups.append((range(a, i), range(b, j)))
    return groups


def _regroup(access: Access, left: Sequence[tuple[int, int]], right: Sequence[int], loops: Shape) -> Access | None:
    wide = [j for j, n in left if n > 1]
    if any(not _inside(access, j, n, loops) for j, n in left):
        # Outside on one side must be outside on the other: only a single dimension that stays what it is.
        if len(wide) != 1 or [n for n in right if n > 1] != [n for _, n in left if n > 1]:
            return None
        if any(not _inside(access, j, n, loops) for j, n in left if n == 1):
            return None
        offsets = tuple(access.offset[wide[0]] if n > 1 else 0 for n in right)
        return Access(offsets, tuple(access.matrix[wide[0]] if n > 1 else (0,) * len(loops) for n in right))
    offset, row = 0, [0] * len(loops)
    for place, (j, _) in enumerate(left):
        stride = prod(n for _, n in left[place + 1 :])
        offset += stride * access.offset[j]
        row = [r + stride * c for r, c in zip(row, access.matrix[j], strict=True)]
    return _spread(offset, row, right, loops)


def _spread(offset: int, row: list[int], sizes: Sequence[int], loops: Shape) -> Access | None:
    """A linear place as coordinates of ``sizes``, innermost first: each takes the terms that stay inside it."""
    offsets, rows = [], []
    for size in reversed(sizes[1:]):
        inner = [0 if c % size == 0 else c for c in row]
        low = sum(min(0, c * (n - 1)) for c, n in zip(inner, loops, strict=True))
        high = sum(max(0, c * (n - 1)) for c, n in zip(inner, loops, strict=True))
        carried = (offset + low) // size
        rest = offset - carried * size
        if rest + high >= size:
            return None
        offsets.append(rest)
        rows.append(tuple(inner))
        offset, row = carried, [c // size if c % size == 0 else 0 for c in row]
    if sizes:
        offsets.append(offset)
        rows.append(tuple(row))
    return Access(tuple(reversed(offsets)), tuple(reversed(rows)))


def settled(graph: Graph, once: Callable[[Graph], Graph], rounds: int) -> Graph:
    """What a step makes of a graph, views folded behind it, until it finds nothing more (it answers with the graph itself)."""
    for _ in range(rounds):
        found = once(graph)
        if found is graph:
            break
        graph = fold_views(found)
    return graph
