"""The inputs and the outcome of running a block of items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Feeds = dict[str, Array]
# Called with the number of finished items; raises LeaseLost if the lease is lost, so the runner stops.
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a block: the outputs (items along the first axis), the counters of one execution, and the duration
    on this host.

    `measured` holds the start and end by the wall clock, which are the device time on a host pool; None on other pools.
    """

    outputs: dict[str, Array]
    counters: dict[str, Any]
    wall_ns: int
    measured: tuple[datetime, datetime] | None = None


def feeds_of(arrays: dict[str, Array], items: Array) -> list[Feeds]:
    """Split arrays along the first axis into one feed for each item."""
    return [{name: np.ascontiguousarray(array[item]) for name, array in arrays.items()} for item in items]


def stack(results: Sequence[Feeds]) -> dict[str, Array]:
    """Stack the outputs of single items along a new first axis."""
    return {name: np.stack([result[name] for result in results]) for name in results[0]}
