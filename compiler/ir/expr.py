"""Scalar expressions: what one point of an iteration domain computes.

An expression is a straight-line program in single-assignment form; step i may use the results of steps < i; the last
step is the result. Names of scalar operators and their meaning on NumPy arrays live in ``compiler.numerics.scalar`` (one
table, shared with the instruction set).
"""

from __future__ import annotations

from dataclasses import dataclass

from compiler.ir.types import DType
from compiler.numerics.scalar import SCALAR

# Steps that cost no arithmetic: a read of an operand, a literal, the coordinate of a loop.
FREE = frozenset({"arg", "const", "index"})


@dataclass(frozen=True)
class Step:
    """One step: ``op`` applied to earlier steps ``args``, giving an element of ``dtype``.

    ``arg``: ``imm`` is the operand's position. ``const``: ``imm`` is the literal. ``index``: ``imm`` is the loop whose
    coordinate is wanted. Every other op is a scalar operator of ``compiler.numerics.scalar``.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    imm: int | float | None = None


@dataclass(frozen=True)
class Expr:
    steps: tuple[Step, ...]

    @property
    def dtype(self) -> DType:
        return self.steps[-1].dtype

    @property
    def arithmetic(self) -> int:
        """Arithmetic nodes: the operations that one element costs."""
        return sum(SCALAR[step.op].operations for step in self.steps if step.op not in FREE)

    @property
    def is_identity(self) -> bool:
        return len(self.steps) == 1 and self.steps[0].op == "arg"


def identity(dtype: DType, position: int = 0) -> Expr:
    return Expr((Step("arg", (), dtype, position),))
