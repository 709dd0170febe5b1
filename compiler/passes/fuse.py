"""Elementwise work moved to where its data already is: into the expression of its reader or behind a reduction.

Nothing is computed twice: an operation is fused only when its reader is the only one and reads each element exactly once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.expr import Expr, Step, spliced, straight
from compiler.ir.graph import Compute, Graph, Node, Operand
from compiler.passes.clean import uses

MAX_STREAMS = 4  # operands of a map or a reduction
MAX_EXTRA = 3  # operands of a contraction besides its two factors
MAX_STEPS = 64
REDUCED = -1  # the operand of a post that is what was reduced


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
    producers = [made[value] for value in values if _only_reader(node, value, counts)]
    producers = [p for p in producers if p.guard == node.guard]  # what one guard skips, another may not compute
    for producer in sorted(producers, key=lambda p: not p.is_contraction):
        joined = _behind(producer, node) if producer.reducer is not None else into(producer, node, full)
        if joined is not None:
            return joined, producer.output
    return None


def _only_reader(node: Compute, value: str, counts: Counter[str]) -> bool:
    return counts[value] == sum(o.value == value for o in node.operands) == 1


def deduplicated(node: Compute, counts: Counter[str]) -> Compute:
    """Equal operands become one (not the factors of a contraction, nor one stream before and one behind a reduction)."""
    places: dict[tuple[object, ...], int] = {}
    renumbered: dict[int, int] = {}
    operands: list[Operand] = []
    used = _positions(node)
    behind = {int(s.imm) for s in node.post.steps if s.op == "arg" and s.imm is not None} if node.post else set()
    for i, operand in enumerate(node.operands):
        factor = node.is_contraction and i < 2
        key = (operand.value, operand.access, repr(operand.fill), i if factor else None, i in behind)
        if i not in used or key in places:
            counts[operand.value] -= 1
            if i in used:
                renumbered[i] = places[key]
            continue
        places[key] = renumbered[i] = len(operands)
        operands.append(operand)
    if len(operands) == len(node.operands):
        return node
    return replace(
        node,
        operands=tuple(operands),
        expr=_renumber(node.expr, renumbered),
        post=_renumber(node.post, renumbered) if node.post else None,
    )


def _positions(node: Compute) -> set[int]:
    steps = (*node.expr.steps, *(node.post.steps if node.post else ()))
    return {int(s.imm) for s in steps if s.op == "arg" and s.imm is not None}


def _renumber(expr: Expr, places: dict[int, int]) -> Expr:
    return Expr(
        tuple(
            replace(s, imm=places[int(s.imm)]) if s.op == "arg" and s.imm is not None and s.imm in places else s
            for s in expr.steps
        )
    )


def _covers(access: Access, shape: tuple[int, ...], loops: tuple[int, ...]) -> bool:
    """Whether the access reads each element of ``shape`` exactly once: a permutation of loops, some perhaps backwards."""
    taken: set[int] = set()
    for j, n in enumerate(shape):
        terms = [(i, c) for i, c in enumerate(access.matrix[j]) if c and loops[i] > 1]
        if n == 1 and not terms:
            continue
        if len(terms) != 1 or abs(terms[0][1]) != 1 or loops[terms[0][0]] != n or terms[0][0] in taken:
            return False
        taken.add(terms[0][0])
    return access.stays_inside(shape, loops) and all(n == 1 or i in taken for i, n in enumerate(loops))


def into(producer: Compute, node: Compute, full: set[str] | None = None) -> Compute | None:
    """A map computed inside the expression (or the post) of its reader; one with too many steps for that is noted in
    ``full``."""
    position = next(i for i, o in enumerate(node.operands) if o.value == producer.output)
    operand = node.operands[position]
    in_expr = any(s.op == "arg" and s.imm == position for s in node.expr.steps)
    in_post = node.post is not None and any(s.op == "arg" and s.imm == position for s in node.post.steps)
    if in_expr == in_post or (in_expr and node.is_contraction) or producer.post is not None:
        return None
    loops = node.loops if in_expr else node.loops[: node.parallel]
    outer = Access(operand.access.offset, tuple(r[: len(loops)] for r in operand.access.matrix))
    if operand.fill is not None or not _covers(outer, producer.loops, loops):
        return None
    steps = _retargeted(producer.expr, len(node.operands), outer, loops)
    if steps is None:
        return None
    operands = (
        *node.operands,
        *(replace(o, access=o.access.compose(operand.access, len(node.loops))) for o in producer.operands),
    )
    given = node.expr if in_expr else node.post
    assert given is not None
    longer = spliced(given, position, steps, MAX_STEPS)
    if longer is None:
        if full is not None:
            full.add(producer.output)
        return None
    expr, post = (longer, node.post) if in_expr else (node.expr, longer)
    return _limited(replace(node, operands=operands, expr=expr, post=post, source=_sources(producer, node)))


def _behind(producer: Compute, node: Compute) -> Compute | None:
    """A map that follows a reduction computed as its post."""
    if node.reducer is not None or node.post is not None:
        return None
    position = next(i for i, o in enumerate(node.operands) if o.value == producer.output)
    operand = node.operands[position]
    shape = producer.loops[: producer.parallel]
    if operand.fill is not None or not _covers(operand.access, shape, node.loops):
        return None
    width = len(node.loops)
    tail = producer.loops[producer.parallel :]
    loops = (*node.loops, *tail)
    rows = [(*r, *(0,) * len(tail)) for r in operand.access.matrix]
    rows += [tuple(int(i == width + r) for i in range(len(loops))) for r in range(len(tail))]
    place = Access((*operand.access.offset, *(0,) * len(tail)), tuple(rows))
    n = len(producer.operands)
    reads = [replace(o, access=o.access.compose(place, len(loops))) for o in producer.operands]
    reads += [
        replace(o, access=Access(o.access.offset, tuple((*r, *(0,) * len(tail)) for r in o.access.matrix)))
        for o in node.operands
    ]
    inner = _retargeted(producer.expr, 0, place, loops)
    reduced: list[Step] | None = [Step("arg", (), producer.expr.dtype, REDUCED)]
    if producer.post is not None:
        reduced = _retargeted(producer.post, 0, operand.access, node.loops)
    if inner is None or reduced is None:
        return None
    tree = spliced(
        _renumber(node.expr, {i: n + i for i in range(len(node.operands))}), n + position, reduced, MAX_STEPS
    )
    if tree is None:
        return None
    return _limited(
        Compute(
            producer.name,
            node.output,
            _sources(producer, node),
            loops,
            width,
            tuple(reads),
            straight(inner),
            producer.reducer,
            tree,
            guard=node.guard,
        )
    )


def _retargeted(expr: Expr, first: int, access: Access, loops: tuple[int, ...]) -> list[Step] | None:
    """The steps with operands numbered from ``first`` on, and loop coordinates taken through ``access``."""
    steps: list[Step] = []
    for step in expr.steps:
        if step.op == "arg" and step.imm is not None and step.imm != REDUCED:
            steps.append(replace(step, imm=int(step.imm) + first) if first else step)
        elif step.op == "index" and step.imm is not None:
            j = int(step.imm)
            found = [(i, c) for i, c in enumerate(access.matrix[j]) if c and loops[i] > 1]
            if not found and access.offset[j] == 0:
                steps.append(Step("const", (), step.dtype, 0.0 if step.dtype.is_float else 0))
            elif len(found) == 1 and found[0][1] == 1 and access.offset[j] == 0:
                steps.append(Step("index", (), step.dtype, found[0][0]))
            else:
                return None
        else:
            steps.append(step)
    return steps


def _sources(first: Node, second: Node) -> tuple[str, ...]:
    return (*first.source, *(s for s in second.source if s not in first.source))


def _limited(node: Compute) -> Compute | None:
    """The fused operation if the processor's streams and programs can hold it."""
    distinct = deduplicated(node, Counter())
    limit = 2 + MAX_EXTRA if distinct.is_contraction else MAX_STREAMS
    steps = len(distinct.expr.steps) + (len(distinct.post.steps) if distinct.post else 0)
    return node if len(distinct.operands) <= limit and steps <= MAX_STEPS else None
