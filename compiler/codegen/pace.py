"""The interval of a finished schedule: the shortest that its instructions allow, which may be below the one it was made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from compiler.isa.binary import Binary
from compiler.scheduling.build import Plan
from compiler.simulator.pace import shortest
from compiler.simulator.reservations import Reservations, Uses


def shortest_interval(plan: Plan, binary: Binary) -> int:
    """Cycles between inferences: never more than the plan's, at which they do not meet."""
    if plan.way is not None or not _units(plan).shorter(plan.interval):
        return plan.interval
    return shortest(replace(binary, derived=True), plan.target)


def _units(plan: Plan) -> Reservations:
    """What needs no look at memory: units alone exclude nearly all that is shorter."""
    numbers: dict[tuple[str, int], int] = {}
    unit = np.array([numbers.setdefault(tile.unit, len(numbers)) for tile in plan.tiles], np.int64)
    begin = np.array(plan.start, np.int64)
    none = np.empty(0, np.int64)
    uses = Uses(unit, begin, begin + np.array([tile.beats for tile in plan.tiles], np.int64))
    return Reservations(uses, Uses(none, none, none), 1, 0, plan.latency)
