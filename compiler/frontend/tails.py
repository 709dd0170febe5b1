"""What an expression gives for elements of which only some operands are known: rows of a cache that nothing has written.

Other operands are taken as finite numbers: a row behind the length holds what a run wrote there, or zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from compiler.ir import Expr, Step
from compiler.numerics.scalar import SCALAR, evaluate

Tail = float | None
"""A number that is known, or (None) any finite one."""


def tail_of(expr: Expr, operands: Sequence[Tail]) -> Tail:
    """The expression's result where its operands are these."""
    values: list[Tail] = []
    for step in expr.steps:
        values.append(_step(step, [values[i] for i in step.args], operands))
    return values[-1]


def _step(step: Step, args: Sequence[Tail], operands: Sequence[Tail]) -> Tail:
    if step.op == "arg":
        return operands[int(step.imm)] if step.imm is not None and step.imm >= 0 else None
    if step.op == "const":
        return None if step.imm is None else float(step.imm)
    if step.op == "index":
        return None
    known = [a for a in args if a is not None]
    return _computed(step, known) if len(known) == len(args) else _decided(step.op, args)


def _decided(op: str, args: Sequence[Tail]) -> Tail:
    """The result that the known ones of the arguments decide, whatever finite number the others are."""
    if (op == "mul" and 0.0 in args) or (op == "div" and args[0] == 0.0):
        return 0.0
    if (op == "add" and -math.inf in args) or (op == "sub" and args[0] == -math.inf):
        return -math.inf
    return args[1] if op == "select" and args[1] == args[2] else None


def _computed(step: Step, args: Sequence[float]) -> float:
    same = step.op != "cast" and SCALAR[step.op].result != "bool"
    kinds = step.dtype.numpy if same else np.dtype(np.float64)
    steps = [("const", (), kinds, a) for a in args]
    return float(evaluate([*steps, (step.op, tuple(range(len(args))), step.dtype.numpy, None)], _none, _none))


def _none(_: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    raise AssertionError
