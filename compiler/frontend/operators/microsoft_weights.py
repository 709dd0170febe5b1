"""Operators of ``com.microsoft`` whose weights are packed into few bits: unpacked while compiling.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

from math import prod

import numpy as np

from compiler.frontend.op import Array, Op, Rule
from compiler.frontend.operators.derived import plain
from compiler.ir import DType, select

BITS = (2, 4, 8)
# Values of the 16 codes of a normal float, and of a float of four bits (Dettmers et al., "QLoRA", 2023, appendix E).
NORMAL = (
    -1.0,
    -0.6961928009986877,
    -0.5250730514526367,
    -0.39491748809814453,
    -0.28444138169288635,
    -0.18477343022823334,
    -0.09105003625154495,
    0.0,
    0.07958029955625534,
    0.16093020141124725,
    0.24611230194568634,
    0.33791524171829224,
    0.44070982933044434,
    0.5626170039176941,
    0.7229568362236023,
    1.0,
)
FLOAT4 = tuple(s * v for s in (1.0, -1.0) for v in (0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 1 / 2, 1 / 6, 1 / 4))


def unpacked(packed: Array, bits: int) -> Array:
    """Numbers of 2, 4 or 8 bits, the lowest first in each byte."""
    parts = [(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return np.stack(parts, axis=-1).reshape(*packed.shape[:-1], -1)


def _matmul_nbits(op: Op) -> str:
    """Weights in blocks along the depth, each with a scale and perhaps a zero point."""
    columns, depth, bits, block = (op.whole(n) for n in ("N", "K", "bits", "block_size"))
    op.need(
        not op.whole("weight_prepacked", 0), "has weights in the order of one machine. Export it with the plain one."
    )
    op.need(bits in BITS and block > 0 and min(columns, depth) > 0, f"has weights of {bits} bits in blocks of {block}.")
    blocks = -(-depth // block)
    order = np.arange(depth) // block if not op.has(4) else op.known(4, "the group of each row")[:depth]
    packed = op.known(1, "the weight").reshape(columns, -1)
    op.need(packed.size * 8 >= columns * blocks * block * bits, "has fewer weights than its size says.")
    weights = unpacked(packed, bits).reshape(columns, -1)[:, : blocks * block][:, :depth]
    scales = op.known(2, "the scale").astype(np.float32).reshape(columns, blocks)
    zeros = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if op.has(3):
        given = op.known(3, "the zero point")
        whole = given if given.dtype.kind == "f" else unpacked(given.reshape(columns, -1), bits)
        zeros = whole.reshape(columns, -1)[:, :blocks].astype(np.float32)
    matrix = (weights.astype(np.float32) - zeros[:, order]) * scales[:, order]
    done = _times(op, matrix)
    return op.point(lambda x, c: x + c, done, op.x(5)) if op.has(5) else done


def _times(op: Op, matrix: Array) -> str:
    """The first input times the transpose of [columns, depth]."""
    kept = op.b.constant(np.ascontiguousarray(matrix.T).astype(op.dtype().numpy))
    return plain(op, "MatMul", op.x(0), kept)


def _matmul_bnb4(op: Op) -> str:
    """Four bits through a table, the high half of a byte first, one scale per run of the flattened matrix."""
    columns, depth, block, kind = (op.whole(n) for n in ("N", "K", "block_size", "quant_type"))
    op.need(kind in (0, 1) and block > 0 and min(columns, depth) > 0, f"has weights of the kind {kind}.")
    op.need(op.whole("transB", 1) == 1 and not op.whole("training_mode", 0), "multiplies by its weights turned round.")
    packed, count = op.known(1, "the weight").reshape(-1), columns * depth
    scales = op.known(2, "the scale").reshape(-1).astype(np.float32)
    op.need(packed.size * 2 >= count and scales.size * block >= count, "has fewer weights than its size says.")
    codes = np.stack((packed >> 4, packed & 15), axis=-1).reshape(-1)[:count]
    table = np.array(NORMAL if kind else FLOAT4, np.float32)
    return _times(op, (table[codes] * scales[np.arange(count) // block]).reshape(columns, depth))


def _gather_blocks(op: Op) -> str:
    """Rows of a table in blocks, each with a scale; an index outside the table gives zeros."""
    packed, scales = op.known(0, "the table"), op.known(2, "the scale")
    bits, block = op.whole("bits", 4), op.whole("block_size", 128)
    byte = packed.dtype == np.uint8
    op.need(bits in BITS and block > 0, f"has a table of {bits} bits in blocks of {block}.")
    zeros = op.known(3, "the zero point") if op.has(3) else None
    table = unpacked(packed, bits) if byte else packed
    rank = table.ndim
    axis, along = op.axis(op.whole("gather_axis", 0), rank), op.axis(op.whole("quantize_axis", 1), rank)
    place = np.arange(table.shape[along]) // block
    op.need(scales.ndim == rank and scales.shape[along] == -(-table.shape[along] // block), "its scales do not fit.")
    shift = np.asarray((1 << (bits - 1)) if byte else 0)
    if zeros is not None:
        spread = unpacked(zeros, bits) if byte else zeros
        spread = np.take(spread, range(scales.shape[-1]), axis=-1)
        shift = np.take(spread, place, axis=along)
    wide = np.take(scales.astype(np.float32), place, axis=along)
    made = ((table.astype(np.int32) - shift).astype(np.float32) * wide).astype(scales.dtype)
    return _rows(op, op.b.constant(made), axis)


def _rows(op: Op, table: str, axis: int) -> str:
    """Rows by index along an axis, zeros where an index is outside."""
    size, index_shape = op.b.shape(table)[axis], op.shape(1)
    wide = op.cast(op.x(1), DType.I64)
    inside = op.point(lambda i: i.op("ge", -size).op("and", i.op("lt", size)), wide)
    safe = op.point(lambda i, ok: select(ok, i, 0), wide, inside)
    found = plain(op, "Gather", table, safe, axis=axis)
    rank = len(op.b.shape(found))
    op.need(prod(index_shape) > 0, "asks for no rows.")
    seen = op.b.reshape(inside, [*([1] * axis), *index_shape, *([1] * (rank - axis - len(index_shape)))])
    return op.point(lambda x, ok: select(ok, x, 0.0), found, seen)


TABLE: dict[str, Rule] = {
    "MatMulNBits": _matmul_nbits,
    "MatMulBnb4": _matmul_bnb4,
    "GatherBlockQuantized": _gather_blocks,
}
