"""Operators on types that are only stored: bfloat16, float8 and numbers of 4 bits.

An operator computes in the type that such elements widen to without loss, and what it answers in their type is rounded once,
to nearest even. Operators that only move or convert elements take them as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import zip_longest

from onnx import defs

from compiler.frontend.op import Lowered, Op, tupled
from compiler.frontend.operators.derived import other_inputs
from compiler.ir import DType

Restore = Callable[[Lowered], tuple[str | None, ...]]

_MOVING = {
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Expand",
    "Concat",
    "Split",
    "Slice",
    "Tile",
    "Identity",
}
_PICKING = {"Gather", "GatherElements", "GatherND", "Compress", "DepthToSpace", "SpaceToDepth", "Shape", "Size"}
_CONVERTING = {"Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "Constant", "ConstantOfShape"}
_AS_THEY_ARE = _MOVING | _PICKING | _CONVERTING | {"If", "Loop", "Scan"}


def computing(op: Op) -> tuple[Op, Restore]:
    """The operation on values that can be computed with, and what puts its results back into the types of its inputs."""
    found = {i: dtype for i, v in enumerate(op.inputs) if v is not None and (dtype := op.b.dtype(v)) != dtype.computed}
    if not found or op.kind in _AS_THEY_ARE or not defs.has(op.kind):
        return op, tupled
    schema = defs.get_schema(op.kind, op.opset)
    formal = {schema.inputs[min(i, len(schema.inputs) - 1)].type_str: dtype for i, dtype in found.items()}
    wide = [v if i not in found else op.cast(v or "", found[i].computed) for i, v in enumerate(op.inputs)]

    def restored(results: Lowered) -> tuple[str | None, ...]:
        kinds = [formal.get(schema.outputs[min(i, len(schema.outputs) - 1)].type_str) for i in range(op.outputs)]
        return tuple(_narrowed(op, value, kind) for value, kind in zip_longest(tupled(results), kinds))

    return other_inputs(op, *wide), restored


def _narrowed(op: Op, value: str | None, kind: DType | None) -> str | None:
    if value is None or kind is None or op.b.dtype(value) != kind.computed:
        return value
    made = op.cast(value, kind)
    if value in op.b.lengths:
        op.b.lengths[made] = op.b.lengths[value]
    return made
