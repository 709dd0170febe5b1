"""How a contraction on the planes is cut into tiles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """``rows`` per MATMUL, ``columns`` per weight tile, ``share``: over how many planes the rows are dealt, ``run``: how
    many MATMULs follow each other on one weight tile. ``score``: the cycles of the busiest plane and the mean of all."""

    rows: int
    columns: int
    share: int
    run: int
    cycles: int
    score: int
