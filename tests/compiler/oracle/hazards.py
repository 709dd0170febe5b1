"""Says whether a processor may run a list of instructions: every byte, every line and every cycle, one at a time.

Written from the processor's description (docs/compiler/isa.md). It knows neither the simulator nor the table's formulas:
operands, cycles and rules are spelled out here a second time, as sets of bytes and of cycles.
"""

from __future__ import annotations

from compiler.isa.binary import Binary
from compiler.isa.instruction import Op
from compiler.isa.machine import Machine
from compiler.isa.stream import Stream
from tests.compiler.oracle.events import Broken, Event, Reader, Times

SUMS = {"f32": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}
WAYS = 64  # ways through a program that are looked at
Way = list[tuple[int, int]]  # positions, and the cycles that were skipped before each


class Oracle:
    """Rules for one program on one machine; ``violations`` lists every broken one of the given inferences."""

    def __init__(self, binary: Binary, machine: Machine) -> None:
        self.b = binary
        self.m = machine

    def _stream(self, reference: int) -> Stream:
        return self.b.streams[reference - 1]

    def violations(self, inferences: int = 1) -> list[str]:
        try:
            reader = Reader(self.b, self.m)
            events = [reader.event(n, i, i.cycle) for n, i in enumerate(self.b.rows)]
        except Broken as broken:
            return [str(broken)]
        ways = self._ways()
        found = self._branches(events, ways)
        for way in ways:
            found += self._on(way, events, inferences)
        return list(dict.fromkeys(found))

    def _on(self, way: Way, events: list[Event], inferences: int) -> list[str]:
        """What is broken when all inferences go one way."""
        queue = []
        mine = [(events[n], events[n].at - skipped) for n, skipped in way]
        for inference in range(inferences):
            for e, at in mine:
                moved = self._moved(e, at + inference * self.b.interval, inference % self.b.memory.copies)
                queue.append((moved.at, inference, moved.number, moved))
        order = [entry[3] for entry in sorted(queue, key=lambda entry: entry[:3])]
        found = self._units(order) + self._lines(order) + self._bytes(order)
        return found + self._planes(order) + self._outputs([e for e, _ in mine])

    def _moved(self, e: Event, at: int, copy: int) -> Event:
        """The same instruction in an inference that begins later and works in another arena."""
        m, line = self.b.memory, self.m.line_bytes
        first, size = m.constants + m.state, m.activations // m.copies

        def up_by(touched: set[int], unit: int) -> set[int]:
            low, high, step = first // unit, (first + size) // unit, copy * size // unit
            return {place + step if low <= place < high else place for place in touched}

        def later(times: Times) -> Times:
            return {place: times[old] for old in times for place in up_by({old}, line)}

        reads = {role: up_by(touched, 1) for role, touched in e.reads.items()}
        return Event(
            e.number,
            e.i,
            at,
            e.beats,
            e.latency,
            reads,
            up_by(e.reach, line),
            e.own,
            up_by(e.writes, 1),
            up_by(e.scattered, line),
            {role: later(times) for role, times in e.read_at.items()},
            later(e.write_at),
        )

    # branches

    def _ways(self) -> list[Way]:
        """Every way through the program, one by one."""
        done: list[Way] = []
        open_ways: list[tuple[Way, int, int]] = [([], 0, 0)]
        while open_ways and len(done) < WAYS:
            way, n, skipped = open_ways.pop()
            while n < len(self.b.rows):
                i = self.b.rows[n]
                way.append((n, skipped))
                if i.opcode == Op.BRANCH:
                    if i.a:
                        open_ways.append((list(way), n + 1, skipped))
                    n, skipped = n + i.count3, skipped + i.start3
                n += 1
            done.append(way)
        return done

    def _branches(self, events: list[Event], ways: list[Way]) -> list[str]:
        """The machine is idle when a branch issues, until it has decided, and where it lands; nor is there another inference."""
        found = []
        for e in events:
            if e.i.opcode != Op.BRANCH:
                continue
            decided = e.at + e.latency + e.beats
            landing = (e.number + 1 + e.i.count3, decided + e.i.start3)
            for position, cycle in ((e.number, e.at), (e.number + 1, decided), landing):
                late = any(f.at + f.latency + f.beats > cycle for f in events[:position])
                if late or any(f.at < cycle for f in events[position:]):
                    found.append(f"{e.number}: a branch while something is under way at {cycle}")
        if any(e.i.opcode == Op.BRANCH for e in events):
            ends = [events[n].at - skipped + events[n].latency + events[n].beats for way in ways for n, skipped in way]
            if self.b.interval < max(ends):
                found.append("inferences of a program with branches overlap")
        return found

    # rules between instructions

    def _units(self, order: list[Event]) -> list[str]:
        """No unit does two things in one cycle, cycle by cycle."""
        busy: dict[tuple[str, int], int] = {}
        found = []
        for e in order:
            for cycle in range(e.at, e.at + e.beats):
                if (e.unit, cycle) in busy:
                    found.append(f"{e.number}: {e.unit} is busy in cycle {cycle} with {busy[e.unit, cycle]}")
                    break
                busy[e.unit, cycle] = e.number
        return found

    def _lines(self, order: list[Event]) -> list[str]:
        """Every pair of instructions that meet in a line, in issue order."""
        found = []
        for n, later in enumerate(order):
            for role, times in later.read_at.items():
                if role not in later.own and _before(later.write_at, times, 0):
                    found.append(f"{later.number}: overwrites its own operand {role}")
            for earlier in order[:n]:
                ahead = earlier.at - later.at
                if any(_before(times, earlier.write_at, ahead) for times in later.read_at.values()):
                    found.append(f"{later.number}: reads what {earlier.number} has not completed")
                if _before(later.write_at, earlier.write_at, ahead):
                    found.append(f"{later.number}: writes what {earlier.number} has not completed")
                if any(_before(later.write_at, times, ahead) for times in earlier.read_at.values()):
                    found.append(f"{later.number}: writes what {earlier.number} still reads")
        return found

    def _bytes(self, order: list[Event]) -> list[str]:
        """Every byte that is read was written by somebody before; every line that an index could name too."""
        known = set(range(self.b.memory.constants))
        for state in self.b.states:
            known |= set(range(state.base, state.base + len(state.initial)))
        line = self.m.line_bytes
        region = range((self.b.memory.constants + self.b.memory.state) // line)
        lines = set(region)
        found = []
        for e in order:
            if any(not touched <= known for touched in e.reads.values()):
                found.append(f"{e.number}: reads bytes that nobody wrote")
            if not e.reach <= lines:
                found.append(f"{e.number}: an index could name lines that nobody wrote")
            known |= e.writes
            lines |= {byte // line for byte in e.writes}
        return found

    def _planes(self, order: list[Event]) -> list[str]:
        """Weight slots and accumulator rows."""
        found = []
        loads: dict[tuple[int, int], list[Event]] = {}
        users: dict[tuple[int, int], list[Event]] = {}
        rows: dict[tuple[int, int], tuple[int, int, int, str]] = {}
        for e in order:
            i = e.i
            key = (i.unit, i.slot)
            if i.opcode == Op.LOADW:
                late = [u.at + u.beats for u in users.get(key, [])]
                late += [load.at + load.latency + load.beats for load in loads.get(key, [])]
                if any(e.at + e.latency < cycle for cycle in late):
                    found.append(f"{e.number}: reloads a slot in use")
                loads.setdefault(key, []).append(e)
            if i.opcode == Op.MATMUL:
                found += self._product(e, loads.get(key, []))
                users.setdefault(key, []).append(e)
                found += self._sums(e, rows)
        return found

    def _product(self, e: Event, loads: list[Event]) -> list[str]:
        """A product uses the load that changed its slot last, and none changes it before the product has read it."""
        i = e.i
        before = [load for load in loads if load.at + load.latency <= e.at]
        if not before:
            return [f"{e.number}: empty slot"]
        load = before[-1]
        found = []
        if e.at < load.at + load.latency + load.beats:
            found.append(f"{e.number}: weights have not arrived")
        if any(e.at < other.at + other.latency < e.at + e.beats for other in loads):
            found.append(f"{e.number}: its weights change")
        columns = load.i.count2 * max(1, load.i.blocks)
        if (load.i.count1, columns, load.i.blocks) != (i.count2, i.count3, i.blocks):
            found.append(f"{e.number}: weights of another shape")
        if load.i.offset != i.offset:
            found.append(f"{e.number}: weights with other cells on")
        mine, theirs = self._stream(i.a).dtype, self._stream(load.i.a).dtype
        if mine != theirs and {mine, theirs} != {"i8", "u8"}:
            found.append(f"{e.number}: weights of another type")
        return found

    def _sums(self, e: Event, rows: dict[tuple[int, int], tuple[int, int, int, str]]) -> list[str]:
        """``rows``: (plane, row) -> (first row, rows, columns, type) of the open sums in it."""
        i = e.i
        mine = [(i.unit, row) for row in range(i.row, i.row + i.count1)]
        shape = (i.row, i.count1, i.count3, SUMS[self._stream(i.a).dtype])
        found = []
        if i.flags & 1:
            if any(row in rows for row in mine):
                found.append(f"{e.number}: accumulator rows are in use")
        elif any(rows.get(row) != shape for row in mine):
            found.append(f"{e.number}: no such sums to continue")
        for row in mine:
            rows[row] = shape
        if i.flags & 2:
            for row in mine:
                rows.pop(row, None)
        return found

    def _outputs(self, events: list[Event]) -> list[str]:
        found = []
        for n, port in enumerate(self.b.ports, 1):
            if not port.output:
                continue
            total = 1
            for extent in port.shape:
                total *= extent
            sent = [0] * total
            for e in events:
                if e.i.opcode == Op.SEND and e.i.port == n:
                    first = e.i.offset // self._stream(e.i.a).size
                    for at in range(first, first + e.i.count1 * e.i.count2):
                        sent[at] += 1
            if any(times != 1 for times in sent):
                found.append(f"output {port.name}: not every element is sent once")
        return found


def _before(mine: Times, other: Times, ahead: int) -> bool:
    """Whether work on a line begins before other work on it, of an instruction that issues ``ahead`` cycles later, ends."""
    return any(mine[line][0] < ahead + other[line][1] for line in mine.keys() & other.keys())
