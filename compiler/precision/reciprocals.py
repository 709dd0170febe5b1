"""Divisions by literals and by the sums of rows as products with reciprocals, which take one pass instead of two.

Only precisions that round anyway may do so (the product with a rounded reciprocal can differ in the last bit). The literal
goes into a factor's own literals where that saves a step: ``x * clip(x + 3, 0, 6) / 6`` is ``x * clip(x / 6 + 1/2, 0, 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from compiler.ir.expr import Expr
from compiler.ir.graph import Compute, Graph, Node, readers_of
from compiler.ir.terms import Term, arg, const, expression, term_of
from compiler.ir.types import DType
from compiler.precision.encoding import steps

EXACT = frozenset({"floor", "ceil", "trunc", "round", "mod", "fmod", "eq", "ne", "lt", "le", "gt", "ge", "cast"})


def without_divisions(term: Term) -> Term:
    """The term with float32 divisions by literals multiplied out; as it is where steps decide on exact values."""
    return term if _decides(term) else _rewritten(term)


def _decides(term: Term) -> bool:
    exact = term.name in EXACT and not (term.name == "cast" and term.dtype.is_float)
    return exact or any(_decides(a) for a in term.args)


def _rewritten(term: Term) -> Term:
    args = tuple(_rewritten(a) for a in term.args)
    term = term if args == term.args else Term(term.name, args, term.dtype, term.imm)
    if term.name != "div" or term.dtype != DType.F32:
        return term
    factor = _reciprocal(args[1])
    return term if factor is None else _shortest(args[0], factor)


def _reciprocal(divisor: Term) -> float | None:
    """1 / literal, if that is an ordinary positive float32."""
    if divisor.name != "const" or not divisor.imm or divisor.imm < 0:
        return None
    with np.errstate(all="ignore"):
        value = float(np.float32(1.0) / np.float32(divisor.imm))
    return value if np.finfo(np.float32).tiny <= value < np.inf else None


def _shortest(term: Term, factor: float) -> Term:
    """``term * factor`` in the fewest steps."""
    ways = [term * factor, _times(term, factor)]
    if term.name == "mul":
        first, second = term.args
        ways += [first * _times(second, factor), _times(first, factor) * second]
    return min(ways, key=steps)


def _times(term: Term, factor: float) -> Term:
    """``term * factor`` with the factor behind clips and in the literal of a sum."""
    if term.name in ("max", "min", "add", "mul"):
        literals = [a for a in term.args if a.name == "const" and a.dtype == DType.F32 and a.imm is not None]
        if len(literals) == 1:
            own = literals[0]
            rest = term.args[1] if term.args[0] is own else term.args[0]
            scaled = const(float(np.float32(own.imm) * np.float32(factor)), DType.F32)
            if term.name == "mul":
                return rest.op("mul", scaled)
            inner = rest * factor if term.name == "add" else _times(rest, factor)
            return inner.op(term.name, scaled)
    return term * factor


WIDE = 8  # elements that share a divisor, from which on one division more is nothing


def of_rows(graph: Graph) -> Graph:
    """Sums of exponentials that others only divide by, as reciprocals: a division for every row, a product for every element."""
    readers = readers_of(graph)
    kept = {*graph.outputs, *(s.update for s in graph.states)}
    done: dict[str, Node] = {n.output: n for n in graph.nodes}
    for node in graph.nodes:
        found = done[node.output]
        if not isinstance(found, Compute) or node.output in kept or not _sums_exponentials(found, done):
            continue
        users = [done[r.output] for r in readers.get(node.output, [])]
        turned = [_multiplied(user, found) for user in users]
        if users and all(turned):
            total = term_of(found.post) if found.post is not None else arg(-1, DType.F32)
            done[node.output] = replace(found, post=expression(const(1.0, DType.F32) / total))
            done.update((t.output, t) for t in turned if t is not None)
    return graph.with_nodes(tuple(done[n.output] for n in graph.nodes))


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
    steps = user.expr.steps
    own = {i for i, s in enumerate(steps) if s.op == "arg" and user.operands[int(s.imm or 0)].value == divisor.output}
    other = [s for s in steps if own & {*(s.args[:1] if s.op == "div" else s.args)}]
    if not own or other or any(o.value == divisor.output and o.fill is not None for o in user.operands):
        return None
    made = [replace(s, op="mul") if s.op == "div" and s.args[1] in own else s for s in steps]
    return replace(user, expr=Expr(tuple(made)))
