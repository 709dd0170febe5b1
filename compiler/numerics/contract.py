"""Contraction ``acc + a @ b`` with a defined order: k ascending, each product and each sum rounded on its own."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from compiler.numerics.exact import Array

BLOCK = 5 << 14  # elements of the accumulator worked on at a time: it and the product stay in the second-level cache
_FEW, _SMALL = 1 << 8, 1 << 13  # elements of an accumulator, and products, that are worked on all at once
_SHORT, _LONG = 64, 256  # columns that make short inner loops, and from how many on they are long
_UNBUFFERED = 64  # elements of NumPy's buffer with which it does not gather rows in it that are longer
_NARROW = 1 << 15  # elements of one accumulator of many, up to which all are worked on at once
_EXACT = 1 << 24  # sums of products below this are exact in float32

_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # by its bits, every float16

_HOLD = (np.dtype(np.int32), np.dtype(np.int64))  # what holds every such sum: no way through a wider type is needed


def contract(
    acc: Array | None, a: Array, b: Array, dtype: np.dtype[Any] | None = None, on: Array | None = None
) -> Array:
    """``acc[..., T, N] + sum_k a[..., T, k] * b[..., k, N]`` in ``dtype`` (default: ``acc``'s, or what NumPy promotes to).

    Floats: ``acc = acc + a[:, k] * b[k, :]`` for k = 0, 1, ..., never fused, starting at zero without ``acc``; float16
    arguments widen without loss when ``dtype`` is float32. Integers: exact, wrapping as ``dtype`` does; 8-bit arguments go
    through float32 products in pieces that stay below 2**24, which is exact in any order. ``acc`` itself is not changed.
    ``on``: (K, N) truth values, or (batch, K, N) by the last axis of the batch: which products there are, None for all; ``b``
    is 0 elsewhere.
    """
    if dtype is None:
        dtype = acc.dtype if acc is not None else np.result_type(a, b)
    shape = (*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    out = np.zeros(shape, dtype) if acc is None else np.array(np.broadcast_to(acc, shape), dtype)
    if out.size == 0 or a.shape[-1] == 0:
        return out
    if a.dtype.itemsize == 1 and b.dtype.itemsize == 1 and dtype.kind in "iu":
        return _contract_bytes(out, a, b)
    a, b = _widened(a, dtype), _widened(b, dtype)
    with np.errstate(all="ignore"):
        if on is None or dtype.kind != "f" or (2 * np.count_nonzero(on) > on.size and np.isfinite(a).all()):
            _contract_ordered(out, a, b)  # a finite number times 0 changes no sum that began at 0
        else:
            _contract_cells(out, a, b, on)
    return out


def _widened(array: Array, dtype: np.dtype[Any]) -> Array:
    """``array.astype(dtype)`` that repeats what ``array`` repeats; by a table where many float16 are to be converted, which
    NumPy does one by one."""
    if array.dtype == dtype:
        return array
    first = tuple(slice(0, 1) if not stride else slice(None) for stride in array.strides[:-2])
    once = array[first]
    if array.dtype != np.float16 or dtype != np.float32 or once.size < len(_HALVES) >> 3:
        found = once.astype(dtype)
    else:
        found = _HALVES.take(np.ascontiguousarray(once).view(np.uint16))
    return np.broadcast_to(found, array.shape)


def _contract_ordered(out: Array, a: Array, b: Array) -> None:
    batch = out.shape[:-2]
    if not batch:
        _matrix(out, a, b)
        return
    a = np.broadcast_to(a, batch + a.shape[-2:])
    b = np.broadcast_to(b, batch + b.shape[-2:])
    across = _repeats(a) > _repeats(b)
    kept = a if across else b
    same = [axis for axis in range(len(batch)) if not kept.strides[axis]]
    apart = [axis for axis in range(len(batch)) if kept.strides[axis]]
    _merged(out, a, b, apart, same, across)


def _repeats(factor: Array) -> int:
    """How many products take the same matrix, where a batch of them is told to by its strides."""
    batch = zip(factor.shape[:-2], factor.strides[:-2], strict=True)
    return prod(extent for extent, stride in batch if not stride)


def _merged(out: Array, a: Array, b: Array, apart: list[int], same: list[int], across: bool) -> None:
    """Many products. Those along the axes ``same`` take the same ``b`` (``across``: the same ``a``) and are one by the rows
    (columns) of all, whose inner loops are as much longer."""
    rows, columns = out.ndim - 2, out.ndim - 1
    order = (*apart, rows, *same, columns) if across else (*apart, *same, rows, columns)
    first = tuple(out.shape[axis] for axis in apart)
    one = tuple(0 if axis in same else slice(None) for axis in range(out.ndim - 2))
    total = np.ascontiguousarray(out.transpose(order))
    if across:
        merged, a = total.reshape(*first, out.shape[rows], -1), a[one]
        b = np.ascontiguousarray(b.transpose(order)).reshape(*first, b.shape[rows], -1)
    else:
        merged, b = total.reshape(*first, -1, out.shape[columns]), b[one]
        a = a.transpose(order).reshape(*first, -1, a.shape[columns])
    if not apart or merged.shape[-1] * merged.shape[-2] > _NARROW:
        for place in np.ndindex(first):
            _matrix(merged[place], a[place], b[place])
    else:
        _matrices(merged, a, b)
    if not np.may_share_memory(total, out):
        out[...] = total.transpose(np.argsort(order))


def _contract_cells(out: Array, a: Array, b: Array, on: Array) -> None:
    """Products that are few: column by column those that are there, all columns' first ones, then all their second ones."""
    batch = out.shape[:-2]
    a = np.broadcast_to(a, batch + a.shape[-2:])
    if on.ndim > 2:
        b = np.broadcast_to(b, batch + b.shape[-2:])
        for n, cells in enumerate(on):
            _contract_cells(out[..., n, :, :], a[..., n, :, :], b[..., n, :, :], cells)
        return
    column, k = np.nonzero(on.T)
    count = np.count_nonzero(on, axis=0)
    rank = np.arange(len(k)) - np.repeat(np.cumsum(count) - count, count)
    order = np.argsort(-count, kind="stable")  # each time fewer columns have one left, the first of these
    rows = np.zeros((int(count.max(initial=0)), on.shape[1]), np.int64)
    rows[rank, column] = k
    flat, left = (array.reshape(-1, *array.shape[-2:]) for array in (out, a))
    right = np.broadcast_to(b, batch + b.shape[-2:]).reshape(-1, *b.shape[-2:]) if b.ndim > 2 else b[None]
    step = max(1, BLOCK // (flat.shape[1] * flat.shape[2]))
    for at in range(0, len(flat), step):
        factors = np.ascontiguousarray(left[at : at + step].transpose(2, 0, 1))
        total = flat[at : at + step].transpose(2, 0, 1)[order]
        weights = right[at : at + step] if len(right) > 1 else right
        for n, some in enumerate(rows[:, order]):
            here = some[: np.count_nonzero(count > n)]
            product = factors[here]
            product *= weights[:, here, order[: len(here)]].T[:, :, None]
            np.add(total[: len(here)], product, out=total[: len(here)])
        flat[at : at + step] = total[np.argsort(order)].transpose(1, 2, 0)


def _matrices(out: Array, a: Array, b: Array) -> None:
    """Many small products at once, as many as stay in the second-level cache."""
    rows, columns, inner = out.shape[-2], out.shape[-1], a.shape[-1]
    flat = out.reshape(-1, rows, columns)  # a view: ``contract`` made it
    a, b = a.reshape(-1, rows, inner), b.reshape(-1, inner, columns)
    across = columns < rows and columns < _SHORT
    if across:
        flat, a, b = (array.transpose(0, 2, 1) for array in (flat, b, a))  # long inner loops; products commute
    step = max(1, BLOCK // (rows * columns))
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
    a = np.ascontiguousarray(a.T)[:, :, None]
    b = np.ascontiguousarray(b)
    parts = -(-rows * columns // BLOCK)
    step = -(-rows // parts)
    for top in range(0, rows, step):
        total = np.ascontiguousarray(out[top : top + step])
        product = np.empty_like(total)
        if columns >= _LONG:
            np.setbufsize(_UNBUFFERED)
        for left, right in zip(a[:, top : top + step], b, strict=True):
            np.multiply(left, right, product)
            np.add(total, product, total)
        out[top : top + step] = total


def _contract_bytes(out: Array, a: Array, b: Array) -> Array:
    largest = [255 if x.dtype.kind == "u" else 128 for x in (a, b)]
    step = _EXACT // (largest[0] * largest[1])
    for k in range(0, a.shape[-1], step):
        piece = a[..., k : k + step].astype(np.float32) @ b[..., k : k + step, :].astype(np.float32)
        out += piece.astype(out.dtype if out.dtype in _HOLD else np.int64).astype(out.dtype, copy=False)
    return out
