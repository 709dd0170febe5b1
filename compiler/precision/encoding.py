"""How a float value is stored in fewer bits, and what reading and storing it costs in scalar steps.

An encoded integer stands for ``(q - zero) * scale``. Codes are rounded half to even and saturate, so a clip that a code
cannot pass anyway (ReLU on codes that begin at 0) needs no step of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.ir import FREE, DType, Term, const, expression
from compiler.numerics.codes import encode, inverse
from compiler.passes.fuse import MAX_EXTRA
from compiler.passes.identities import CLIP, LINEAR
from compiler.passes.multiply_add import fused
from compiler.passes.patterns import WHOLE, Found, rewritten

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Encoding:
    """Codes of ``dtype`` (i8 or u8): ``(q - zero) * scale``; ``scale`` is a float32."""

    dtype: DType
    scale: float
    zero: int = 0

    @property
    def inverse(self) -> float:
        """What a value is multiplied with before it is rounded, as a float32."""
        return inverse(self.scale)

    @property
    def limits(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype.numpy)
        return int(info.min), int(info.max)

    def encode(self, array: Array) -> Array:
        """Codes of a float32 array, exactly as a program computes them."""
        return encode(array, self.dtype.numpy, self.scale, self.zero)

    def decode(self, codes: Array) -> Array:
        """The float32 values of codes, exactly as a program computes them."""
        return (codes.astype(np.float32) - np.float32(self.zero)) * np.float32(self.scale)


Storage = Encoding | DType | None
"""How a value is kept: codes, float16, or (None) in the type that it has in the graph."""


def stored_dtype(storage: Storage, plain: DType) -> DType:
    if isinstance(storage, Encoding):
        return storage.dtype
    return plain if storage is None else storage


def stored_array(array: Array, storage: Storage) -> Array:
    """A constant in its storage; float32 values beyond float16 become infinite, which callers rule out before."""
    if isinstance(storage, Encoding):
        return storage.encode(array)
    if storage is None:
        return array
    with np.errstate(over="ignore"):
        return array.astype(storage.numpy)


def stored_fill(fill: float | None, storage: Storage) -> float | int | None:
    """What stands for ``fill`` where an access leaves a stored value."""
    if fill is None or storage is None:
        return fill
    value = stored_array(np.asarray(fill, np.float32), storage)
    return int(value) if isinstance(storage, Encoding) else float(value)


def reading(term: Term, storage: Storage) -> Term:
    """The float32 value of an operand that is kept in ``storage``: one step, two with a zero point."""
    if isinstance(storage, Encoding):
        if storage.zero:
            term = Term("sub", (term, const(storage.zero, DType.F32)), DType.F32)
        return Term("mul", (term, const(storage.scale, DType.F32)), DType.F32)
    return term if storage is None else term.cast(DType.F32)


Scaled = Callable[[Term, float, float], Term | None]
"""A leaf times a factor and plus an addend where that costs nothing (a constant operand made anew), else None."""


def storing(term: Term, storage: Storage, leaf: Scaled) -> Term:
    """The stored form of a float32 term, its scale worked into constants where that saves a step."""
    if storage is None:
        return term
    if isinstance(storage, DType):
        return term.cast(storage)
    plain = _codes(_unclipped(term, storage, storage.inverse) * storage.inverse, storage, leaf)
    inner = _scaled(term, storage.inverse, leaf)
    if inner is None:
        return plain
    folded = _codes(inner, storage, leaf)
    more = len(expression(folded).reads) > max(MAX_EXTRA, len(expression(plain).reads))
    return folded if steps(folded) <= steps(plain) and not more else plain


def steps(term: Term) -> int:
    """Steps of an expression once products and sums are one."""
    return sum(step.op not in FREE for step in fused(expression(term)).steps)


def _codes(term: Term, storage: Encoding, leaf: Scaled) -> Term:
    term = _unclipped(term, storage, 1.0)
    if storage.zero:
        term = _shifted(term, float(storage.zero), leaf)
    return term.nearest(storage.dtype)


def _shifted(term: Term, addend: float, leaf: Scaled) -> Term:
    """``term + addend``, in a constant that is added already if there is one."""
    if term.name == "add":
        for i in (1, 0):
            taken = leaf(term.args[i], 1.0, addend) if term.args[i].name == "arg" else None
            if taken is not None:
                return term.args[1 - i] + taken
    return term + addend


def _unclipped(term: Term, storage: Encoding, factor: float) -> Term:
    """Without clips that, times ``factor``, lie at or beyond what the codes can say."""
    low, high = storage.limits

    def beyond(found: Found) -> bool:
        at = float(np.float32(found["c"].imm or 0) * np.float32(factor)) + storage.zero
        return at < low + 0.5 if found[WHOLE].name == "max" else at > high - 0.5

    while (shorter := rewritten(term, CLIP, beyond)) is not None:
        term = shorter
    return term


def _scaled(term: Term, factor: float, leaf: Scaled) -> Term | None:
    """``term * factor`` for a positive factor, multiplied into its constants; None where a part cannot take it."""
    if term.name == "const" and term.imm is not None:
        return const(float(np.float32(term.imm) * np.float32(factor)), term.dtype)
    if term.name == "arg":
        return leaf(term, factor, 0.0) or (term * factor if term.dtype == DType.F32 else None)
    if term.name == "cast" and term.dtype == DType.F32 and term.args[0].dtype in (DType.F16, DType.BF16):
        return Term("mul", (term.args[0], const(factor, DType.F32)), DType.F32)  # which widens it too
    if term.name == "mul":
        return _scaled_product(term, factor, leaf)
    return _scaled_sum(term, factor, leaf) if term.name in LINEAR else None


def _scaled_sum(term: Term, factor: float, leaf: Scaled) -> Term | None:
    """All arguments in which a term is linear take it."""
    taking = LINEAR[term.name]
    return _rebuilt(term, [_scaled(a, factor, leaf) if i in taking else a for i, a in enumerate(term.args)])


def _scaled_product(term: Term, factor: float, leaf: Scaled) -> Term | None:
    """One of the two factors takes it: a literal or a constant operand first, then that of which fewer operands do."""
    kinds = [("const", "arg", a.name).index(a.name) for a in term.args]
    first = sorted((0, 1), key=lambda i: (kinds[i], _leaves(term.args[i])))
    for i in first:
        taken = _scaled(term.args[i], factor, leaf)
        if taken is not None:
            return _rebuilt(term, [taken, term.args[1]] if i == 0 else [term.args[0], taken])
    return None


def _leaves(term: Term) -> int:
    """Operands that take a factor where a term does."""
    if term.name in ("const", "arg", "cast"):
        return int(term.name != "const")
    if term.name == "mul":
        return min(_leaves(a) for a in term.args)
    taking = LINEAR.get(term.name, range(len(term.args)))
    return sum(_leaves(term.args[i]) for i in taking)


def _rebuilt(term: Term, args: list[Term | None]) -> Term | None:
    whole = [a for a in args if a is not None]
    return term.on(whole) if len(whole) == len(args) else None
