"""The schedule as data: instructions with start and duration, and a trace that common viewers open."""

from __future__ import annotations

from typing import Any, NamedTuple

from compiler.isa import Op, time, unit_class
from compiler.isa.binary import Binary
from compiler.targets import Target


class Scheduled(NamedTuple):
    """One instruction: its unit is busy for ``duration`` cycles from ``start``; results can be read from ``end``."""

    unit: str
    instance: int
    start: int
    duration: int
    end: int
    operation: str
    source: int


def scheduled(binary: Binary, target: Target) -> list[Scheduled]:
    """All instructions in order of issue."""
    rows = []
    for i in binary.rows:
        timing = time(target, binary, i)
        rows.append(
            Scheduled(unit_class(i), i.unit, i.cycle, timing.beats, i.cycle + timing.end, Op(i.opcode).name, i.source)
        )
    return rows


def segments(rows: list[Scheduled]) -> list[list[Any]]:
    """Runs of one operation on one unit: [unit, start, duration, source]; instructions without a gap are one run."""
    runs: list[list[Any]] = []
    last: dict[tuple[str, int], list[Any]] = {}
    for row in rows:
        run = last.get((row.unit, row.instance))
        if run is not None and run[3] == row.source and run[1] + run[2] == row.start:
            run[2] += row.duration
            continue
        run = [f"{row.unit}[{row.instance}]", row.start, row.duration, row.source]
        last[row.unit, row.instance] = run
        runs.append(run)
    return runs


def chrome_trace(binary: Binary, target: Target) -> dict[str, Any]:
    """Trace events (one cycle = 1 microsecond of the viewer, so that cycles stay readable)."""
    units = target.instances()
    threads = {unit: n + 1 for n, unit in enumerate(units)}
    events: list[dict[str, Any]] = [
        {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": f"{target.name}, 1 us = 1 cycle"}}
    ]
    for (name, instance), thread in threads.items():
        label = {"name": f"{name}[{instance}]"}
        events.append({"name": "thread_name", "ph": "M", "pid": 1, "tid": thread, "args": label})
    events += [
        {
            "name": binary.sources[row.source] if binary.sources else row.operation,
            "cat": row.operation,
            "ph": "X",
            "pid": 1,
            "tid": threads[row.unit, row.instance],
            "ts": row.start,
            "dur": row.duration,
            "args": {"instruction": row.operation, "readable": row.end},
        }
        for row in scheduled(binary, target)
    ]
    return {"traceEvents": events, "displayTimeUnit": "ns"}
