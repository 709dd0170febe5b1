"""Detects arrays that look like images and encodes them as PNG."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from dataclasses import dataclass
from typing import Any

import numpy as np

from apps.dispatch.previews.arrays import Array
from apps.dispatch.previews.numbers import number_text

SIDE_MIN = 8  # pixels; a smaller plane is a table of numbers
SIDE_SHOWN = 256
RATIO_MAX = 16
CHANNELS = (1, 3, 4)


@dataclass(frozen=True)
class Picture:
    """A PNG image as a data URL, with its size in pixels. `scale` says which values black and white stand for."""

    address: str
    width: int
    height: int
    scale: str


def image_axes(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int, int] | None:
    """Return the (channel, height, width) axes of an item that looks like an image; None for any other item.

    An image has one, three or four channels, before or after its height and width. An array with one channel counts as
    an image only if it has four axes or the type uint8.
    """
    if dtype.kind not in "uif" or len(shape) not in {3, 4} or (len(shape) == 4 and shape[0] != 1):
        return None
    offset = len(shape) - 3
    may_be_single = len(shape) == 4 or dtype == np.uint8
    for channel, height, width in ((0, 1, 2), (2, 0, 1)):
        channels, plane = shape[offset + channel], (shape[offset + height], shape[offset + width])
        if channels in CHANNELS and (channels > 1 or may_be_single) and _is_plane(plane):
            return channel + offset, height + offset, width + offset
    return None


def _is_plane(sizes: tuple[int, int]) -> bool:
    # A tiny image or a narrow strip is not shown as a picture.
    return min(sizes) >= SIDE_MIN and max(sizes) <= min(sizes) * RATIO_MAX


def picture(values: Array) -> Picture | None:
    """Return the picture of an item; None if the item does not look like an image.

    Values of type uint8 are shown unchanged. Other values are scaled from black (smallest) to white (largest).
    """
    axes = image_axes(values.shape, values.dtype)
    if axes is None:
        return None
    planes = values.reshape(values.shape[-3:])
    offset = values.ndim - 3
    planes = planes.transpose([axis - offset for axis in (axes[1], axes[2], axes[0])])
    step = -(-max(planes.shape[:2]) // SIDE_SHOWN)
    height, width = planes.shape[:2]
    pixels, scale = _scaled(planes[::step, ::step])
    return Picture("data:image/png;base64," + b64encode(png(pixels)).decode(), width, height, scale)


def _scaled(planes: Array) -> tuple[Array, str]:
    """Scale an array [height, width, channels] to bytes. Return the bytes and a text that says which values are black
    and white.
    """
    if planes.dtype == np.uint8:
        return planes, "black 0, white 255"
    numbers = planes.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    least, largest = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    span = (largest - least) or 1.0
    shown = np.nan_to_num((numbers - least) / span, nan=0.0, posinf=1.0, neginf=0.0)
    return np.rint(shown.clip(0, 1) * 255).astype(np.uint8), (
        f"black {number_text(least)}, white {number_text(largest)}"
    )


def png(pixels: Array) -> bytes:
    """Encode bytes of the shape [height, width, channels] as a PNG file. The number of channels is 1, 3 or 4."""
    height, width, channels = pixels.shape
    colour = {1: 0, 3: 2, 4: 6}[channels]
    rows = np.zeros((height, 1 + width * channels), np.uint8)  # each row begins with its filter: none
    rows[:, 1:] = pixels.reshape(height, width * channels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows.tobytes())),
        (b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
