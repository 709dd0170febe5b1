"""Summarises the size, type and range of every array in a file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.dispatch.previews.arrays import NpzFile, StoredArray
from apps.dispatch.previews.numbers import number_text
from apps.figures import shape_format

READ_BYTES_MAX = 16 << 20  # of all arrays of a file together


@dataclass(frozen=True)
class Summary:
    """The summary of one array. The range covers the first `values_read` of `values` values; arrays that are not
    numeric have no range.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    least: str = ""
    largest: str = ""
    mean: str = ""
    values: int = 0
    values_read: int = 0
    not_finite: int = 0

    @property
    def shape_text(self) -> str:
        """The shape as text, such as "300 × 10"."""
        return shape_format(self.shape)

    @property
    def is_partial(self) -> bool:
        return self.values_read < self.values


def summaries(file: NpzFile) -> list[Summary]:
    """Summarise every array. At most READ_BYTES_MAX are read in total, the smallest arrays first."""
    left = READ_BYTES_MAX
    found: dict[str, Summary] = {}
    waiting = sorted(file.arrays.values(), key=lambda one: one.row_bytes * one.rows)
    for done, array in enumerate(waiting):
        share = left // (len(waiting) - done)
        found[array.name] = summary(file, array, share)
        left -= min(share, found[array.name].values_read * array.dtype.itemsize)
    return [found[name] for name in file.arrays]


def summary(file: NpzFile, array: StoredArray, most: int) -> Summary:
    """Summarise one array from its first `most` bytes. Only finite values count for the range and the mean."""
    total = int(np.prod(array.shape, dtype=np.int64))
    if array.dtype.kind not in "biuf":
        return Summary(array.name, str(array.dtype), array.shape, values=total, values_read=total)
    read = finite = 0
    added, least, largest = 0.0, np.inf, -np.inf
    for piece in file.pieces(array, most):
        read += piece.size
        values = piece.astype(np.float64)
        values = values[np.isfinite(values)]
        if values.size:
            finite += values.size
            added += float(values.sum())
            least, largest = min(least, float(values.min())), max(largest, float(values.max()))
    if not finite:
        return Summary(
            array.name, str(array.dtype), array.shape, values=total, values_read=read, not_finite=read - finite
        )
    return Summary(
        array.name,
        str(array.dtype),
        array.shape,
        least=number_text(least),
        largest=number_text(largest),
        mean=number_text(added / finite),
        values=total,
        values_read=read,
        not_finite=read - finite,
    )
