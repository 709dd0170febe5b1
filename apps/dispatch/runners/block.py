"""A block of items and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
# Told how many items are done; raises when the lease is lost, so that no more work is wasted on it.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """Outputs with the items along the leading axis; what was counted for one execution; how long it took here.

    `measured` is set by a host pool alone: the wall clock's instants are its device time.
    """

    outputs: dict[str, Array]
    counters: dict[str, Any]
    wall_ns: int
    measured: tuple[datetime, datetime] | None = None


def feeds_of(arrays: dict[str, Array], items: Array) -> list[Feeds]:
    """One feed for each of the items, from arrays with the items along the leading axis."""
    return [{name: np.ascontiguousarray(array[item]) for name, array in arrays.items()} for item in items]


def stack(results: Sequence[Feeds]) -> dict[str, Array]:
    """Results of single items as arrays with the items along the leading axis."""
    return {name: np.stack([result[name] for result in results]) for name in results[0]}
