"""Maps of a few steps computed anew by readers that have units to spare, so that chains of operations become shorter.

Normalisations and softmax are chains of maps and reductions over the same rows, each of which waits for the one before
to pass through memory. Where the steps of a map and of its reader together are no more than a lane has units behind each
other, the reader does both in the same cycles; it need not wait, and where every reader does so the map is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from compiler.ir.access import Access
from compiler.ir.expr import FREE, Expr, Step
from compiler.ir.graph import Compute, Graph, Node, Operand, readers_of
from compiler.ir.terms import Term, arg, expression, term_of
from compiler.ir.types import TensorType
from compiler.numerics.scalar import may_widen
from compiler.passes.clean import dead_code
from compiler.passes.fuse import MAX_EXTRA, MAX_STREAMS, deduplicated, into

ROOM = 4  # steps of an element that follow each other in one cycle: units behind each other in a lane
READERS = 3  # that compute a map anew: more would be billed more arithmetic than the way is worth
SIMPLE = frozenset({"add", "sub", "mul", "muladd", "scale", "neg", "abs", "max", "min", "exp", "cast", "nearest"})
TWICE = frozenset({"div", "sqrt"})  # take two units


def ahead(graph: Graph) -> Graph:
    """Sums behind contractions that no epilogue has operands for become maps; maps of few steps are computed by their
    readers, as far as those have room; the same values."""
    graph = _residuals_apart(graph)
    readers = readers_of(graph)
    done = {n.output: n for n in graph.nodes}
    for node in graph.nodes:
        found = done[node.output]
        if not (isinstance(found, Compute) and _is_short(found)):
            continue
        able = [(r, _taken(found, done[r.output], graph)) for r in readers.get(node.output, [])]
        done.update((r.output, new) for r, new in [a for a in able if a[1] is not None][:READERS] if new is not None)
    return dead_code(graph.with_nodes(tuple(done[n.output] for n in graph.nodes)))


def room(expr: Expr) -> int:
    """Units that the steps take; more than there are for a step that takes several."""
    work = [s.op for s in expr.steps if s.op not in FREE]
    return sum(1 if op in SIMPLE else 2 if op in TWICE else ROOM + 1 for op in work)


def _is_short(node: Compute) -> bool:
    return node.reducer is None and node.post is None and node.points > 1 and 0 < room(node.expr) < ROOM


def _taken(producer: Compute, reader: Node, graph: Graph) -> Compute | None:
    """The reader with the map in its expression; None where that is impossible or takes more cycles."""
    if not isinstance(reader, Compute) or reader.is_contraction or producer.guard != reader.guard:
        return None
    if sum(o.value == producer.output for o in reader.operands) != 1 or _is_narrow(producer, graph):
        return None
    new = into(producer, reader)
    if new is None:
        return None
    new = deduplicated(new, Counter())
    if room(new.expr) + bool(new.reducer) > ROOM or len(new.operands) > MAX_STREAMS:
        return None
    return replace(new, source=reader.source)


def _is_narrow(producer: Compute, graph: Graph) -> bool:
    """Whether the result is kept in fewer bytes than what it is made of: then its readers fetch less than the map did."""
    types = graph.types
    most = max((types[o.value].dtype.size for o in producer.operands if _is_whole(o, producer, graph)), default=0)
    return types[producer.output].dtype.size < most


def _is_whole(operand: Operand, node: Compute, graph: Graph) -> bool:
    return graph.types[operand.value].elements >= prod(node.loops)


def _residuals_apart(graph: Graph) -> Graph:
    """Contractions whose epilogue reads more than its operands allow, without the sum that ends it."""
    nodes: list[Node] = []
    types = dict(graph.types)
    for node in graph.nodes:
        parts = _apart(node) if isinstance(node, Compute) else None
        nodes += parts or [node]
        if parts:
            types[parts[0].output] = TensorType(types[node.output].dtype, types[node.output].shape)
    return graph.with_nodes(tuple(nodes), types=types)


def _apart(node: Compute) -> list[Compute] | None:
    """A contraction that reads one operand too many, which its last step adds, as a contraction and a map."""
    if not node.is_contraction or node.post is None or len(node.operands) != 2 + MAX_EXTRA + 1:
        return None
    *before, last = node.post.steps
    added = [at for at in last.args if before[at].op == "arg" and int(before[at].imm or 0) >= 0] if before else []
    if last.op != "add" or len(added) != 1 or not may_widen(before[added[0]].dtype.numpy, last.dtype.numpy):
        return None
    position = int(before[added[0]].imm or 0)
    rest = next(at for at in last.args if at != added[0])
    if sum(s.op == "arg" and s.imm == position for s in before) != 1 or before[rest].dtype != last.dtype:
        return None
    places = {i: arg(i - (i > position), s.dtype) for i, s in _arguments(node.post).items()}
    middle = f"{node.output}~sum"
    first = replace(
        node,
        name=f"{node.name}~sum",
        output=middle,
        operands=tuple(o for i, o in enumerate(node.operands) if i != position),
        post=expression(term_of(Expr(tuple(before[: rest + 1])), places)),
    )
    shape = node.loops[: node.parallel]
    residual = node.operands[position]
    matrix = tuple(row[: node.parallel] for row in residual.access.matrix)
    operands = (
        Operand(middle, Access.identity(len(shape))),
        Operand(residual.value, Access(residual.access.offset, matrix), residual.fill),
    )
    kinds = (before[rest].dtype, before[added[0]].dtype)
    pair = (arg(0, kinds[0]), arg(1, kinds[1]))
    total = Term("add", pair if last.args[0] == rest else pair[::-1], last.dtype)
    return [
        first,
        Compute(
            node.name,
            node.output,
            node.source,
            shape,
            len(shape),
            operands,
            expression(total),
            None,
            None,
            guard=node.guard,
        ),
    ]


def _arguments(expr: Expr) -> dict[int, Step]:
    return {int(s.imm): s for s in expr.steps if s.op == "arg" and s.imm is not None and s.imm >= 0}
