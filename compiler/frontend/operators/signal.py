"""Fourier transforms as contractions by constant matrices, and the mel filter bank."""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.tensors import element_type
from compiler.ir import Access
from compiler.numerics import functions as f

Array = np.ndarray[Any, Any]
_LARGEST = 1 << 24  # elements of a transform's matrix


def _angles(length: int, inner: int, outer: int) -> tuple[Array, Array]:
    """Cosine and sine of 2 pi j k / length for j < inner, k < outer; the same bits on every machine."""
    turns = (np.arange(inner)[:, None] * np.arange(outer)) % length
    once = np.arange(length) * (2 * np.pi / length)
    return f.cos(once)[turns], f.sin(once)[turns]


def _matrix(op: Op, length: int, inner: int, parts: int, *, inverse: bool, onesided: bool) -> Array:
    """[inner, parts in, outer, parts out] of the transform of ``length`` points, of which ``inner`` are given."""
    outer = length // 2 + 1 if onesided and not inverse else length
    op.need(inner * outer * parts * 2 <= _LARGEST, f"a transform of {length} points is too long.")
    cos, sin = _angles(length, inner, outer)
    sign = 1.0 if inverse else -1.0
    out = np.zeros((inner, parts, outer, 2))
    out[:, 0, :, 0], out[:, 0, :, 1] = cos, sign * sin
    if parts == 2:
        out[:, 1, :, 0], out[:, 1, :, 1] = -sign * sin, cos
    if inverse and onesided:  # the half that is not given mirrors the half that is; what comes out is real
        double = np.full((inner, 1, 1, 1), 2.0)
        double[0] = 1.0
        if length % 2 == 0 and inner == length // 2 + 1:
            double[-1] = 1.0
        out = (out * double)[..., :1]
    return out / length if inverse else out


def _transform(op: Op, value: str, axis: int, matrix: str) -> str:
    """``value`` [..., points, ..., parts] times ``matrix`` [points, parts, outer, parts]."""
    letters = "abcdefghij"[: len(op.b.shape(value)) - 1] + "p"
    here = letters[axis]
    return op.contract(f"{letters},{here}pqr->{letters[:-1].replace(here, 'q')}r", value, matrix)


def _dft(op: Op) -> str:
    rank = op.rank()
    op.need(2 <= rank <= 9 and op.shape()[-1] in (1, 2), "takes real or complex numbers in its last dimension.")
    inverse, onesided = bool(op.whole("inverse", 0)), bool(op.whole("onesided", 0))
    default = 1 if op.opset < 20 else -2
    axis = op.whole("axis", default) if op.opset < 20 or not op.has(2) else int(op.known(2, "The axis").reshape(()))
    axis = op.axis(axis, rank)
    op.need(axis != rank - 1, "transforms along the dimension of real and imaginary parts.")
    n = op.shape()[axis]
    length = 2 * (n - 1) if inverse and onesided else n
    if op.has(1):
        length = int(op.known(1, "The length").reshape(-1)[0])
    op.need(length > 0, f"a transform of {length} points.")
    used = min(n, length // 2 + 1 if inverse and onesided else length)
    value = op.slice(op.x(), axis, 0, used)
    matrix = _matrix(op, length, used, op.shape()[-1], inverse=inverse, onesided=onesided)
    return _transform(op, value, axis, op.const(matrix, op.dtype()))


def _stft(op: Op) -> str:
    shape = op.shape()
    op.need(
        len(shape) in (2, 3) and (len(shape) == 2 or shape[2] in (1, 2)), "takes signals of real or complex numbers."
    )
    signal = op.x() if len(shape) == 3 else op.b.reshape(op.x(), (*shape, 1))
    batch, time, parts = op.b.shape(signal)
    step = int(op.known(1, "The step between frames").reshape(-1)[0])
    length = time
    if op.has(2):
        length = op.shape(2)[0]
    elif op.has(3):
        length = int(op.known(3, "The length of a frame").reshape(-1)[0])
    op.need(step > 0 and 0 < length <= time, f"frames of {length} every {step} do not fit {time} samples.")
    count = 1 + (time - length) // step
    rows = ((1, 0, 0, 0), (0, step, 1, 0), (0, 0, 0, 1))
    frames = op.b.view(signal, (batch, count, length, parts), Access((0, 0, 0), rows))
    onesided = bool(op.whole("onesided", 1)) and parts == 1
    matrix = op.const(_matrix(op, length, length, parts, inverse=False, onesided=onesided), op.dtype())
    if op.has(2):
        if op.b.known(op.x(2)) is not None:
            matrix = op.point(lambda m, w: m * w, matrix, op.b.reshape(op.x(2), (length, 1, 1, 1)))
        else:
            frames = op.point(lambda x, w: x * w, frames, op.b.reshape(op.x(2), (length, 1)))
    return _transform(op, frames, 2, matrix)


def _mel_weights(op: Op) -> str:
    """The triangular filters of the mel scale (the standard's definition), in float64 and rounded once."""
    bins, length, rate = (int(op.known(i, "The size").reshape(())) for i in range(3))
    low, high = (float(op.known(i, "The edge").reshape(())) for i in (3, 4))
    op.need(0 < bins < 1 << 14 and 0 < length < 1 << 20 and rate > 0 and low >= 0, "its sizes are not usable.")
    ends = 2595 * f.log(1 + np.array([low, high]) / 700) / f.log(np.array([10.0]))
    mel = np.arange(bins + 2) * ((ends[1] - ends[0]) / (bins + 2)) + ends[0]
    hertz = 700 * (f.exp(mel / 2595 * f.log(np.array([10.0]))) - 1)
    places = np.floor_divide((length + 1) * hertz, rate).astype(np.int64)
    op.need(places.min() >= 0 and places.max() <= length // 2, "its edges lie outside the spectrum.")
    out = np.zeros((length // 2 + 1, bins))
    for i, (left, centre, right) in enumerate(zip(places, places[1:], places[2:], strict=False)):
        rise, fall = np.arange(left, centre + 1), np.arange(centre, right)
        out[rise, i] = 1.0 if centre == left else (rise - left) / (centre - left)
        if right > centre:
            out[fall, i] = (right - fall) / (right - centre)
    return op.const(out, element_type(op.whole("output_datatype", 1), "The result"))


TABLE: dict[str, Rule] = {"DFT": _dft, "STFT": _stft, "MelWeightMatrix": _mel_weights}
