"""The identities on scalar expressions that the compiler uses, line by line; ``patterns`` says how they are written.

A pass or a precision decides where one is worth it. Those of the first table keep every bit; the others move a rounding, so only
precisions that round anyway, or factors that constant weights take, use them.
"""

from __future__ import annotations

import numpy as np

from compiler.ir import Term, const
from compiler.passes.patterns import Found, rewritten, rule


def _is_ordinary(found: Found) -> bool:
    """Whether 1 / c is an ordinary positive float32."""
    divisor = found["c"].imm
    if not divisor or divisor < 0:
        return False
    with np.errstate(all="ignore"):
        value = np.float32(1.0) / np.float32(divisor)
    return bool(np.finfo(np.float32).tiny <= value < np.inf)


def _is_one_float(found: Found) -> bool:
    """Whether a product of the sum's type has a float as its second factor (a code times a float: the code comes first)."""
    return found["y"].dtype.is_float and found["p"].dtype == found["whole"].dtype


# The same bits: a multiply-add rounds after the multiplication and after the addition.
MULTIPLY_ADD = (rule("(p := product(x, y)) + z -> muladd(x, y, z)", _is_one_float),)

# A gate plus one: two steps become one.
GATE = (rule("x * (y + 1) -> x * y + x"),)

# A quotient is two steps, a product one.
RECIPROCAL = (rule("x / c -> x * (1 / c)", _is_ordinary),)

# A positive factor behind clips, and in the literal of a sum or a product; the first line that fits.
TIMES = (
    rule("times(max(u, c), f) -> max(times(u, f), c * f)"),
    rule("times(min(u, c), f) -> min(times(u, f), c * f)"),
    rule("times(u + c, f) -> u * f + c * f"),
    rule("times(u * c, f) -> u * (c * f)"),
    rule("times(x, f) -> x * f"),
)

# Clips that the type of what is stored makes anyway (the condition is the caller's).
CLIP = (rule("max(u, c) -> u"), rule("min(u, c) -> u"))

# The arguments that take a positive factor, all of them, where an operator's result does.
LINEAR = {
    "add": (0, 1),
    "sub": (0, 1),
    "max": (0, 1),
    "min": (0, 1),
    "neg": (0,),
    "select": (1, 2),
    "scale": (1,),
    "div": (0,),
}


def times(term: Term, factor: float | Term) -> Term:
    """``term * factor`` in as few steps as ``TIMES`` makes of it."""
    by = factor if isinstance(factor, Term) else const(factor, term.dtype)
    found = rewritten(Term("times", (term, by), term.dtype), TIMES)
    assert found is not None, "the last rule fits every term"
    return found.on(times(*a.args) if a.name == "times" else a for a in found.args)
