"""Weights that are fetched: legal by the second description of the processor, the same bits a lane at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.types import DType
from compiler.isa.binary import Binary
from compiler.isa.instruction import Op, pack
from compiler.isa.machine import UNIT_CLASSES
from compiler.isa.table import time, unit_class
from compiler.simulator import SimulationError, simulate
from compiler.tiling.external import WEIGHTS
from tests.compiler.checks import binary_of
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.lanes import Lanes
from tests.compiler.tiling.test_narrow import feeds, product
from tests.tiers import some

PEBBLE = Path(__file__).parents[1] / "probing" / "pebble.toml"
BYTES = (DType.U8, DType.I8)


def made(m: int, k: int, n: int) -> tuple[Binary, targets.Target, dict[str, np.ndarray]]:
    target = targets.read(PEBBLE)
    graph = product(m, k, n, BYTES, DType.F32, True)  # noqa: FBT003 the helper's own form
    return binary_of(graph, target, WEIGHTS)[1], target, feeds(graph, 1)


@settings(max_examples=some(8), deadline=None)
@given(st.integers(1, 6), st.integers(1, 70), st.integers(1, 40))
def test_a_fetching_schedule_is_legal_and_right(m, k, n):
    binary, target, feed = made(m, k, n)
    assert Oracle(binary, target).violations(inferences=2) == []
    result = Lanes(binary, target.weights.latency).run({"x": feed["x"].tobytes()})["y"]
    outputs, counters = simulate(binary.to_bytes(), feed, target)
    assert outputs["y"].tobytes() == result
    fetched = sum(i.count1 * i.count2 for i in binary.rows if i.opcode == Op.FETCH)
    assert counters.io.external_in == fetched


@pytest.mark.parametrize("late", [1, 7])
def test_weights_that_arrive_late_are_refused_by_both(late):
    binary, target, feed = made(4, 64, 40)
    rows = list(binary.rows)
    end = {n: i.cycle + time(target, binary, i).end for n, i in enumerate(rows) if i.opcode == Op.FETCH}
    last = max(end, key=lambda n: end[n])
    read = max(i.cycle + time(target, binary, i).beats for i in rows if i.opcode == Op.LOADW)
    rows[last] = rows[last]._replace(cycle=rows[last].cycle + read - end[last] + late)
    rows.sort(key=lambda i: (i.cycle, UNIT_CLASSES.index(unit_class(i)), i.unit))
    wrong = replace(binary, instructions=pack(rows))
    assert Oracle(wrong, target).violations(inferences=1) != []
    with pytest.raises(SimulationError, match="arrives at cycle"):
        simulate(wrong.to_bytes(), feed, target)
