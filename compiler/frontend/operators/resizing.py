"""Resize and Upsample: every output place is a fixed weighted sum of a few input places, axis by axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.sampling import crop_and_resize
from compiler.ir import Term

Array = np.ndarray[Any, Any]


def _resize(op: Op) -> str:
    shape = op.shape()
    axes = op.axes(op.wholes("axes", list(range(len(shape)))), len(shape))
    old = op.opset < 11
    if not old and op.has(3) and op.b.shape(op.x(3)) != (0,):
        sizes, scales = _from_sizes(op, op.ints("", 3, "The sizes"), axes)
    else:
        sizes, scales = _from_scales(op, op.known(1 if old else 2, "The scales"), [shape[a] for a in axes])
    op.need(all(0 < s < 1 << 24 for s in sizes), f"it would resize to {sizes}.")
    if not old and op.text("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return crop_and_resize(op, axes, sizes, op.text("mode", "nearest"))
    return _along(op, axes, sizes, scales)


def _scaled(n: int, scale: float) -> int:
    """Multiplied in float32 as by the standard's shape inference: 7 / 6 as a float32 makes 7 of 6."""
    return math.floor(np.float32(n) * np.float32(scale))


def _from_scales(op: Op, given: Array, shape: Sequence[int]) -> tuple[list[int], list[float]]:
    scales = [float(v) for v in given.reshape(-1)]
    op.need(len(scales) == len(shape) and all(0 < s < 1 << 20 for s in scales), "its scales do not fit its input.")
    return [_scaled(n, s) for n, s in zip(shape, scales, strict=True)], scales


def _from_sizes(op: Op, sizes: list[int], axes: tuple[int, ...]) -> tuple[list[int], list[float]]:
    op.need(len(sizes) == len(axes), "its sizes do not fit its input.")
    shape, policy = op.shape(), op.text("keep_aspect_ratio_policy", "stretch")
    scales = [s / shape[a] for a, s in zip(axes, sizes, strict=True)]
    if policy != "stretch":
        scale = min(scales) if policy == "not_larger" else max(scales)
        scales = [scale] * len(axes)
        sizes = [math.floor(shape[a] * scale + 0.5) for a in axes]
    return sizes, scales


def _upsample(op: Op) -> str:
    shape = op.shape()
    sizes, scales = _from_scales(op, op.known(1, "The scales") if op.has(1) else np.array(op.reals("scales")), shape)
    return _along(op, tuple(range(len(shape))), sizes, scales)


def _along(op: Op, axes: tuple[int, ...], sizes: list[int], scales: list[float]) -> str:
    mode = op.text("mode", "nearest")
    mode = "linear" if mode == "bilinear" else mode
    op.need(mode in ("nearest", "linear", "cubic"), f"the mode {mode!r} is unknown.")
    value = op.x()
    for axis, size, scale in zip(axes, sizes, scales, strict=True):
        n = op.b.shape(value)[axis]
        if size == n and scale == 1.0:
            continue
        places = _coordinates(op, n, size, scale)
        if mode == "nearest":
            value = op.take(value, axis, np.clip(_nearest(op, places), 0, n - 1).astype(np.int64))
        elif op.whole("antialias", 0) and scale < 1:
            value = _dense(op, value, axis, *_antialiased(op, mode, places, n, scale))
        else:
            value = _weighted(op, value, axis, *_taps(op, mode, places, n))
    return value


