"""Large reductions in chunks of a power of two: one instruction reduces no more than the vector unit's tile."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.expr import identity
from compiler.ir.graph import Compute, Graph, Join, Node, Operand
from compiler.ir.types import TensorType


def split_reductions(graph: Graph, limit: int) -> Graph:
    """Reductions (not contractions) of more than ``limit`` points per element become two or more stages.

    A chunk of 2**m consecutive points is a subtree of the reduction's tree, so that a single reduction loop gives the same
    bits as before.
    """
    assert limit > 1, "a reduction takes at least two points"
    types = dict(graph.types)
    nodes: list[Node] = []
    for node in graph.nodes:
        if (
            isinstance(node, Compute)
            and node.reducer is not None
            and not node.is_contraction
            and node.reduction > limit
        ):
            nodes += _stages(node, limit, types)
        else:
            nodes.append(node)
    return replace(graph, nodes=tuple(nodes), types=types)


def _stages(node: Compute, limit: int, types: dict[str, TensorType]) -> list[Node]:
    outer, inner = node.loops[: node.parallel], node.loops[node.parallel :]
    # Reduce the innermost loops that fit; what is left of one loop is cut into chunks.
    fits = len(inner)
    while fits and prod(inner[fits - 1 :]) <= limit:
        fits -= 1
    if fits < len(inner):
        first = _partial(node, (*outer, *inner[:fits]), inner[fits:], types, "a")
        return [first, *_rest(node, first, outer, inner[:fits], limit, types)]
    chunk = 1 << (limit.bit_length() - 1)
    whole, tail = divmod(inner[-1], chunk)
    heads = inner[:-1]
    made: list[Node] = [_chunked(node, heads, whole, chunk, 0, types, "a")]
    if tail:
        made.append(_chunked(node, heads, 1, tail, whole * chunk, types, "b"))
        shape = (*outer, *heads, whole + 1)
        name = _unused(f"{node.output}~j", types)
        types[name] = TensorType(node.expr.dtype, shape)
        parts = (made[0].output, made[1].output)
        made.append(Join(_named(node, name), name, node.source, parts, len(shape) - 1, guard=node.guard))
    return [*made, *_rest(node, made[-1], outer, (*heads, whole + bool(tail)), limit, types)]


def _unused(name: str, types: dict[str, TensorType]) -> str:
    while name in types:
        name += "'"
    return name


def _named(node: Node, value: str) -> str:
    """A stage's name: the operation's with what its value's name adds."""
    return node.name + value[len(node.output) :]


def _partial(
    node: Compute, parallel: tuple[int, ...], reduction: tuple[int, ...], types: dict[str, TensorType], tag: str
) -> Compute:
    name = _unused(f"{node.output}~{tag}", types)
    types[name] = TensorType(node.expr.dtype, parallel)
    used = sorted({int(s.imm) for s in node.expr.steps if s.op == "arg" and s.imm is not None})
    places = {old: new for new, old in enumerate(used)}
    steps = tuple(
        replace(s, imm=places[int(s.imm)]) if s.op == "arg" and s.imm is not None else s for s in node.expr.steps
    )
    return replace(
        node,
        name=_named(node, name),
        output=name,
        loops=(*parallel, *reduction),
        parallel=len(parallel),
        operands=tuple(node.operands[i] for i in used),
        expr=replace(node.expr, steps=steps),
        post=None,
    )


def _chunked(
    node: Compute, heads: tuple[int, ...], count: int, chunk: int, start: int, types: dict[str, TensorType], tag: str
) -> Compute:
    """``count`` chunks of the last reduction loop from ``start`` on, each one element of a new dimension."""
    outer = node.loops[: node.parallel]
    partial = _partial(node, (*outer, *heads, count), (chunk,), types, tag)
    last = len(node.loops) - 1

    def widened(access: Access) -> Access:
        rows = tuple((*row[:last], row[last] * chunk, row[last]) for row in access.matrix)
        return Access(tuple(o + row[last] * start for o, row in zip(access.offset, access.matrix, strict=True)), rows)

    steps = _moved_index(partial, last, chunk, start)
    operands = tuple(replace(o, access=widened(o.access)) for o in partial.operands)
    return replace(partial, operands=operands, expr=replace(partial.expr, steps=steps))


def _moved_index(partial: Compute, last: int, chunk: int, start: int) -> tuple:  # type: ignore[type-arg]
    """The coordinate of the loop that was cut is ``chunk * l + l' + start`` now."""
    from compiler.ir.terms import Term, const, expression, index

    terms: list[Term] = []
    for step in partial.expr.steps:
        if step.op == "index" and step.imm == last:
            place = index(last, step.dtype) * const(chunk, step.dtype) + index(last + 1, step.dtype)
            terms.append(place + start if start else place)
        else:
            terms.append(Term(step.op, tuple(terms[a] for a in step.args), step.dtype, step.imm))
    return expression(terms[-1]).steps


def _rest(
    node: Compute, first: Node, outer: tuple[int, ...], left: tuple[int, ...], limit: int, types: dict[str, TensorType]
) -> list[Node]:
    """The last stage, with the post and its operands; cut again if it is still too large."""
    loops = (*outer, *left)
    rank = len(loops)
    used = sorted(
        {int(s.imm) for s in node.post.steps if s.op == "arg" and s.imm != -1 and s.imm is not None}
        if node.post
        else ()
    )
    places = {old: i + 1 for i, old in enumerate(used)}
    operands = [Operand(first.output, Access.identity(rank))]
    for i in used:
        access = node.operands[i].access
        rows = tuple((*row[: len(outer)], *(0,) * len(left)) for row in access.matrix)
        operands.append(replace(node.operands[i], access=Access(access.offset, rows)))
    post = node.post
    if post is not None:
        steps = tuple(
            replace(s, imm=places[int(s.imm)]) if s.op == "arg" and s.imm in places else s for s in post.steps
        )
        post = replace(post, steps=steps)
    last = replace(node, loops=loops, operands=tuple(operands), expr=identity(node.expr.dtype), post=post)
    if prod(left) > limit:
        return _stages(last, limit, types)
    return [last]
