"""Large reductions in chunks of a power of two: one instruction reduces no more than the vector unit's tile."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from compiler.ir import Compute, Expr, Graph, Join, Node, Step, TensorType, Term, const, expression, index, term_of
from compiler.passes.rewriter import Rewriter
from compiler.passes.stages import partial, rest, staged


def split_reductions(graph: Graph, limit: int) -> Graph:
    """Reductions (not contractions) of more than ``limit`` points per element become two or more stages.

    A chunk of 2**m consecutive points is a subtree of the reduction's tree, so that a single reduction loop gives the same
    bits as before.
    """
    assert limit > 1, "a reduction takes at least two points"
    writer = Rewriter(graph)

    def made(node: Compute) -> list[Node] | None:
        large = node.reducer is not None and not node.is_contraction and node.reduction > limit
        return _stages(node, limit, writer) if large else None

    return writer.each(made, Compute)


def _stages(node: Compute, limit: int, writer: Rewriter) -> list[Node]:
    # Reduce the innermost loops that fit; what is left of one loop is cut into chunks.
    fits = len(node.loops)
    while fits > node.parallel and prod(node.loops[fits - 1 :]) <= limit:
        fits -= 1
    if fits < len(node.loops):
        first = partial(node, writer, "a", fits)
        return [first, *_rest(node, first.output, node.loops[node.parallel : fits], limit, writer)]
    chunk = 1 << (limit.bit_length() - 1)
    whole, tail = divmod(node.loops[-1], chunk)
    made: list[Node] = [_chunked(node, whole, chunk, 0, writer, "a")]
    left = (*node.loops[node.parallel : -1], whole + bool(tail))
    if tail:
        made.append(_chunked(node, 1, tail, whole * chunk, writer, "b"))
        name = writer.value(f"{node.output}~j", TensorType(node.expr.dtype, (*node.shape, *left)))
        axis = node.parallel + len(left) - 1
        parts = (made[0].output, made[1].output)
        made.append(Join(writer.name(staged(node, name)), name, node.source, parts, axis, guard=node.guard))
    return [*made, *_rest(node, made[-1].output, left, limit, writer)]


def _chunked(node: Compute, count: int, chunk: int, start: int, writer: Rewriter, tag: str) -> Compute:
    """``count`` chunks of the last reduction loop from ``start`` on, each one element of a new dimension."""
    last = len(node.loops) - 1
    cut = replace(
        node,
        loops=(*node.loops[:last], count, chunk),
        operands=tuple(o.read_by(o.access.shifted(last, start).split(last, (count, chunk))) for o in node.operands),
        expr=_counted(node.expr, last, chunk, start),
    )
    return partial(cut, writer, tag, last + 1)


def _counted(expr: Expr, last: int, chunk: int, start: int) -> Expr:
    """The coordinate of the loop that was cut is ``chunk * l + l' + start`` now."""

    def counted(step: Step) -> Term:
        if step.imm != last:
            return index(int(step.imm or 0), step.dtype)
        place = index(last, step.dtype) * const(chunk, step.dtype) + index(last + 1, step.dtype)
        return place + start if start else place

    return expression(term_of(expr, counted=counted))


def _rest(node: Compute, partials: str, left: tuple[int, ...], limit: int, writer: Rewriter) -> list[Node]:
    """The last stage; cut again if it is still too large."""
    last = rest(node, partials, left)
    return _stages(last, limit, writer) if prod(left) > limit else [last]
