"""Whether a program's header is true: what it states as latency and interval, and the regions of memory that it asks for.

Like ``hazards``, from the processor's description alone; durations are those that ``hazards`` works out.
"""

from __future__ import annotations

from compiler.isa.binary import Binary
from compiler.isa.machine import Machine
from tests.compiler.oracle.events import Event, Reader, up
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.pace import broken_interval


def broken_promises(binary: Binary, machine: Machine) -> list[str]:
    """What the header says and the instructions contradict. The instructions themselves are legal."""
    oracle = Oracle(binary, machine)
    found = []
    reader = Reader(binary, machine)
    events = [reader.event(n, i, i.cycle) for n, i in enumerate(binary.rows)]
    ends = [e.at + e.latency + e.beats for e in events]
    latest = max((ends[n] - skipped for way in oracle._ways() for n, skipped in way), default=0)
    if latest != binary.latency:
        found.append(f"a latency of {binary.latency} is stated, the last instruction ends at {latest}")
    memory, copies = binary.memory, binary.memory.copies
    top = _top(events, binary, machine) if binary.exact else memory.total - memory.activations + memory.arena
    if (
        up(top, machine.line_bytes) * machine.line_bytes
        != memory.constants + memory.state + memory.arena + memory.scratch
    ):
        found.append(f"{memory.arena} bytes in {copies} arenas are asked for, of which {top} are touched")
    if not found:
        found += broken_interval(binary, machine)
    regions = ("constants", "state", "activations", "scratch")
    return found + [f"{name} are no whole lines" for name in regions if getattr(memory, name) % machine.line_bytes]


def _top(events: list[Event], binary: Binary, machine: Machine) -> int:
    """The byte behind the last one that an instruction touches or could touch."""
    found = binary.memory.constants + binary.memory.state
    for event in events:
        places = [*event.reads.values(), event.writes]
        found = max(found, *(max(touched, default=0) + 1 for touched in places))
        found = max(found, (max(event.reach, default=0) + 1) * machine.line_bytes if event.reach else 0)
    return found
