"""Divisions by literals and by the sums of rows as products with reciprocals, which take one pass instead of two.

Only precisions that round anyway may do so (the product with a rounded reciprocal can differ in the last bit). The literal
goes into a factor's own literals where that saves a step: ``x * clip(x + 3, 0, 6) / 6`` is ``x * clip(x / 6 + 1/2, 0, 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compiler.ir import REDUCED, Compute, DType, Expr, Graph, Node, Step, Term, arg, const, expression, term_of
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
        if isinstance(found, Compute) and node.output not in graph.kept and _sums_exponentials(found, done):
            users = [_multiplied(done[r.output], found) for r in writer.readers.get(node.output, [])]
            if users and None not in users:
                total = term_of(found.post) if found.post is not None else arg(REDUCED, DType.F32)
                turned = replace(found, post=expression(const(1.0, DType.F32) / total))
                done.update((each.output, each) for each in (turned, *users) if each is not None)
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
    if not isinstance(user, Compute) or not _is_wide(user, divisor):
        return None
    steps = user.expr.steps
    own = {at for at, s in enumerate(steps) if s.op == "arg" and user.operands[int(s.imm or 0)].value == divisor.output}
    made = [_by_reciprocal(step, own) for step in steps]
    if not own or None in made:
        return None
    return replace(user, expr=Expr(tuple(step for step in made if step is not None)))


def _is_wide(user: Compute, divisor: Compute) -> bool:
    """Whether it is a map of many more elements, each of which has a divisor."""
    filled = any(o.value == divisor.output and o.fill is not None for o in user.operands)
    return user.reducer is None and user.points >= WIDE * divisor.points and not filled


def _by_reciprocal(step: Step, own: set[int]) -> Step | None:
    """A step with the product instead of a quotient by one of ``own``; None where it reads them in another way."""
    divides = step.op == "div" and step.args[1] in own
    if own & {*(step.args[:1] if divides else step.args)}:
        return None
    return replace(step, op="mul") if divides else step
