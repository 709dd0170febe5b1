"""Contraction ``acc + a @ b`` with a defined order: k ascending, each product and each sum rounded on its own."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import numpy as np

from compiler.numerics.exact import Array

BLOCK = 5 << 14  # elements of the accumulator worked on at a time: it and the product stay in the second-level cache
_FEW, _SMALL = 1 << 8, 1 << 13  # elements of an accumulator, and products, that are worked on all at once
_LONG = 256  # columns that make long inner loops
_ACROSS = (
    1 << 12
)  # columns at least of a wide factor that are multiplied at a time, so that a part of it stays in a cache
_UNBUFFERED = 64  # elements of NumPy's buffer with which it does not gather rows in it that are longer
_EXACT = 1 << 24  # sums of products below this are exact in float32
_NEAR = 1 << 18  # elements of 8-bit factors that are widened at a time: they stay in the second-level cache

_HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)  # by its bits, every float16

_PRODUCT: Final = "...ij,...jk->...ik"

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
    if 0 in shape or a.shape[-1] == 0:
        return _begun(acc, shape, dtype)
    if a.dtype.itemsize == 1 and b.dtype.itemsize == 1 and dtype.kind in "iu":
        return _contract_bytes(_begun(acc, shape, dtype), a, b)
    a, b = (_widened(factor, dtype, shape[:-2]) for factor in (a, b))
    with np.errstate(all="ignore"):
        return _numbers(_contract_wide(acc, a, b, on))


def _contract_wide(acc: Array | None, a: Array, b: Array, on: Array | None) -> Array:
    """Of factors of the sums' own type, for all of a batch."""
    shape, dtype = (*a.shape[:-1], b.shape[-1]), a.dtype
    if on is not None and dtype.kind == "f" and not (2 * np.count_nonzero(on) > on.size and np.isfinite(a).all()):
        return _contract_cells(_begun(acc, shape, dtype), a, b, on)
    if acc is None and in_order(dtype):  # a finite number times 0 changes no sum that began at 0
        return _contract_at_once(a, b)
    out = _begun(acc, shape, dtype)
    for place in np.ndindex(shape[:-2]):
        _matrix(out[place], a[place], b[place])
    return out


def _numbers(sums: Array) -> Array:
    """``sums`` with one form of what is no number: its sign and its other bits are those of the factor that a machine, or a
    loop, takes first."""
    if sums.dtype.kind == "f" and np.isnan(sums.min()):
        sums[np.isnan(sums)] = np.nan
    return sums


