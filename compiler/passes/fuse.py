"""Elementwise work moved to where its data already is: into the expression of its reader or behind a reduction.

Nothing is computed twice: an operation is fused only when its reader is the only one and reads each element exactly once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.ir import REDUCED, Access, Compute, Expr, Graph, Node, Operand, Step, sources_of, spliced, straight
from compiler.passes.clean import uses

MAX_STREAMS = 4  # operands of a map or a reduction
MAX_EXTRA = 3  # operands of a contraction besides its two factors
MAX_STEPS = 64


def fuse(graph: Graph) -> Graph:
    """One sweep in topological order; every operation takes in its producers, or joins the reduction before it."""
    counts = uses(graph)
    made: dict[str, Compute] = {}
    order: dict[str, Node] = {}
    full: set[str] = set()
    for node in graph.nodes:
        if isinstance(node, Compute):
            node = deduplicated(node, counts)
            while (found := _step(node, made, counts, full)) is not None:
                new, gone = found
                del order[gone], made[gone]
                node = deduplicated(new, counts)
            made[node.output] = node
        order[node.output] = node
    kept = {*graph.inputs, *graph.constants, *order, *(s.input for s in graph.states)}
    types = {name: kind for name, kind in graph.types.items() if name in kept}
    return replace(graph, nodes=tuple(order.values()), types=types)


def _step(node: Compute, made: dict[str, Compute], counts: Counter[str], full: set[str]) -> tuple[Compute, str] | None:
    """One fusion of a producer with ``node``, and the value that disappears. ``full``: values with too many steps for their
    reader, which are too many for all that it becomes as well."""
    values = [o.value for o in node.operands if o.value in made and o.value not in full]
    once = [value for value in values if counts[value] == sum(o.value == value for o in node.operands) == 1]
    producers = [made[value] for value in once if made[value].guard == node.guard]  # what one guard skips, all need not
    for producer in sorted(producers, key=lambda p: not p.is_contraction):
        joined = _behind(producer, node) if producer.reducer is not None else into(producer, node, full)
        if joined is not None:
            return joined, producer.output
    return None


def deduplicated(node: Compute, counts: Counter[str]) -> Compute:
    """Equal operands become one (not the factors of a contraction, nor one stream before and one behind a reduction)."""
    behind = node.post.reads if node.post else {}
    places: dict[tuple[object, ...], int] = {}  # in the new list, by what tells operands apart
    renumbered: dict[int, int] = {}
    operands: list[Operand] = []
    for i, operand in enumerate(node.operands):
        factor = i if node.is_contraction and i < 2 else None
        key = (operand.value, operand.access, repr(operand.fill), factor, i in behind)
        used = i in node.expr.reads or i in behind
        if used and key not in places:
            places[key] = len(operands)
            operands.append(operand)
        else:
            counts[operand.value] -= 1
        if used:
            renumbered[i] = places[key]
    if len(operands) == len(node.operands):
        return node
    post = node.post and node.post.renumbered(renumbered)
    return replace(node, operands=tuple(operands), expr=node.expr.renumbered(renumbered), post=post)


def recomputed(producer: Compute, reader: Node) -> Compute | None:
    """The reader with a map in its expression that others may read, too; None where that is impossible."""
    if not isinstance(reader, Compute) or reader.is_contraction or producer.guard != reader.guard:
        return None
    if sum(o.value == producer.output for o in reader.operands) != 1:
        return None
    new = into(producer, reader)
    return None if new is None else replace(deduplicated(new, Counter()), source=reader.source)


def into(producer: Compute, node: Compute, full: set[str] | None = None) -> Compute | None:
    """A map computed inside the expression (or the post) of its reader; one with too many steps for that is noted in
    ``full``."""
    position = _position(producer, node)
    operand, in_expr = node.operands[position], position in node.expr.reads
    loops, given = (node.loops, node.expr) if in_expr else (node.shape, node.post)
    outer = operand.access.keep(range(len(loops)))
    if given is None or not _may_join(producer, node, position) or not outer.is_permutation(loops, producer.loops):
        return None
    steps = _retargeted(producer.expr, len(node.operands), outer, loops)
    if steps is None:
        return None
    longer = spliced(given, position, steps, MAX_STEPS)
    if longer is None:
        if full is not None:
            full.add(producer.output)
        return None
    reads = (o.through(operand.access, len(node.loops)) for o in producer.operands)
    new = replace(node, operands=(*node.operands, *reads), source=sources_of(producer, node))
    return _limited(replace(new, expr=longer) if in_expr else replace(new, post=longer))


def _may_join(producer: Compute, node: Compute, position: int) -> bool:
    """Whether an operand is read by the expression or by the post, not both, and may be computed there."""
    in_expr, in_post = position in node.expr.reads, node.post is not None and position in node.post.reads
    factor = in_expr and node.is_contraction
    return in_expr != in_post and not factor and producer.post is None and node.operands[position].fill is None


def _position(producer: Compute, node: Compute) -> int:
    return next(i for i, o in enumerate(node.operands) if o.value == producer.output)


def _behind(producer: Compute, node: Compute) -> Compute | None:
    """A map that follows a reduction computed as its post."""
    position = _position(producer, node)
    operand, width = node.operands[position], len(node.loops)
    if not node.is_map or operand.fill is not None or not operand.access.is_permutation(node.loops, producer.shape):
        return None
    loops = (*node.loops, *(producer.loops[i] for i in producer.inner))
    over = [*range(width), *(None for _ in producer.inner)]
    place = operand.access.keep(over).stacked(Access.of_loops(range(width, len(loops)), len(loops)))
    inner = _retargeted(producer.expr, 0, place, loops)
    reduced = _reduced(producer, operand.access, node.loops)
    if inner is None or reduced is None:
        return None
    first = len(producer.operands)
    moved = node.expr.renumbered({i: first + i for i in range(len(node.operands))})
    post = spliced(moved, first + position, reduced, MAX_STEPS)
    if post is None:
        return None
    reads = (*(o.through(place, len(loops)) for o in producer.operands), *(o.keep(over) for o in node.operands))
    expr, source = straight(inner), sources_of(producer, node)
    return _limited(
        Compute(producer.name, node.output, source, loops, width, reads, expr, producer.reducer, post, guard=node.guard)
    )


def _reduced(producer: Compute, access: Access, loops: tuple[int, ...]) -> list[Step] | None:
    """What the reduction gives a reader that has its coordinates through ``access``."""
    if producer.post is None:
        return [Step("arg", (), producer.expr.dtype, REDUCED)]
    return _retargeted(producer.post, 0, access, loops)


def _retargeted(expr: Expr, first: int, access: Access, loops: tuple[int, ...]) -> list[Step] | None:
    """The steps with operands numbered from ``first`` on, and loop coordinates taken through ``access``; None where a
    coordinate is not that of one loop."""
    steps: list[Step] = []
    for step in expr.steps:
        moved: Step | None = step
        if step.op == "arg" and step.imm != REDUCED and first:
            moved = replace(step, imm=int(step.imm or 0) + first)
        elif step.op == "index":
            moved = _coordinate(step, access, loops)
        if moved is None:
            return None
        steps.append(moved)
    return steps


def _coordinate(step: Step, access: Access, loops: tuple[int, ...]) -> Step | None:
    """A loop's coordinate as that of the loop which it is through ``access``, or 0."""
    j = int(step.imm or 0)
    found = [i for i in access.loops(j) if loops[i] > 1]
    if access.offset[j] or len(found) > 1 or any(access.matrix[j][i] != 1 for i in found):
        return None
    if not found:
        return Step("const", (), step.dtype, 0.0 if step.dtype.is_float else 0)
    return Step("index", (), step.dtype, found[0])


def _limited(node: Compute) -> Compute | None:
    """The fused operation if the processor's streams and programs can hold it."""
    distinct = deduplicated(node, Counter())
    limit = 2 + MAX_EXTRA if distinct.is_contraction else MAX_STREAMS
    steps = len(distinct.expr.steps) + (len(distinct.post.steps) if distinct.post else 0)
    return node if len(distinct.operands) <= limit and steps <= MAX_STEPS else None
