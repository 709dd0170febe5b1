"""Maps of a few steps computed anew by readers that have units to spare, so that chains of operations become shorter.

Normalisations and softmax are chains of maps and reductions over the same rows, each of which waits for the one before
to pass through memory. Where the steps of a map and of its reader together are no more than a lane has units behind each
other, the reader does both in the same cycles; it need not wait, and where every reader does so the map is gone.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import FREE, Compute, Expr, Graph, Node, TensorType, Term, arg, expression, straight
from compiler.numerics.scalar import may_widen
from compiler.passes.clean import dead_code
from compiler.passes.fuse import MAX_EXTRA, MAX_STREAMS, recomputed
from compiler.passes.rewriter import Rewriter

ROOM = 4  # steps of an element that follow each other in one cycle: units behind each other in a lane
SMALL = 320  # points of which more steps take a cycle or two, and an operation less saves its whole latency
STEPS = 3 * ROOM  # units that a map of so few points and its reader may take together
READERS = 3  # that compute a map anew: more would be billed more arithmetic than the way is worth
SIMPLE = frozenset({"add", "sub", "mul", "muladd", "scale", "neg", "abs", "max", "min", "exp", "cast", "nearest"})
TWICE = frozenset({"div", "sqrt"})  # take two units


def ahead(graph: Graph) -> Graph:
    """Sums behind contractions that no epilogue has operands for become maps; maps of few steps are computed by their
    readers, as far as those have room; the same values."""
    graph = _residuals_apart(graph)
    writer = Rewriter(graph)
    done = dict(writer.makers)
    for node in graph.nodes:
        found = done[node.output]
        if isinstance(found, Compute) and _is_short(found) and not _is_narrow(found, graph):
            able = [_with(found, done[r.output]) for r in writer.readers.get(node.output, [])]
            done.update((reader.output, reader) for reader in [r for r in able if r is not None][:READERS])
    return dead_code(writer.done(done[n.output] for n in graph.nodes))


def room(expr: Expr) -> int:
    """Units that the steps take; more than there are for a step that takes several."""
    return sum(1 if op in SIMPLE else 2 if op in TWICE else ROOM + 1 for op in expr.ops if op not in FREE)


def _is_short(node: Compute) -> bool:
    return node.is_map and node.points > 1 and 0 < room(node.expr) < (STEPS if node.points <= SMALL else ROOM)


def _with(producer: Compute, reader: Node) -> Compute | None:
    """The reader with the map in its expression; None where that is impossible or takes more cycles."""
    new = recomputed(producer, reader)
    if new is None:
        return None
    most = STEPS if producer.points <= SMALL and new.points * new.reduction <= SMALL else ROOM
    if room(new.expr) + bool(new.reducer) > most or len(new.operands) > MAX_STREAMS:
        return None
    return new


def _is_narrow(producer: Compute, graph: Graph) -> bool:
    """Whether the result is kept in fewer bytes than what it is made of: then its readers fetch less than the map did."""
    kinds = [graph.types[o.value] for o in producer.operands]
    most = max((kind.dtype.size for kind in kinds if kind.elements >= producer.points), default=0)
    return graph.types[producer.output].dtype.size < most


def _residuals_apart(graph: Graph) -> Graph:
    """Contractions whose epilogue reads more than its operands allow, without the sum that ends it."""
    writer = Rewriter(graph)
    return writer.each(lambda node: _apart(node, writer), Compute)


def _apart(node: Compute, writer: Rewriter) -> list[Node] | None:
    """A contraction that reads one operand too many, which its last step adds, as a contraction and a map."""
    found = _residual(node)
    if found is None or node.post is None:
        return None
    rest, residual = found
    steps, last = node.post.steps, node.post.steps[-1]
    middle = writer.value(f"{node.output}~sum", TensorType(steps[rest].dtype, node.shape))
    name = writer.name(f"{node.name}~sum")
    first = replace(node, name=name, output=middle, post=straight(steps[: rest + 1])).pruned(keep=2)
    pair = (arg(0, steps[rest].dtype), arg(1, node.post.reads[residual]))
    total = expression(Term("add", pair if last.args[0] == rest else pair[::-1], last.dtype))
    operands = (writer.whole(middle), node.operands[residual].keep(range(node.parallel)))
    done = Compute(
        node.name, node.output, node.source, node.shape, node.parallel, operands, total, None, None, guard=node.guard
    )
    return [first, done]


def _residual(node: Compute) -> tuple[int, int] | None:
    """Of a contraction with one operand too many that its last step adds: the step that it is added to, and the operand."""
    if not node.is_contraction or node.post is None or len(node.operands) != 2 + MAX_EXTRA + 1:
        return None
    last = node.post.steps[-1]
    for at, rest in (last.args, last.args[::-1]) if last.op == "add" else ():
        if _is_addend(node.post, at) and node.post.steps[rest].dtype == last.dtype:
            return rest, int(node.post.steps[at].imm or 0)
    return None


def _is_addend(post: Expr, at: int) -> bool:
    """Whether a step is an operand that nothing else reads, and that the last step may widen."""
    step = post.steps[at]
    alone = step.op == "arg" and step.imm in post.reads and post.times(int(step.imm or 0)) == 1
    return alone and may_widen(step.dtype.numpy, post.dtype.numpy)
