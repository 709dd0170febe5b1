"""Views and reshapes folded into the accesses of their readers, so that nothing is moved that can be read in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from math import prod

from compiler.ir import Access, Compute, Gather, Graph, Node, Operand, Reshape, Scatter, View
from compiler.passes.clean import dead_code

Shape = tuple[int, ...]


def fold_views(graph: Graph) -> Graph:
    """Operands read the original of a view or a reshape wherever one bounded affine access can say so."""
    made: dict[str, Node] = {}
    for node in graph.nodes:
        made[node.output] = _direct(node, graph, made)
    return dead_code(replace(graph, nodes=tuple(made.values())))


def _direct(node: Node, graph: Graph, made: dict[str, Node]) -> Node:
    loops = node.loops if isinstance(node, Compute | Gather | Scatter) else graph.types[node.output].shape

    def through(operand: Operand) -> Operand:
        return _through(operand, loops, graph, made)

    if isinstance(node, Compute):
        return replace(node, operands=tuple(through(o) for o in node.operands))
    if isinstance(node, View):
        return replace(node, operand=through(node.operand))
    if isinstance(node, Gather | Scatter):
        node = replace(node, indices=tuple(i and through(i) for i in node.indices))
        return replace(node, update=through(node.update)) if isinstance(node, Scatter) else node
    before = made.get(node.input) if isinstance(node, Reshape) else None
    return replace(node, input=before.input) if isinstance(before, Reshape) and isinstance(node, Reshape) else node


def _through(operand: Operand, loops: Shape, graph: Graph, made: dict[str, Node]) -> Operand:
    """The operand read from as far back as one access reaches."""
    while True:
        operand = operand.read_by(canonical(operand.access, loops))
        before = made.get(operand.value)
        found = None
        if isinstance(before, View):
            found = _through_view(operand, before, loops, graph)
        elif isinstance(before, Reshape):
            found = _through_reshape(operand, before, loops, graph)
        if found is None:
            return operand
        operand = found


def canonical(access: Access, loops: Shape) -> Access:
    """Without coefficients of loops that run only once: their coordinate is 0."""
    return access.keep(None if n == 1 else i for i, n in enumerate(loops))


def _through_view(operand: Operand, view: View, loops: Shape, graph: Graph) -> Operand | None:
    shape, source = graph.types[view.output].shape, view.operand
    origin = graph.types[source.value].shape
    if 0 in loops or 0 in shape:
        return None
    leaving = [j for j, n in enumerate(shape) if not operand.access.inside(j, n, loops)]
    fill = operand.fill
    if source.fill is not None and not source.access.stays_inside(origin, shape):
        if leaving and repr(source.fill) != repr(fill):
            return None
        fill = source.fill
    if not all(_leaves_too(source.access, j, shape, origin) for j in leaving):
        return None
    access = source.access.compose(operand.access, len(loops))
    return Operand(source.value, access, None if access.stays_inside(origin, loops) else fill)


def _leaves_too(access: Access, j: int, shape: Shape, origin: Shape) -> bool:
    """Whether a coordinate j outside the view always reads outside the original: then one guard serves both."""
    for k in access.dims(j):
        if any(i != j and shape[i] > 1 for i in access.loops(k)):
            continue
        step = access.matrix[k][j]
        before, behind = access.offset[k] - step, access.offset[k] + step * shape[j]
        if min(before, behind) < 0 and max(before, behind) >= origin[k]:
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
    made = Access((), ())
    for left, right in groups(shape, origin):
        part = _regroup(access.project(left), [shape[j] for j in left], [origin[j] for j in right], loops)
        if part is None:
            return None
        made = made.stacked(part)
    return made


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


def _regroup(access: Access, shape: Sequence[int], origin: Sequence[int], loops: Shape) -> Access | None:
    """An access to dimensions of ``shape`` as one to those of ``origin``, which hold the same elements."""
    leaving = [j for j, n in enumerate(shape) if not access.inside(j, n, loops)]
    if leaving:
        return _the_same(access, leaving, shape, origin)
    offset, row = 0, [0] * len(loops)
    for j, own in enumerate(access.matrix):
        stride = prod(shape[j + 1 :])
        offset += stride * access.offset[j]
        row = [r + stride * c for r, c in zip(row, own, strict=True)]
    return _spread(offset, row, origin, loops)


def _the_same(access: Access, leaving: list[int], shape: Sequence[int], origin: Sequence[int]) -> Access | None:
    """Of coordinates that leave their dimensions: outside on one side must be outside on the other. So only a single dimension
    that stays what it is, among such of one place."""
    wide = [n for n in shape if n > 1]
    if len(wide) != 1 or [shape[j] for j in leaving] != wide or [n for n in origin if n > 1] != wide:
        return None
    still = Access((0,), ((0,) * len(access.matrix[0]),))
    return reduce(Access.stacked, (access.project(leaving) if n > 1 else still for n in origin))


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
