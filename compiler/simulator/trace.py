"""A program's timeline, for charts and for common trace viewers (the Chrome trace format)."""

from __future__ import annotations

from typing import Any, NamedTuple

from compiler.isa import Op
from compiler.isa.binary import Binary
from compiler.simulator.prepare import Preparation
from compiler.simulator.run import target_of


class Event(NamedTuple):
    """One instruction: busy on ``unit`` in [start, start + beats), its results complete at ``end``."""

    unit: str
    start: int
    beats: int
    end: int
    operation: str
    source: str


def timeline(data: bytes) -> list[Event]:
    """Events of one inference in issue order, from the bytes and the target that they name."""
    binary = Binary.from_bytes(data)
    prepared = Preparation(binary, target_of(binary)).run()
    return [
        Event(
            p.unit,
            p.i.cycle,
            p.timing.beats,
            p.i.cycle + p.timing.end,
            Op(p.i.opcode).name,
            binary.sources[p.i.source] if p.i.source < len(binary.sources) else "",
        )
        for p in prepared
    ]


def chrome_trace(data: bytes) -> dict[str, Any]:
    """The timeline as a trace that viewers open: one row per unit, time in microseconds of device time.

    Exact cycles are in each event's ``args``, because microseconds are fractions.
    """
    target = target_of(Binary.from_bytes(data))
    rows = {f"{name}[{n}]": row for row, (name, n) in enumerate(target.instances())}
    scale = 1_000_000 / target.clock_hz
    events: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": f"{target.name} ({target.title})"}}
    ]
    for unit, row in rows.items():
        events.append({"ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": {"name": unit}})
        events.append({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": row, "args": {"sort_index": row}})
    events += [
        {
            "ph": "X",
            "pid": 1,
            "tid": rows[event.unit],
            "name": event.source or event.operation,
            "cat": event.operation,
            "ts": event.start * scale,
            "dur": event.beats * scale,
            "args": {"operation": event.operation, "cycle": event.start, "beats": event.beats, "end": event.end},
        }
        for event in timeline(data)
    ]
    return {"displayTimeUnit": "ns", "traceEvents": events}
