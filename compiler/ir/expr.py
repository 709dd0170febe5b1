"""Scalar expressions: what one point of an iteration domain computes.

An expression is a straight-line program in single-assignment form; step i may use the results of steps < i; the last
step is the result. Names of scalar operators and their meaning on NumPy arrays live in ``compiler.numerics.scalar`` (one
table, shared with the instruction set).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from compiler.ir.types import DType
from compiler.numerics.scalar import SCALAR

# Steps that cost no arithmetic: a read of an operand, a literal, the coordinate of a loop.
FREE = frozenset({"arg", "const", "index"})
REDUCED = -1  # the operand of a ``post`` expression that is what was reduced


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

    def counts(self, loop: int | None = None) -> bool:
        """Whether it asks for the coordinate of a loop (of any, for None)."""
        return any(step.op == "index" and loop in (None, step.imm) for step in self.steps)

    @property
    def is_identity(self) -> bool:
        return len(self.steps) == 1 and self.steps[0].op == "arg"

    @property
    def ops(self) -> list[str]:
        return [step.op for step in self.steps]

    @cached_property
    def reads(self) -> dict[int, DType]:
        """Positions of the operands that it reads, and the type of each; ``REDUCED`` is none of them."""
        found = {s.imm: s.dtype for s in self.steps if s.op == "arg" and isinstance(s.imm, int) and s.imm != REDUCED}
        return dict(sorted(found.items()))

    @cached_property
    def indices(self) -> frozenset[int]:
        """Loops whose coordinate it asks for."""
        return frozenset(int(s.imm) for s in self.steps if s.op == "index" and s.imm is not None)

    def times(self, position: int) -> int:
        """Steps that read an operand, or ``REDUCED``."""
        return sum(step.op == "arg" and step.imm == position for step in self.steps)

    def renumbered(self, places: Mapping[int, int]) -> Expr:
        """With operands at other positions; those without a new one keep theirs."""
        return Expr(tuple(_moved(step, places) for step in self.steps))


def _moved(step: Step, places: Mapping[int, int]) -> Step:
    known = step.op == "arg" and isinstance(step.imm, int) and step.imm in places
    return replace(step, imm=places[int(step.imm or 0)]) if known else step


def identity(dtype: DType, position: int = 0) -> Expr:
    return Expr((Step("arg", (), dtype, position),))


def spliced(expr: Expr, position: int, inner: Sequence[Step], most: int) -> Expr | None:
    """The expression with what ``inner`` ends in instead of its operand ``position``, each distinct subtree computed once;
    None where that takes more than ``most`` steps."""
    steps = list(inner)
    places: list[int] = []
    for step in expr.steps:
        if step.op == "arg" and step.imm == position:
            places.append(len(inner) - 1)
        else:
            places.append(len(steps))
            steps.append(_placed(step, tuple([places[a] for a in step.args])))
    made = distinct(steps[: places[-1] + 1], most)
    return Expr(tuple(made)) if len(made) <= most else None


def straight(steps: Sequence[Step]) -> Expr:
    """The expression that the last of ``steps`` is the result of."""
    return Expr(tuple(distinct(steps, len(steps))))


def distinct(steps: Sequence[Step], most: int) -> list[Step]:
    """What the last of ``steps`` needs, each distinct subtree once, arguments first and from the left.

    It ends behind the first step beyond ``most``. Fusion asks this of every operation of a chain: hence whole numbers, where
    ``terms.expression`` walks terms.
    """
    made: list[Step] = []
    known: dict[tuple[object, ...], int] = {}
    places = [-1] * len(steps)
    stack = [len(steps) - 1]
    while stack and len(made) <= most:
        step = steps[stack[-1]]
        args = step.args
        if args:
            missing = [a for a in args if places[a] < 0]
            if missing:
                stack += missing[::-1]
                continue
            args = tuple([places[a] for a in args])
        literal = None if step.imm is None else repr(step.imm)  # 0.0 and -0.0 are equal numbers and different literals
        key = (step.op, args, id(step.dtype), literal)
        found = known.get(key)
        if found is None:
            found = known[key] = len(made)
            made.append(_placed(step, args))
        places[stack.pop()] = found
    return made


def _placed(step: Step, args: tuple[int, ...]) -> Step:
    return step if args == step.args else Step(step.op, args, step.dtype, step.imm)
