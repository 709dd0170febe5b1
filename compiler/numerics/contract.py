"""Contraction ``acc + a @ b`` with a defined order: k ascending, each product and each sum rounded on its own."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compiler.numerics.exact import Array

_BLOCK = 1 << 16  # elements of the accumulator worked on at a time: it and the product stay in the second-level cache
_FEW, _SMALL = 1 << 8, 1 << 13  # elements of an accumulator, and products, that are worked on all at once
_SHORT, _LONG = 64, 256  # columns that make short inner loops, and from how many on they are long
_UNBUFFERED = 64  # elements of NumPy's buffer with which it does not gather rows in it that are longer
_NARROW = 1 << 15  # elements of one accumulator of many, up to which all are worked on at once
_EXACT = 1 << 24  # sums of products below this are exact in float32

_HOLD = (np.dtype(np.int32), np.dtype(np.int64))  # what holds every such sum: no way through a wider type is needed


def contract(acc: Array | None, a: Array, b: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """``acc[..., T, N] + sum_k a[..., T, k] * b[..., k, N]`` in ``dtype`` (default: ``acc``'s, or what NumPy promotes to).

    Floats: ``acc = acc + a[:, k] * b[k, :]`` for k = 0, 1, ..., never fused, starting at zero without ``acc``; float16
    arguments widen without loss when ``dtype`` is float32. Integers: exact, wrapping as ``dtype`` does; 8-bit arguments go
    through float32 products in pieces that stay below 2**24, which is exact in any order. ``acc`` itself is not changed.
    """
    if dtype is None:
        dtype = acc.dtype if acc is not None else np.result_type(a, b)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = np.zeros(shape, dtype) if acc is None else np.array(np.broadcast_to(acc, shape), dtype)
    if out.size == 0 or a.shape[-1] == 0:
        return out
    if a.dtype.itemsize == 1 and b.dtype.itemsize == 1 and dtype.kind in "iu":
        return _contract_bytes(out, a, b)
    _contract_ordered(out, a.astype(dtype, copy=False), b.astype(dtype, copy=False))
    return out


def _contract_ordered(out: Array, a: Array, b: Array) -> None:
    batch = out.shape[:-2]
    with np.errstate(all="ignore"):
        if not batch:
            _matrix(out, a, b)
            return
        a = np.broadcast_to(a, batch + a.shape[-2:])
        b = np.broadcast_to(b, batch + b.shape[-2:])
        if _repeats(a) > _repeats(b):  # products commute
            _shared(out.swapaxes(-1, -2), b.swapaxes(-1, -2), a.swapaxes(-1, -2))
        else:
            _shared(out, a, b)


def _repeats(factor: Array) -> int:
    """How many products take the same matrix, where a batch of them is told to by its strides."""
    batch = zip(factor.shape[:-2], factor.strides[:-2], strict=True)
    return prod(extent for extent, stride in batch if not stride)


def _shared(out: Array, a: Array, b: Array) -> None:
    """Many products. Those by the same ``b`` are one by the rows of all, whose inner loops are as much longer."""
    axes = range(out.ndim - 2)
    same = [axis for axis in axes if not b.strides[axis]]
    apart = [axis for axis in axes if axis not in same]
    order = (*apart, *same, out.ndim - 2, out.ndim - 1)
    merged = (*(out.shape[axis] for axis in apart), -1)
    total = np.ascontiguousarray(out.transpose(order)).reshape(*merged, out.shape[-1])
    a = a.transpose(order).reshape(*merged, a.shape[-1])
    b = b[tuple(0 if axis in same else slice(None) for axis in axes)]
    if total.ndim == 2 or total.shape[-1] * total.shape[-2] > _NARROW:
        for place in np.ndindex(total.shape[:-2]):
            _matrix(total[place], a[place], b[place])
    else:
        _matrices(total, a, b)
    if not np.may_share_memory(total, out):
        out[...] = total.reshape([out.shape[axis] for axis in order]).transpose(np.argsort(order))


def _matrices(out: Array, a: Array, b: Array) -> None:
    """Many small products at once, as many as stay in the second-level cache."""
    rows, columns, inner = out.shape[-2], out.shape[-1], a.shape[-1]
    flat = out.reshape(-1, rows, columns)  # a view: ``contract`` made it
    a, b = a.reshape(-1, rows, inner), b.reshape(-1, inner, columns)
    across = columns < rows and columns < _SHORT
    if across:
        flat, a, b = (array.transpose(0, 2, 1) for array in (flat, b, a))  # long inner loops; products commute
    step = max(1, _BLOCK // (rows * columns))
    for at in range(0, len(flat), step):
        total = np.ascontiguousarray(flat[at : at + step])
        left = np.ascontiguousarray(a[at : at + step].transpose(2, 0, 1))
        right = np.ascontiguousarray(b[at : at + step]) if across else b[at : at + step]
        product = np.empty_like(total)
        for k in range(inner):
            np.multiply(left[k][:, :, None], right[:, k, None, :], out=product)
            np.add(total, product, out=total)
        if across:
            flat[at : at + step] = total


def _matrix(out: Array, a: Array, b: Array) -> None:
    rows, columns = out.shape
    if columns < rows and columns < _LONG:
        rows, columns, out, a, b = columns, rows, out.T, b.T, a.T  # long contiguous inner loops; products commute
    if rows * columns <= _FEW and len(b) * rows * columns <= _SMALL:
        products = a.T[:, :, None] * b[:, None, :]
        np.add(out, products[0], out=products[0])
        out[...] = np.add.accumulate(products, axis=0, out=products)[-1]  # one after another, as the loop below
        return
    a = np.ascontiguousarray(a.T)
    b = np.ascontiguousarray(b)
    step = max(1, _BLOCK // columns)
    for top in range(0, rows, step):
        part = a[:, top : top + step]
        total = np.ascontiguousarray(out[top : top + step])
        product = np.empty_like(total)
        if columns >= _LONG:
            np.setbufsize(_UNBUFFERED)
        for k in range(len(b)):
            np.multiply(part[k][:, None], b[k], out=product)
            np.add(total, product, out=total)
        out[top : top + step] = total


def _contract_bytes(out: Array, a: Array, b: Array) -> Array:
    largest = [255 if x.dtype.kind == "u" else 128 for x in (a, b)]
    step = _EXACT // (largest[0] * largest[1])
    for k in range(0, a.shape[-1], step):
        piece = a[..., k : k + step].astype(np.float32) @ b[..., k : k + step, :].astype(np.float32)
        out += piece.astype(out.dtype if out.dtype in _HOLD else np.int64).astype(out.dtype, copy=False)
    return out
