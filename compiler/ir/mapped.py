"""Arrays that are parts of files: their pages are read when they are used, and need not stay in memory after that."""

from __future__ import annotations

from mmap import MADV_DONTNEED
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def release(array: Array) -> None:
    """Give the memory back that a file's pages took; whoever reads them again has them read from the file again."""
    base: Any = array
    while isinstance(base, np.ndarray):
        pages = getattr(base, "_mmap", None)
        if pages is not None:
            pages.madvise(MADV_DONTNEED)
            return
        base = base.base
