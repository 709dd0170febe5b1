"""Scalar programs: what an arithmetic unit does to every element that passes.

The same form as the representation's expressions: straight-line, single assignment, the last step is the result. The
operators and their meaning are those of ``compiler.numerics.scalar``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from compiler.isa.element import NUMPY
from compiler.numerics.scalar import FREE_CODES, SCALAR

# Steps that cost no arithmetic: a read of an operand, a literal, the coordinate of a loop.
FREE: Final = frozenset(FREE_CODES)


@dataclass(frozen=True)
class Step:
    """``op`` applied to the results of earlier steps, giving an element of type ``dtype``.

    ``arg``: ``imm`` is the operand's position (-1: the accumulated or reduced value). ``const``: ``imm`` is the literal.
    ``index``: ``imm`` is a loop's position in ``g0 + g1 + g2`` of the instruction; the value is its coordinate.
    """

    op: str
    args: tuple[int, ...]
    dtype: str
    imm: int | float | None = None


@dataclass(frozen=True)
class Program:
    steps: tuple[Step, ...]

    @property
    def dtype(self) -> str:
        return self.steps[-1].dtype

    @cached_property
    def typed(self) -> tuple[tuple[str, tuple[int, ...], np.dtype[Any], int | float | None], ...]:
        """The steps as ``compiler.numerics.scalar.evaluate`` takes them. Kept with the program, not by its value: 0.0 equals
        -0.0 there."""
        return tuple((step.op, step.args, NUMPY[step.dtype], step.imm) for step in self.steps)

    @cached_property
    def arithmetic(self) -> int:
        """Arithmetic steps: the operations that one element is billed."""
        return sum(SCALAR[step.op].operations for step in self.steps if step.op not in FREE)
