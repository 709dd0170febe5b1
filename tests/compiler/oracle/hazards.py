"""Says whether a processor may run a list of instructions: every byte, every line and every cycle, one at a time.

Written from the processor's description (docs/compiler/isa.md). It knows neither the simulator nor the table's formulas:
operands, cycles and rules are spelled out here a second time, as sets of bytes and of cycles.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from compiler.isa.binary import Binary
from compiler.isa.instruction import Instruction, Op
from compiler.isa.machine import Machine
from compiler.isa.program import Program
from compiler.isa.stream import Loop, Stream
from tests.compiler.oracle.footprint import addresses, elements, fetches

CLASS = {
    1: "weights",
    2: "matrix",
    3: "vector",
    4: "move",
    5: "move",
    6: "link_in",
    7: "link_out",
    8: "move",
    9: "vector",
    12: "external",
    13: "control",
}
SUMS = {"f32": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}
WIDE = ("f64", "i64", "u64")
CHAIN = 7  # the reducer that adds in order, one lane per result
FREE = ("arg", "const", "index")
WAYS = 64  # ways through a program that are looked at
Way = list[tuple[int, int]]  # positions, and the cycles that were skipped before each


@dataclass
class Event:
    """One instruction of one inference with everything that the rules look at."""

    number: int
    i: Instruction
    at: int
    beats: int = 0
    latency: int = 0
    reads: dict[str, set[int]] = field(default_factory=dict)  # role -> bytes
    reach: set[int] = field(default_factory=set)  # further lines that an index could name
    own: set[str] = field(default_factory=set)  # operands that are the very piece that is written
    writes: set[int] = field(default_factory=set)
    scattered: set[int] = field(default_factory=set)  # lines that data may choose to write

    @property
    def unit(self) -> str:
        return f"{CLASS[self.i.opcode]}[{self.i.unit}]"


def up(a: int, b: int) -> int:
    return (a + b - 1) // b


def _work(program: Program | None, machine: Machine) -> int:
    return sum(machine.passes.get(s.op, 1) for s in program.steps if s.op not in FREE) if program else 0


class Oracle:
    """Rules for one program on one machine; ``violations`` lists every broken one of the given inferences."""

    def __init__(self, binary: Binary, machine: Machine) -> None:
        self.b = binary
        self.m = machine

    def violations(self, inferences: int = 1) -> list[str]:
        try:
            events = [self._event(n, i, i.cycle) for n, i in enumerate(self.b.rows)]
        except _Broken as broken:
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

        reads = {role: up_by(touched, 1) for role, touched in e.reads.items()}
        return Event(e.number, e.i, at, e.beats, e.latency, reads, up_by(e.reach, line), e.own, up_by(e.writes, 1),
                     up_by(e.scattered, line))  # fmt: skip

    def _whole(self, number: int, role: str, lines: set[int]) -> None:
        """With several arenas an operand lies in the first one or in none."""
        m, line = self.b.memory, self.m.line_bytes
        arenas = range((m.constants + m.state) // line, (m.constants + m.state + m.activations) // line)
        mine = set(arenas[: len(arenas) // m.copies])
        if m.copies > 1 and lines & set(arenas) and not lines <= mine:
            raise _Broken(f"{number}: {role} does not keep to the arena of its inference")

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

    # one instruction

    def _stream(self, reference: int) -> Stream:
        return self.b.streams[reference - 1]

    def _operands(self, i: Instruction) -> list[tuple[str, Stream, tuple[int, int], tuple[int, int]]]:
        one, two, three, none = (i.start1, i.count1), (i.start2, i.count2), (i.start3, i.count3), (0, 1)
        inner = {Op.MATMUL: three, Op.VECTOR: two}.get(Op(i.opcode), two)
        found = []
        for role in ("a", "b", "c", "d"):
            if getattr(i, role):
                mine = two if role == "a" else inner
                found.append((role, self._stream(getattr(i, role)), one, mine))
        if i.gather:
            for n, axis in enumerate(self.b.gathers[i.gather - 1].axes):
                found.append((f"index{n}", self._stream(axis.index), one, two))
        if i.out:
            found.append(("out", self._stream(i.out), one, none if i.opcode == Op.VECTOR else inner))
        return found

    def _event(self, number: int, i: Instruction, at: int) -> Event:
        e = Event(number, i, at)
        self._sizes(i)
        operands = self._operands(i)
        pieces = {}
        for role, stream, rows, inner in operands:
            places = addresses(stream, i.g0, rows, inner)
            touched = {p + k for p in places for k in range(stream.size)}
            if touched and (min(touched) < 0 or max(touched) >= self.b.memory.total):
                raise _Broken(f"{number}: {role} leaves memory")
            pieces[role] = (stream, i.g0 if stream.g0 else 0, rows if stream.g1 else 0, inner if stream.g2 else 0)
            if role == "out" and i.opcode == Op.SCATTER:  # reads, changes and writes any line that an index could name
                e.reach = e.scattered = self._reach(i, stream, rows, inner)
                e.own.add("reach")
                if any(line * self.m.line_bytes < self.b.memory.constants for line in e.reach):
                    raise _Broken(f"{number}: writes constants")
            elif role == "out":
                if len(set(places)) < len(places):
                    raise _Broken(f"{number}: two results in one place")
                if any(p < self.b.memory.constants for p in places):
                    raise _Broken(f"{number}: writes constants")
                e.writes = touched
            elif i.opcode == Op.GATHER and role == "a":
                e.reach = self._reach(i, stream, rows, inner)
            else:
                e.reads[role] = touched
            by_data = (i.opcode, role) in ((Op.GATHER, "a"), (Op.SCATTER, "out"))
            self._whole(number, role, e.reach if by_data else {byte // self.m.line_bytes for byte in touched})
        e.own |= {role for role in e.reads if pieces[role] == pieces.get("out")}
        e.beats, e.latency = self._cycles(i, operands)
        return e

    def _reach(self, i: Instruction, stream: Stream, rows: tuple[int, int], inner: tuple[int, int]) -> set[int]:
        """Lines of every address that the affine part and any coordinates can give."""
        places = {
            stream.base + sum(loop.stride * c for loop, c in zip(stream.loops, at, strict=True))
            for line in elements(stream, i.g0, rows, inner)
            for _, at in line
        }
        for axis in self.b.gathers[i.gather - 1].axes:
            places = {p + c * axis.stride for p in places for c in range(axis.extent)}
        if min(places) < 0 or max(places) + stream.size > self.b.memory.total:
            raise _Broken("an index could leave memory")
        return {byte // self.m.line_bytes for p in places for byte in (p, p + stream.size - 1)}

    def _sizes(self, i: Instruction) -> None:
        unit = self.m.unit(CLASS[i.opcode])
        if i.unit >= unit.instances:
            raise _Broken("no such unit")
        if i.opcode in (Op.LOADW, Op.MATMUL):
            tile = self.m.matrix.tiles.get(self._stream(i.a).dtype)
            k, n = (i.count1, i.count2 * max(1, i.blocks)) if i.opcode == Op.LOADW else (i.count2, i.count3)
            lowest = min(
                addresses(self._stream(i.a), i.g0, (i.start1, i.count1), (i.start2, i.count2)), default=1 << 60
            )
            if self.m.external.all_weights and lowest < self.b.memory.constants:
                raise _Broken("a factor of a plane in the constants")
            if tile is None or k > tile[0] or n > tile[1] or i.slot >= self.m.matrix.slots:
                raise _Broken("not a tile of the plane")
            if i.opcode == Op.MATMUL and i.row + i.count1 > self.m.matrix.accumulator_rows:
                raise _Broken("not so many accumulator rows")
            return
        amount = i.count1 * i.count2
        if i.opcode in (Op.RECV, Op.SEND, Op.FETCH):
            amount *= self._stream(i.a or i.out).size
        run = 1
        while 2 * run <= 8 * self.m.vector.lanes:
            run *= 2
        if i.opcode == Op.SORT and i.count2 > run:
            raise _Broken("more numbers than the network orders")
        if i.opcode != Op.BRANCH and amount > unit.tile:
            raise _Broken("more than a tile")

    def _cycles(
        self, i: Instruction, operands: list[tuple[str, Stream, tuple[int, int], tuple[int, int]]]
    ) -> tuple[int, int]:
        unit = self.m.unit(CLASS[i.opcode])
        waits = [1]
        last = bool(i.flags & 2)
        for role, stream, rows, inner in operands:
            if role == "out" and i.opcode == Op.MATMUL and not last:
                continue
            moved = (i.opcode, role) in ((Op.GATHER, "a"), (Op.SCATTER, "out"))
            counted = self._scattered(i, stream) if moved else stream
            port = "index" if role.startswith("index") else role
            waits.append(up(fetches(counted, rows, inner, self.m.line_bytes), unit.ports[port]))
        latency = unit.latency
        pre = self.b.programs[i.pre - 1] if i.pre else None
        post = self.b.programs[i.post - 1] if i.post else None
        if i.opcode == Op.LOADW:
            waits.append(up(i.count1 * i.count2 * self._stream(i.a).size, self.m.weights.bytes_per_cycle))
        elif i.opcode == Op.MATMUL:
            waits.append(i.count1 * max(1, up(_work(post, self.m), self.m.matrix.alus) if last else 1))
        elif i.opcode == Op.VECTOR:
            types = [stream.dtype for _, stream, _, _ in operands]
            types += [s.dtype for program in (pre, post) if program for s in program.steps]
            lanes = self.m.vector.lanes // (2 if any(t in WIDE for t in types) else 1)
            per = max(1, up(_work(pre, self.m) + (1 if i.reducer else 0), self.m.vector.alus))
            after = up(_work(post, self.m), self.m.vector.alus)
            chain = i.reducer == CHAIN
            filled = up(i.count1, lanes) * i.count2 if chain else up(i.count1 * i.count2, lanes)
            waits.append(filled * per + up(i.count1, lanes) * after)
            levels = 0
            while i.reducer and not chain and 2**levels < i.count2:
                levels += 1
            latency += levels
        elif i.opcode in (Op.SCATTER, Op.SORT):
            waits.append(self._ordered(i))
        elif i.opcode in (Op.RECV, Op.SEND, Op.FETCH):
            link = {Op.RECV: self.m.link_in, Op.SEND: self.m.link_out, Op.FETCH: self.m.external}[Op(i.opcode)]
            waits.append(up(i.count1 * i.count2 * self._stream(i.a or i.out).size, link.bytes_per_cycle))
        return max(waits), latency

    def _ordered(self, i: Instruction) -> int:
        """A scattered sum takes an element per cycle, each may need the one before; a sort its stages over all lanes."""
        if i.opcode == Op.SCATTER:
            return i.count1 * i.count2 if i.reducer else 1
        lanes = self.m.vector.lanes // (2 if self._stream(i.a).dtype in WIDE else 1)
        levels = 0
        while 2**levels < i.count2:
            levels += 1
        return up(i.count1 * 2**levels, lanes) * (levels * (levels + 1) // 2)

    def _scattered(self, i: Instruction, stream: Stream) -> Stream:
        """What data moves, along a group that data moves: every point a fetch of its own."""
        moved = [False, False]
        cut = (len(stream.g0), len(stream.g0) + len(stream.g1))
        for axis in self.b.gathers[i.gather - 1].axes:
            index = self._stream(axis.index)
            moved[0] |= any(axis.coefficients[cut[0] : cut[1]]) or any(loop.stride for loop in index.g1)
            moved[1] |= any(axis.coefficients[cut[1] :]) or any(loop.stride for loop in index.g2)
        nests = []
        for nest, apart in ((stream.g1, moved[0]), (stream.g2, moved[1])):
            total = 1
            for loop in nest:
                total *= loop.extent
            nests.append((Loop(total, 10**15),) if apart and nest else nest)
        return Stream(stream.dtype, 0, (), nests[0], nests[1])

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

    def _line_sets(self, e: Event) -> tuple[dict[str, set[int]], set[int]]:
        line = self.m.line_bytes
        reads = {role: {byte // line for byte in touched} for role, touched in e.reads.items()}
        if e.reach:
            reads["reach"] = e.reach
        return reads, {byte // line for byte in e.writes} | e.scattered

    def _lines(self, order: list[Event]) -> list[str]:
        """Every pair of instructions that meet in a line, in issue order."""
        found = []
        cached = [self._line_sets(e) for e in order]
        for n, later in enumerate(order):
            reads, writes = cached[n]
            begin = later.at + later.latency
            for role, lines in reads.items():
                if role not in later.own and lines & writes and begin < later.at + later.beats:
                    found.append(f"{later.number}: overwrites its own operand {role}")
            for earlier, (before_reads, before_writes) in zip(order[:n], cached[:n], strict=True):
                end = earlier.at + earlier.latency + earlier.beats
                if later.at < end and any(lines & before_writes for lines in reads.values()):
                    found.append(f"{later.number}: reads at {later.at} what {earlier.number} completes at {end}")
                if begin < end and writes & before_writes:
                    found.append(f"{later.number}: writes at {begin} what {earlier.number} completes at {end}")
                if begin < earlier.at + earlier.beats and any(lines & writes for lines in before_reads.values()):
                    found.append(f"{later.number}: writes at {begin} what {earlier.number} still reads")
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
        slots: dict[tuple[int, int], tuple[Event, list[Event]]] = {}
        rows: dict[tuple[int, int], tuple[int, int, int, str]] = {}
        for e in order:
            i = e.i
            key = (i.unit, i.slot)
            if i.opcode == Op.LOADW:
                if key in slots:
                    loader, users = slots[key]
                    late = [u.at + u.beats for u in users] + [loader.at + loader.latency + loader.beats]
                    if any(e.at + e.latency < cycle for cycle in late):
                        found.append(f"{e.number}: reloads a slot in use")
                slots[key] = (e, [])
            if i.opcode == Op.MATMUL:
                found += self._product(e, slots.get(key))
                if key in slots:
                    slots[key][1].append(e)
                found += self._sums(e, rows)
        return found

    def _product(self, e: Event, slot: tuple[Event, list[Event]] | None) -> list[str]:
        i = e.i
        if slot is None:
            return [f"{e.number}: empty slot"]
        load = slot[0]
        found = []
        if e.at < load.at + load.latency + load.beats:
            found.append(f"{e.number}: weights have not arrived")
        columns = load.i.count2 * max(1, load.i.blocks)
        if (load.i.count1, columns, load.i.blocks) != (i.count2, i.count3, i.blocks):
            found.append(f"{e.number}: weights of another shape")
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


class _Broken(Exception):
    """An instruction that is illegal by itself."""
