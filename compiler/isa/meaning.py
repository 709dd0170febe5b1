"""What instructions do to arrays. The simulator fetches and stores; these functions are everything in between.

Every operand arrives as an array of shape (rows, inner); an operand that does not use a group of loops has 1 there. MATMUL
and VECTOR take axes in front of these: as many instructions that are alike, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.isa.element import NUMPY
from compiler.isa.instruction import REDUCERS, Flag, Instruction
from compiler.isa.program import Program
from compiler.numerics.contract import contract
from compiler.numerics.reduce import reduce
from compiler.numerics.scalar import evaluate

Array = np.ndarray[Any, Any]
Result = Array | None


def _no_index(loop: int) -> Array:
    return np.zeros((1, 1), np.int64)


@dataclass(frozen=True)
class Inputs:
    """What one instruction works on. ``operands``: arrays by field name. ``accumulated``: the plane's sums so far (None
    with ``first``), ``weights``: the slot's tile, ``run``: consecutive rows of one of its blocks, ``on``: which of its cells
    are on (None: all; the others hold 0). ``index``: coordinate of a loop at every point, as an array."""

    operands: Mapping[str, Array]
    pre: Program | None = None
    post: Program | None = None
    accumulated: Array | None = None
    weights: Array | None = None
    run: int = 0
    on: Array | None = None
    index: Callable[[int], Array] = _no_index


def accumulator(dtype: str) -> str:
    """Element type in which a plane sums products of ``dtype``; '' when planes do not take it."""
    return {"f32": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}.get(dtype, "")


def run(program: Program, operands: list[Array], value: Result, index: Callable[[int], Array]) -> Array:
    """A scalar program on arrays; argument -1 is ``value``."""

    def operand(position: int) -> Array:
        if position < 0:
            assert value is not None
            return value
        return operands[position]

    return evaluate(program.typed, operand, index)


def loadw(i: Instruction, inputs: Inputs) -> Result:
    return inputs.operands["a"]


def matmul(i: Instruction, inputs: Inputs) -> Result:
    """New contents of the accumulator rows."""
    a, weights = inputs.operands["a"], inputs.weights
    assert weights is not None
    dtype = NUMPY[accumulator({np.dtype("f4"): "f32", np.dtype("f2"): "f16"}.get(a.dtype, "i8"))]
    if not i.blocks:
        return contract(inputs.accumulated, a, weights, dtype, inputs.on)
    before = inputs.accumulated
    if before is not None:
        before = _blocked(before, (i.blocks, -1))
    left = _blocked(a.reshape(*a.shape[:-1], -1, i.blocks, inputs.run).swapaxes(-3, -2), (i.blocks, -1), 3)
    right = _apart(weights, i, inputs)
    on = None if inputs.on is None else _apart(inputs.on, i, inputs)
    return contract(before, left, right, dtype, on).swapaxes(-3, -2).reshape(*a.shape[:-1], -1)


def _apart(weights: Array, i: Instruction, inputs: Inputs) -> Array:
    """A tile's rows by the block that they belong to."""
    right = weights.reshape(*weights.shape[:-2], -1, i.blocks, inputs.run, weights.shape[-1])
    return right.swapaxes(-4, -3).reshape(*weights.shape[:-2], i.blocks, -1, weights.shape[-1])


def _blocked(array: Array, split: tuple[int, int], axes: int = 1) -> Array:
    """Rows of columns in blocks, the blocks in front of the rows. ``axes``: that the columns are."""
    return array.reshape(*array.shape[: array.ndim - axes], *split).swapaxes(-3, -2)


def epilogue(i: Instruction, inputs: Inputs) -> Array:
    """What leaves the plane for its sums ``accumulated``."""
    assert inputs.accumulated is not None
    if inputs.post is None:
        return inputs.accumulated
    operands = [inputs.operands[name] for name in ("b", "c", "d") if name in inputs.operands]
    return run(inputs.post, operands, inputs.accumulated, inputs.index)


def vector(i: Instruction, inputs: Inputs) -> Result:
    """Column of ``count1`` results."""
    operands = [inputs.operands[name] for name in ("a", "b", "c", "d") if name in inputs.operands]
    value = operands[0] if inputs.pre is None else run(inputs.pre, operands, None, inputs.index)
    if i.reducer:
        value = reduce(REDUCERS[i.reducer], np.broadcast_to(value, (*value.shape[:-2], i.count1, i.count2)))[..., None]
    if inputs.post is not None:
        value = run(inputs.post, operands, value, inputs.index)
    return value


def branch(i: Instruction, inputs: Inputs) -> Result:
    """Whether the instructions behind it are skipped."""
    if "a" not in inputs.operands:
        return np.ones((1, 1), np.bool_)
    return np.asarray(inputs.operands["a"] == bool(i.flags & Flag.UNLESS))


def sort(i: Instruction, inputs: Inputs) -> Result:
    return np.sort(np.broadcast_to(inputs.operands["a"], (i.count1, i.count2)), axis=1)


def move(i: Instruction, inputs: Inputs) -> Result:
    return next(iter(inputs.operands.values()))
