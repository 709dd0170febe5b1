"""Gates that close below some value, with the clip in front of them: ``x * clip(x / 6 + 1/2, 0, 1)`` becomes
``y * min(y / 6 + 1/2, 1)`` with ``y = max(x, -3)``.

It takes as many steps. But a value that is needed twice is as far as the planes can go alone: a clip in front of it stays
behind the planes, and a map has one step less.
"""

from __future__ import annotations

import numpy as np

from compiler.ir import DType, Term
from compiler.passes.patterns import matches, pattern

LINES = (pattern("x + c"), pattern("x * d + c"))
NEAR = (0.0, np.inf, -np.inf)  # of the quotient and its neighbours one is often an exact zero of the line


def clamped(term: Term) -> Term:
    """The term with every float32 gate on its own factor opened below, and the factor clipped there. Finite values give equal
    results; of minus infinity comes zero instead of NaN."""
    return _clamped(term, {})


def _clamped(term: Term, done: dict[int, Term]) -> Term:
    if id(term) not in done:
        done[id(term)] = _product(term.on([_clamped(a, done) for a in term.args]))
    return done[id(term)]


def _product(term: Term) -> Term:
    if term.name != "mul" or term.dtype != DType.F32:
        return term
    for value, gate in (term.args, term.args[::-1]):
        low = _closed(gate, value)
        if low is not None:
            within = value.op("max", low)
            return term.on(within if a is value else _opened(a, value, within) for a in term.args)
    return term


def _closed(gate: Term, value: Term) -> float | None:
    """The number below zero up to which a gate on ``value`` is zero; None where it is no rising line between zero and more."""
    below = False
    while gate.name in ("max", "min"):
        limits = [a.imm for a in gate.args if a.name == "const" and a.imm is not None]
        if len(limits) != 1 or (limits[0] != 0 if gate.name == "max" else limits[0] <= 0):
            return None
        below |= gate.name == "max"
        gate = _inside(gate)
    line = _line(gate, value) if below else None
    return None if line is None else _zero(*line)


def _inside(clip: Term) -> Term:
    """What a literal limits."""
    return clip.args[clip.args[0].name == "const"]


def _line(term: Term, value: Term) -> tuple[float, float] | None:
    """Slope and height, where the term is ``value * slope + height``."""
    for wanted in LINES:
        for found in matches(wanted, term, {"x": value}):
            return float(found["d"].imm or 0) if "d" in found else 1.0, float(found["c"].imm or 0)
    return None


def _zero(slope: float, height: float) -> float | None:
    """A float32 below zero at which a rising line is exactly zero as it is computed: rounding keeps order, so the line is
    nowhere above zero before it and nowhere below behind it."""
    a, b = np.float32(slope), np.float32(height)
    if not (a > 0 and b > 0):
        return None
    with np.errstate(all="ignore"):
        for towards in NEAR:
            at = np.nextafter(-b / a, np.float32(towards)) if towards else -b / a
            if np.isfinite(at) and at < 0 and at * a + b == 0:
                return float(at)
    return None


def _opened(gate: Term, value: Term, within: Term) -> Term:
    """The gate on the clipped value, without its own clip at zero."""
    if gate == value:
        return within
    if gate.name == "max":
        return _opened(_inside(gate), value, within)
    return gate.on(_opened(a, value, within) for a in gate.args)
