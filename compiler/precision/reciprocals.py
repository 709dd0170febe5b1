"""Divisions of float sums by literals as products with reciprocals, which arithmetic units do in one pass instead of two.

Only precisions that round anyway may do so (the product with a rounded reciprocal can differ in the last bit). The literal
goes into a factor's own literals where that saves a step: ``x * clip(x + 3, 0, 6) / 6`` is ``x * clip(x / 6 + 1/2, 0, 1)``.
"""

from __future__ import annotations

import numpy as np

from compiler.ir.terms import Term, const
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