def _coordinates(op: Op, n: int, size: int, scale: float) -> Array:
    """Input coordinate of every output place."""
    out = np.arange(size, dtype=np.float64)
    mode = (
        op.text("coordinate_transformation_mode", "half_pixel")
        if op.opset >= 11 and op.kind == "Resize"
        else "asymmetric"
    )
    if mode == "asymmetric":
        return out / scale
    if mode == "align_corners":
        return out * (n - 1) / (n * scale - 1) if n * scale != 1 else out * 0
    if mode == "pytorch_half_pixel" and size == 1:
        return out * 0
    if mode == "half_pixel_symmetric":
        adjusted = n * scale
        centre = n / 2 * (1 - size / adjusted)
        return centre + (out + 0.5) / scale - 0.5
    if (
        mode == "tf_half_pixel_for_nn"
    ):  # of operator sets 11 and 12; converters from TensorFlow write it in later ones too
        return (out + 0.5) / scale
    op.need(mode in ("half_pixel", "pytorch_half_pixel"), f"the coordinates {mode!r} are not supported.")
    return (out + 0.5) / scale - 0.5


def _nearest(op: Op, x: Array) -> Array:
    mode = op.text("nearest_mode", "round_prefer_floor") if op.opset >= 11 and op.kind == "Resize" else "floor"
    rounders: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor,
        "ceil": np.ceil,
        "round_prefer_floor": lambda v: np.ceil(v - 0.5),
        "round_prefer_ceil": lambda v: np.floor(v + 0.5),
    }
    op.need(mode in rounders, f"the rounding {mode!r} is unknown.")
    return np.asarray(rounders[mode](x))


def _kernel(op: Op, mode: str, distance: Array) -> Array:
    d = np.abs(distance)
    if mode == "linear":
        return np.maximum(0.0, 1.0 - d)
    a = op.real("cubic_coeff_a", -0.75)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _taps(op: Op, mode: str, x: Array, n: int) -> tuple[Array, Array]:
    """Places [taps, out] and weights [taps, out]."""
    first = np.floor(x)
    offsets = np.arange(0, 2) if mode == "linear" else np.arange(-1, 3)
    places = first[None, :] + offsets[:, None]
    weights = _kernel(op, mode, x[None, :] - places)
    if op.whole("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < n), weights, 0.0)
        weights = weights / weights.sum(0)
    return np.clip(places, 0, n - 1).astype(np.int64), weights


def _weighted(op: Op, value: str, axis: int, places: Array, weights: Array) -> str:
    dtype = op.b.dtype(value)
    op.need(dtype.is_float, "interpolates whole numbers. Cast them to float32 first.")
    rank = len(op.b.shape(value))
    shape = [-1 if j == axis else 1 for j in range(rank)]
    total = ""
    for place, weight in zip(places, weights, strict=True):
        if not weight.any():
            continue
        taken = op.take(value, axis, place)
        factor = op.const(weight.reshape(shape), dtype)
        total = op.point(_add_product, total, taken, factor) if total else op.point(lambda x, w: x * w, taken, factor)
    return total


def _add_product(t: Term, x: Term, w: Term) -> Term:
    return t + x * w


def _antialiased(op: Op, mode: str, x: Array, n: int, scale: float) -> tuple[Array]:
    """Weights [in, out] of a kernel widened by the scale."""
    reach = (1 if mode == "linear" else 2) / scale
    span = np.arange(-math.ceil(reach) - 1, math.ceil(reach) + 2)
    places = np.floor(x)[None, :] + span[:, None]
    weights = _kernel(op, mode, (x[None, :] - places) * scale)
    if op.whole("exclude_outside", 0):
        weights = np.where((places >= 0) & (places < n), weights, 0.0)
    weights = weights / weights.sum(0)
    matrix = np.zeros((n, len(x)))
    columns = np.broadcast_to(np.arange(len(x)), places.shape)
    np.add.at(matrix, (np.clip(places, 0, n - 1).astype(np.int64), columns), weights)
    return (matrix,)


def _dense(op: Op, value: str, axis: int, matrix: Array) -> str:
    letters = "abcdefgh"[: len(op.b.shape(value))]
    out = letters.replace(letters[axis], "z")
    return op.contract(f"{letters},{letters[axis]}z->{out}", value, op.const(matrix, op.b.dtype(value)))


TABLE: dict[str, Rule] = {"Resize": _resize, "Upsample": _upsample}
