"""How often inferences may follow each other, cycle by cycle and byte by byte: the rule of docs/compiler/isa.md a second time.

Like ``hazards``, from the processor's description alone.
"""

from __future__ import annotations

from compiler.isa.binary import Binary
from compiler.isa.instruction import Op
from compiler.isa.machine import Machine
from tests.compiler.oracle.events import Event, Reader, Times

Taken = set[tuple[str, int]]  # a resource and a cycle in which it is in use
_Access = tuple[bool, int, int, int]  # whether it writes, its issue, and the cycles between which it works on a line


class Pace:
    """What one inference takes: ``fixed`` of all inferences, ``moving`` of every ``copies``-th one."""

    def __init__(self, binary: Binary, machine: Machine) -> None:
        self.b, self.line = binary, machine.line_bytes
        reader = Reader(binary, machine)
        self.events = [reader.event(n, i, i.cycle) for n, i in enumerate(binary.rows)]
        self.fixed: Taken = {(e.unit, cycle) for e in self.events for cycle in range(e.at, e.at + e.beats)}
        self.moving: Taken = set()
        self._slots()
        self._sums()
        self._lines()

    def legal(self, interval: int) -> bool:
        """Whether an inference may begin every ``interval`` cycles."""
        return (
            interval > 0
            and _apart(self.fixed, interval)
            and _apart(self.moving, interval * self.b.memory.copies)
            and self._states_meet(interval)
        )

    def shortest(self, most: int) -> int:
        """The shortest legal interval; ``most`` when none is shorter."""
        return next((k for k in range(1, most) if self.legal(k)), most)

    def _slots(self) -> None:
        loads: dict[tuple[int, int], list[list[int]]] = {}
        for e in self.events:
            key = (e.i.unit, e.i.slot)
            if e.i.opcode == Op.LOADW:
                loads.setdefault(key, []).append([e.at + e.latency, e.at + e.latency + e.beats])
            if e.i.opcode == Op.MATMUL:
                mine = [load for load in loads[key] if load[0] <= e.at][-1]
                mine[1] = max(mine[1], e.at + e.beats)
        for key, some in loads.items():
            self.fixed |= {(f"slot {key}", cycle) for begin, end in some for cycle in range(begin, end)}

    def _sums(self) -> None:
        began: dict[tuple[int, int], int] = {}
        for e in self.events:
            if e.i.opcode != Op.MATMUL:
                continue
            for row in range(e.i.row, e.i.row + e.i.count1):
                key = (e.i.unit, row)
                begin = began.setdefault(key, e.at)
                if e.i.flags & 2:
                    self.fixed |= {(f"row {key}", cycle) for cycle in range(begin, e.at + 1)}
                    del began[key]

    def _lines(self) -> None:
        """Lines behind states: from the issue of what writes a byte until that has been written and was read last."""
        values: dict[int, list[list[int]]] = {}
        for e in self.events:
            for role, touched in e.reads.items():
                self._read(values, e, touched, e.read_at[role])
            for times in (e.read_at.get("reach", {}), dict.fromkeys(e.scattered, (0, e.latency + e.beats))):
                self._read(values, e, {at * self.line + n for at in times for n in range(self.line)}, times)
            if not e.scattered:
                for byte in e.writes:
                    values.setdefault(byte, []).append([e.at, e.at + e.write_at[byte // self.line][1]])
        self._take(values)

    def _take(self, values: dict[int, list[list[int]]]) -> None:
        """``values``: by byte the cycles of each value in it."""
        m = self.b.memory
        low, high = m.constants + m.state, m.total - m.scratch
        for byte in (byte for byte in values if byte >= low):
            where = self.moving if byte < high else self.fixed
            for begin, end in values[byte]:
                where |= {(f"line {byte // self.line}", cycle) for cycle in range(begin, end)}

    def _read(self, values: dict[int, list[list[int]]], e: Event, touched: set[int], times: Times) -> None:
        for byte in touched & values.keys():
            values[byte][-1][1] = max(values[byte][-1][1], e.at + times[byte // self.line][1])

    def _states_meet(self, interval: int) -> bool:
        """Everything that meets in a line of a state, and changes it, is in the order of inferences."""
        return all(
            interval + after[2] >= before[3] and interval + after[1] >= before[1]
            for some in self._in_states().values()
            for before in some
            for after in some
            if before[0] or after[0]
        )

    def _in_states(self) -> dict[int, list[_Access]]:
        """By line of a state what touches it."""
        m = self.b.memory
        lines = set(range(m.constants // self.line, (m.constants + m.state) // self.line))
        found: dict[int, list[_Access]] = {}
        for e in self.events:
            for writes, times in [*((False, times) for times in e.read_at.values()), (True, e.write_at)]:
                for line in times.keys() & lines:
                    begin, end = times[line]
                    found.setdefault(line, []).append((writes, e.at, e.at + begin, e.at + end))
        if self.b.derived:
            return found
        # Compilers before overlooked reads of the next value where it was written.
        return {line: _until_changed(some) for line, some in found.items()}


def _until_changed(some: list[_Access]) -> list[_Access]:
    """What touches a line no later than it is changed for the last time."""
    last = max((at for writes, at, _, _ in some if writes), default=-1)
    return [one for one in some if one[1] <= last]


def _apart(taken: Taken, period: int) -> bool:
    """Whether no resource is in use twice in a cycle when all repeats every ``period`` cycles."""
    seen: Taken = set()
    for resource, cycle in taken:
        one = (resource, cycle % period)
        if one in seen:
            return False
        seen.add(one)
    return True


def broken_interval(binary: Binary, machine: Machine) -> list[str]:
    """What the header says of the interval and the instructions, which are legal, contradict."""
    stated = binary.interval
    if any(i.opcode == Op.BRANCH for i in binary.rows):
        same = stated == max(1, binary.latency) if binary.derived else stated >= max(1, binary.latency)
        return [] if same else [f"an interval of {stated} is stated for a program with branches"]
    pace = Pace(binary, machine)
    if not pace.legal(stated):
        return [f"an interval of {stated} is stated, at which inferences meet"]
    if not binary.derived:
        return [] if stated <= max(1, binary.latency) else [f"an interval of {stated} is longer than an inference"]
    shortest = pace.shortest(stated)
    return [] if shortest == stated else [f"an interval of {stated} is stated, {shortest} is legal"]
