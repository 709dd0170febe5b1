"""One instruction as the rules see it: its bytes, its cycles, and when it touches which line, item by item.

Written from the processor's description (docs/compiler/isa.md), without the simulator and the table's formulas.
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
WIDE = ("f64", "i64", "u64")
CHAIN = 7  # the reducer that adds in order, one lane per result
FREE = ("arg", "const", "index")
ROWS = (Op.LOADW, Op.MATMUL, Op.VECTOR)  # an item is a row (a vector's: the rows that fill the lanes)
POINTS = (Op.MOVE, Op.RECV, Op.SEND, Op.FETCH)  # an item is an element; a gather's too, where it writes
Times = dict[int, tuple[int, int]]  # line -> first cycle and end of the work on it, counted from the issue
Operands = list[tuple[str, Stream, tuple[int, int], tuple[int, int]]]


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
    read_at: dict[str, Times] = field(default_factory=dict)  # role -> when it is read
    write_at: Times = field(default_factory=dict)

    @property
    def unit(self) -> str:
        return f"{CLASS[self.i.opcode]}[{self.i.unit}]"


def up(a: int, b: int) -> int:
    return (a + b - 1) // b


def _work(program: Program | None, machine: Machine) -> int:
    return sum(machine.passes.get(s.op, 1) for s in program.steps if s.op not in FREE) if program else 0


class Reader:
    """Makes events of instructions; ``Broken`` when one is illegal by itself."""

    def __init__(self, binary: Binary, machine: Machine) -> None:
        self.b = binary
        self.m = machine

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

    def event(self, number: int, i: Instruction, at: int) -> Event:
        e = Event(number, i, at)
        self._sizes(i)
        operands = self._operands(i)
        pieces = {}
        for role, stream, rows, inner in operands:
            places = addresses(stream, i.g0, rows, inner)
            touched = {p + k for p in places for k in range(stream.size)}
            if touched and (min(touched) < 0 or max(touched) >= self.b.memory.total):
                raise Broken(f"{number}: {role} leaves memory")
            self._cells(number, i, stream, len(places))
            pieces[role] = (stream, i.g0 if stream.g0 else 0, rows if stream.g1 else 0, inner if stream.g2 else 0)
            if role == "out" and i.opcode == Op.SCATTER:  # reads, changes and writes any line that an index could name
                e.reach = e.scattered = self._reach(i, stream, rows, inner)
                e.own.add("reach")
                if any(line * self.m.line_bytes < self.b.memory.constants for line in e.reach):
                    raise Broken(f"{number}: writes constants")
            elif role == "out":
                if len(set(places)) < len(places):
                    raise Broken(f"{number}: two results in one place")
                if any(p < self.b.memory.constants for p in places):
                    raise Broken(f"{number}: writes constants")
                e.writes = touched
            elif i.opcode == Op.GATHER and role == "a":
                e.reach = self._reach(i, stream, rows, inner)
            else:
                e.reads[role] = touched
            by_data = (i.opcode, role) in ((Op.GATHER, "a"), (Op.SCATTER, "out"))
            self._whole(number, role, e.reach if by_data else {byte // self.m.line_bytes for byte in touched})
        e.own |= {role for role in e.reads if pieces[role] == pieces.get("out")}
        e.beats, e.latency = self._cycles(i, operands)
        self._touch(e, operands)
        return e

    def _cells(self, number: int, i: Instruction, stream: Stream, places: int) -> None:
        """Weights say how many of their cells are on, where guards switch the others off."""
        if i.opcode == Op.LOADW and i.offset:
            on = places * (1 if stream.g1 else i.count1) * (1 if stream.g2 else i.count2)
            if not stream.guards or on != i.offset:
                raise Broken(f"{number}: {on} cells are on")

    def _touch(self, e: Event, operands: Operands) -> None:
        """When the instruction works on its lines; where data decides about them, all the time."""
        for role, stream, rows, inner in operands:
            if role in e.reads:
                e.read_at[role] = self._times(e, role, stream, rows, inner)
            elif role == "out" and not e.scattered:
                e.write_at = self._times(e, role, stream, rows, inner)
        if e.reach:
            e.read_at["reach"] = dict.fromkeys(e.reach, (0, e.beats))
        if e.scattered:
            e.write_at = dict.fromkeys(e.scattered, (e.latency, e.latency + e.beats))

    def _times(self, e: Event, role: str, stream: Stream, rows: tuple[int, int], inner: tuple[int, int]) -> Times:
        """When each line is worked on: from the first item that has a byte in it to the end of the last."""
        i, line = e.i, self.m.line_bytes
        late = e.latency if role == "out" else 0
        items, by_row, by_column = self._items(i, role)
        group = self._group(i) if i.opcode == Op.VECTOR else 1
        items = up(items, group)
        table = elements(stream, i.g0, rows, inner)
        times: Times = {}
        for r in range(rows[1]):
            for c in range(inner[1]):
                place = table[r if stream.g1 else 0][c if stream.g2 else 0][0]
                if place is None:
                    continue
                item = (r * by_row + c * by_column) // group
                begin, end = late + item * e.beats // items, late + up((item + 1) * e.beats, items)
                for at in {place // line, (place + stream.size - 1) // line}:
                    old = times.get(at, (begin, end))
                    times[at] = (min(begin, old[0]), max(end, old[1]))
        return times

    def _items(self, i: Instruction, role: str) -> tuple[int, int, int]:
        """How many items the instruction takes one after another; what each row and each column
        lies behind the one before."""
        if i.opcode in POINTS or (i.opcode == Op.GATHER and role == "out"):
            return i.count1 * i.count2, i.count2, 1
        if i.opcode in ROWS:
            return i.count1, 1, 0
        return 1, 0, 0

    def _group(self, i: Instruction) -> int:
        """Rows that a vector's lanes take together."""
        width = self._lanes(i, self._operands(i))
        return max(1, width // i.count2) if i.reducer and i.reducer != CHAIN else width

    def _lanes(self, i: Instruction, operands: Operands) -> int:
        """Elements per cycle: half as many where anything is 8 bytes wide."""
        types = [stream.dtype for _, stream, _, _ in operands]
        for program in (self.b.programs[reference - 1] for reference in (i.pre, i.post) if reference):
            types += [s.dtype for s in program.steps]
        return self.m.vector.lanes // (2 if any(t in WIDE for t in types) else 1)

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
            raise Broken("an index could leave memory")
        return {byte // self.m.line_bytes for p in places for byte in (p, p + stream.size - 1)}

    def _sizes(self, i: Instruction) -> None:
        unit = self.m.unit(CLASS[i.opcode])
        if i.unit >= unit.instances:
            raise Broken("no such unit")
        if i.opcode in (Op.LOADW, Op.MATMUL):
            tile = self.m.matrix.tiles.get(self._stream(i.a).dtype)
            k, n = (i.count1, i.count2 * max(1, i.blocks)) if i.opcode == Op.LOADW else (i.count2, i.count3)
            lowest = min(
                addresses(self._stream(i.a), i.g0, (i.start1, i.count1), (i.start2, i.count2)), default=1 << 60
            )
            if self.m.external.all_weights and lowest < self.b.memory.constants:
                raise Broken("a factor of a plane in the constants")
            if tile is None or k > tile[0] or n > tile[1] or i.slot >= self.m.matrix.slots:
                raise Broken("not a tile of the plane")
            if i.opcode == Op.MATMUL and i.row + i.count1 > self.m.matrix.accumulator_rows:
                raise Broken("not so many accumulator rows")
            return
        amount = i.count1 * i.count2
        if i.opcode in (Op.RECV, Op.SEND, Op.FETCH):
            amount *= self._stream(i.a or i.out).size
        run = 1
        while 2 * run <= 8 * self.m.vector.lanes:
            run *= 2
        if i.opcode == Op.SORT and i.count2 > run:
            raise Broken("more numbers than the network orders")
        if i.opcode != Op.BRANCH and amount > unit.tile:
            raise Broken("more than a tile")

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
            lanes = self._lanes(i, operands)
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

    def _whole(self, number: int, role: str, lines: set[int]) -> None:
        """With several arenas an operand lies in the first one or in none."""
        m, line = self.b.memory, self.m.line_bytes
        arenas = range((m.constants + m.state) // line, (m.constants + m.state + m.activations) // line)
        mine = set(arenas[: len(arenas) // m.copies])
        if m.copies > 1 and lines & set(arenas) and not lines <= mine:
            raise Broken(f"{number}: {role} does not keep to the arena of its inference")


class Broken(Exception):
    """An instruction that is illegal by itself."""
