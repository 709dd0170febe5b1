"""Divisions by literals and by the sums of rows as products with reciprocals, which take one pass instead of two.

Only precisions that round anyway may do so (the product with a rounded reciprocal can differ in the last bit). The literal
goes into a factor's own literals where that saves a step: ``x * clip(x + 3, 0, 6) / 6`` is ``x * clip(x / 6 + 1/2, 0, 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.ir.expr import REDUCED, Expr
from compiler.ir.graph import Compute, Graph, Node
from compiler.ir.terms import Term, arg, const, expression, term_of
from compiler.ir.types import DType
from compiler.passes.identities import RECIPROCAL, times
from compiler.passes.patterns import rewritten
from compiler.passes.rewriter import Rewriter
from compiler.precision.encoding import steps

EXACT = frozenset({"floor", "ceil", "trunc", "round", "mod", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "cast"})


def without_divisions(term: Term) -> Term:
    """The term with float32 divisions by literals multiplied out; as it is where steps decide on exact values."""
    return term if _decides(term) else _rewritten(term)


def _decides(term: Term) -> bool:
    exact = term.name in EXACT and not (term.name == "cast" and term.dtype.is_float)
    return exact or any(_decides(a) for a in term.args)


def _rewritten(term: Term) -> Term:
    term = term.on(_rewritten(a) for a in term.args)
    product = rewritten(term, RECIPROCAL) if term.dtype == DType.F32 else None
    return term if product is None else _shortest(*product.args)


def _shortest(term: Term, factor: Term) -> Term:
    """``term * factor`` in the fewest steps."""
    ways = [term * factor, times(term, factor)]
    if term.name == "mul":
        first, second = term.args
        ways += [first * times(second, factor), times(first, factor) * second]
    return min(ways, key=steps)


WIDE = 8  # elements that share a divisor, from which on one division more is nothing


def of_rows(graph: Graph) -> Graph:
    """Sums of exponentials that others only divide by, as reciprocals: a division for every row, a product for every element."""
    writer = Rewriter(graph)
    done = dict(writer.makers)
    for node in graph.nodes:
        found = done[node.output]
        if not isinstance(found, Compute) or node.output in graph.kept or not _sums_exponentials(found, done):
            continue
        turned = [_multiplied(done[r.output], found) for r in writer.readers.get(node.output, [])]
        users = [user for user in turned if user is not None]
        if users and len(users) == len(turned):
            total = term_of(found.post) if found.post is not None else arg(REDUCED, DType.F32)
            done[node.output] = replace(found, post=expression(const(1.0, DType.F32) / total))
            done.update((user.output, user) for user in users)
    return writer.done(done[n.output] for n in graph.nodes)


def _sums_exponentials(node: Compute, makers: Mapping[str, Node]) -> bool:
    """Whether it sums float32 results of ``exp``, which it computes or reads: softmax's divisor, which is not tiny."""
    kinds = {node.expr.dtype, node.post.dtype if node.post else DType.F32}
    if node.reducer != "sum" or kinds != {DType.F32}:
        return False
    maker = makers.get(node.operands[0].value) if node.expr.is_identity else node
    return isinstance(maker, Compute) and not maker.post and maker.expr.steps[-1].op == "exp"


def _multiplied(user: Node, divisor: Compute) -> Compute | None:
    """A map that divides by the value as one that multiplies; None where it does anything else with it."""
    if not isinstance(user, Compute) or user.reducer is not None or user.points < WIDE * divisor.points:
        return None
    mine = {i for i, o in enumerate(user.operands) if o.value == divisor.output}
    steps = user.expr.steps
    own = {at for at, s in enumerate(steps) if s.op == "arg" and s.imm in mine}
    other = [s for s in steps if own & {*(s.args[:1] if s.op == "div" else s.args)}]
    if not own or other or any(user.operands[i].fill is not None for i in mine):
        return None
    made = [replace(s, op="mul") if s.op == "div" and s.args[1] in own else s for s in steps]
    return replace(user, expr=Expr(tuple(made)))
