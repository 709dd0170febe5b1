"""What instructions do to arrays. The simulator fetches and stores; these functions are everything in between.

Every operand arrives as an array of shape (rows, inner); an operand that does not use a group of loops has 1 there. MATMUL
and VECTOR take axes in front of these: as many instructions that are alike, at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from compiler.isa.element import NAME, NUMPY, SUMS
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
    return SUMS.get(dtype, "")


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


class Factors(NamedTuple):
    """What a product adds to its sums: ``left`` @ ``right`` at the cells ``on`` (None: all); with ``blocks`` these have an axis
    of blocks in front of their rows."""

    left: Array
    right: Array
    on: Array | None = None
    blocks: int = 0


def matmul(i: Instruction, inputs: Inputs) -> Result:
    """New contents of the accumulator rows."""
    return summed(inputs.accumulated, factors(i, inputs))


def factors(i: Instruction, inputs: Inputs) -> Factors:
    """What a product multiplies."""
    a, weights = inputs.operands["a"], inputs.weights
    assert weights is not None
    if not i.blocks:
        return Factors(a, weights, inputs.on)
    left = _blocked(a.reshape(*a.shape[:-1], -1, i.blocks, inputs.run).swapaxes(-3, -2), (i.blocks, -1), 3)
    on = None if inputs.on is None else _apart(inputs.on, i, inputs)
    return Factors(left, _apart(weights, i, inputs), on, i.blocks)


def summed(before: Result, these: Factors) -> Array:
    """``before`` (None: 0) and products, added in ascending order."""
    left, right, on, blocks = these
    dtype = NUMPY[accumulator(NAME[left.dtype])]
    if not blocks:
        return contract(before, left, right, dtype, on)
    if before is not None:
        before = _blocked(before, (blocks, -1))
    sums = contract(before, left, right, dtype, on).swapaxes(-3, -2)
    return sums.reshape(*sums.shape[:-2], -1)


def joined(parts: Sequence[Factors]) -> list[Factors]:
    """Products of the same sums that follow each other; neighbours of which all cells are on as one, of as many terms."""
    found: list[list[Factors]] = []
    for part in parts:
        last = found[-1][0] if found else None
        if last is not None and last.on is part.on is None and last.blocks == part.blocks:
            found[-1].append(part)
        else:
            found.append([part])
    return [some[0] if len(some) == 1 else _one(some) for some in found]


def _one(parts: Sequence[Factors]) -> Factors:
    left, right = _along(-1, [part.left for part in parts]), _along(-2, [part.right for part in parts])
    return Factors(left, right, None, parts[0].blocks)


def _along(axis: int, arrays: Sequence[Array]) -> Array:
    """Matrices behind each other, that repeat what all of them repeat."""
    batch = arrays[0].shape[:-2]
    once = tuple(slice(None) if any(array.strides[n] for array in arrays) else slice(0, 1) for n in range(len(batch)))
    found = np.concatenate([array[once] for array in arrays], axis)
    return np.broadcast_to(found, batch + found.shape[-2:])


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