def _begun(acc: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.zeros(shape, dtype) if acc is None else np.array(np.broadcast_to(acc, shape), dtype)


@cache
def in_order(dtype: np.dtype[Any]) -> bool:
    """Whether ``einsum`` rounds each product and each sum on its own, in order, on this machine. It does unless NumPy was built
    to fuse them, as it is where every processor can; then ``_matrix`` takes them apart, at half the speed."""
    if dtype.kind != "f":
        return True
    inner = 9
    for batch, rows, columns in ((1, 3, 2), (1, 3, 3), (1, 3, 67), (67, 1, 1)):
        a, b = (
            (np.arange(1, np.prod(shape) + 1) * factor % 1 + 1).astype(dtype).reshape(shape)
            for factor, shape in ((np.pi, (batch, rows, inner)), (np.e, (batch, inner, columns)))
        )
        expected = np.zeros((batch, rows, columns), dtype)
        for k in range(inner):
            expected += a[..., k, None] * b[..., k, None, :]
        if not np.array_equal(_contract_at_once(a, b), expected):
            return False
    return True


def _contract_at_once(a: Array, b: Array) -> Array:
    """Sums that begin at 0, of factors with all axes of the batch.

    ``einsum`` goes through the operands as they lie in memory: with the columns next to each other they are its innermost loop,
    and the one over products is outside of it. (The innermost one it would cut in parts and add those up.)
    """
    rows, columns = a.shape[-2], b.shape[-1]
    if columns < rows and columns < _LONG:
        return _contract_at_once(b.swapaxes(-1, -2), a.swapaxes(-1, -2)).swapaxes(-1, -2)  # products commute
    if columns == 1:
        return _dots(a[..., 0, :], b[..., 0])
    a, b = _compact(a), _compact(b)
    parts = columns // _ACROSS  # even ones: of a single column the innermost loop would be the one over products
    if parts < 2:
        return np.asarray(np.einsum(_PRODUCT, a, b))
    out = np.empty((*a.shape[:-1], columns), a.dtype)
    for n in range(parts):
        part = slice(columns * n // parts, columns * (n + 1) // parts)
        np.einsum(_PRODUCT, a, b[..., part], out=out[..., part])
    return out


def _dots(a: Array, b: Array) -> Array:
    """Sums of one row and one column each: the innermost loop is over those sums, of which there are at least two."""
    flat = [factor.reshape(-1, factor.shape[-1]).T for factor in (a, b)]
    left, right = (
        np.ascontiguousarray(factor if factor.shape[1] > 1 else np.repeat(factor, 2, axis=1)) for factor in flat
    )
    return np.asarray(np.einsum("kn,kn->n", left, right)[: flat[0].shape[1]].reshape(*a.shape[:-1], 1, 1))


def _compact(factor: Array) -> Array:
    """A factor with its columns next to each other, that repeats what it repeats."""
    return np.broadcast_to(np.ascontiguousarray(_once(factor)), factor.shape)


def _once(factor: Array) -> Array:
    """A factor without what it repeats along its batch."""
    return factor[tuple(slice(0, 1) if not stride else slice(None) for stride in factor.strides[:-2])]


def _widened(array: Array, dtype: np.dtype[Any], batch: tuple[int, ...]) -> Array:
    """``array.astype(dtype)`` for all of a batch, that repeats what ``array`` repeats; by a table where many float16 are to be
    converted, which NumPy does one by one."""
    array = np.broadcast_to(array, batch + array.shape[-2:])
    if array.dtype == dtype:
        return array
    once = _once(array)
    if array.dtype != np.float16 or dtype != np.float32 or once.size < len(_HALVES) >> 3:
        found = once.astype(dtype)
    else:
        found = _floats(np.ascontiguousarray(once).view(np.uint16))
    return np.broadcast_to(found, array.shape)


def _floats(bits: Array) -> Array:
    """The float16 of these bits as float32, a stretch at a time so that what is looked up stays in a cache."""
    found = np.empty(bits.shape, np.float32)
    places, numbers = bits.reshape(-1), found.reshape(-1)
    for at in range(0, len(places), _NEAR):
        part = slice(at, at + _NEAR)
        _HALVES.take(places[part], out=numbers[part], mode="clip")  # every place is there
    return found


def _contract_cells(out: Array, a: Array, b: Array, on: Array) -> Array:
    """``out`` and products that are few: column by column those that are there, all columns' first ones, then all their second
    ones."""
    if on.ndim > 2:
        for n, cells in enumerate(on):
            _contract_cells(out[..., n, :, :], a[..., n, :, :], b[..., n, :, :], cells)
        return out
    column, k = np.nonzero(on.T)
    count = np.count_nonzero(on, axis=0)
    rank = np.arange(len(k)) - np.repeat(np.cumsum(count) - count, count)
    order = np.argsort(-count, kind="stable")  # each time fewer columns have one left, the first of these
    rows = np.zeros((int(count.max(initial=0)), on.shape[1]), np.int64)
    rows[rank, column] = k
    flat, left = (array.reshape(-1, *array.shape[-2:]) for array in (out, a))
    right = b.reshape(-1, *b.shape[-2:]) if any(b.strides[:-2]) else b[(0,) * (b.ndim - 2)][None]
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
    return out


def _matrix(out: Array, a: Array, b: Array) -> None:
    """Adds one product after the other, all sums at once."""
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
    rows, columns = out.shape[-2:]
    step = min(_EXACT // (largest[0] * largest[1]), max(2 * rows, _NEAR // columns, 32))  # few sums beside the products
    wide = np.empty(
        (*b.shape[:-2], min(step, b.shape[-2]), columns), np.float32
    )  # one for all pieces: new pages are slow
    for k in range(0, a.shape[-1], step):
        right = b[..., k : k + step, :]
        np.copyto(wide[..., : right.shape[-2], :], right)
        piece = a[..., k : k + step].astype(np.float32) @ wide[..., : right.shape[-2], :]
        out += piece.astype(out.dtype if out.dtype in _HOLD else np.int64).astype(out.dtype, copy=False)
    return out
