"""A second model of what instructions compute: one lane at a time, in plain Python numbers rounded by hand.

Takes the instructions in issue order and ignores time, but for the way of weights into their slots. Float32 and float16
sums and products are those of float64 rounded once more, which for + - x / is the correctly rounded result.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from compiler.isa.binary import Binary
from compiler.isa.instruction import Instruction, Op
from compiler.isa.program import Program
from compiler.isa.stream import Stream
from tests.compiler.oracle.footprint import elements, point

Number = int | float
FORMS = {
    "f64": "d",
    "f32": "f",
    "f16": "e",
    "i64": "q",
    "i32": "i",
    "i16": "h",
    "i8": "b",
    "u64": "Q",
    "u32": "I",
    "u16": "H",
    "u8": "B",
    "bool": "?",
}
BITS = {"i64": 64, "i32": 32, "i16": 16, "i8": 8, "u64": 64, "u32": 32, "u16": 16, "u8": 8}
SUMS = {"f32": "f32", "f16": "f32", "i8": "i32", "u8": "i32"}


def rounded(value: Number, dtype: str) -> Number:
    """``value`` as an element of ``dtype``: floats to even, integers wrap."""
    if dtype == "bool":
        return int(bool(value))
    if dtype in BITS:
        low = int(value) & ((1 << BITS[dtype]) - 1)
        return low - (1 << BITS[dtype]) if dtype[0] == "i" and low >> (BITS[dtype] - 1) else low
    if math.isinf(value) or math.isnan(value):
        return value
    try:
        return float(struct.unpack(FORMS[dtype], struct.pack(FORMS[dtype], value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _quotient(a: Number, b: Number) -> Number:
    if isinstance(a, int) and isinstance(b, int):
        return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def _greater(a: Number, b: Number) -> Number:
    return a if a != a or a >= b else b


def _less(a: Number, b: Number) -> Number:
    return a if a != a or a <= b else b


OPERATORS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": _quotient,
    "max": _greater,
    "min": _less,
    "neg": lambda a: -a,
    "abs": abs,
    "exp": math.exp,
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "select": lambda c, a, b: a if c else b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}
JOIN = {1: "add", 2: "max", 3: "min", 4: "mul", 5: "or", 6: "and", 7: "add"}


def _cast(value: Number, dtype: str) -> Number:
    """A float becomes an integer by truncation, saturating; everything else is rounded."""
    if dtype in BITS and isinstance(value, float):
        if value != value:
            return 0
        bits = BITS[dtype]
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype[0] == "i" else (0, (1 << bits) - 1)
        return high if value >= high else low if value <= low else int(value)
    return rounded(float(value) if dtype[0] == "f" else value, dtype)


def evaluate(program: Program, argument: Callable[[int], Number], index: Callable[[int], int]) -> Number:
    values: list[Number] = []
    for step in program.steps:
        if step.op == "arg":
            values.append(argument(int(step.imm or 0)))
        elif step.op == "const":
            assert step.imm is not None
            values.append(rounded(step.imm, step.dtype))
        elif step.op == "index":
            values.append(rounded(index(int(step.imm or 0)), step.dtype))
        elif step.op == "cast":
            values.append(_cast(values[step.args[0]], step.dtype))
        elif step.op == "nearest":
            value = values[step.args[0]]
            values.append(_cast(float(round(value)) if math.isfinite(value) else value, step.dtype))
        elif step.op == "scale":
            whole, factor = (values[a] for a in step.args)
            values.append(rounded(rounded(float(whole), step.dtype) * factor, step.dtype))
        elif step.op == "muladd":
            number, factor, addend = (values[a] for a in step.args)
            product = rounded(rounded(float(number), step.dtype) * factor, step.dtype)
            values.append(rounded(product + addend, step.dtype))
        else:
            values.append(rounded(OPERATORS[step.op](*(values[a] for a in step.args)), step.dtype))
    return values[-1]


def reduced(reducer: int, values: list[Number], dtype: str) -> Number:
    """A tree over neighbours, left to right, an odd one out joining with what changes nothing; or a chain from 0."""
    join = OPERATORS[JOIN[reducer]]
    if reducer == 7:
        total: Number = rounded(0, dtype)
        for value in values:
            total = rounded(join(total, value), dtype)
        return total
    while len(values) > 1:
        pairs = [rounded(join(a, b), dtype) for a, b in zip(values[0::2], values[1::2], strict=False)]
        values = pairs + ([values[-1]] if len(values) % 2 else [])
    return values[0]


class Lanes:
    """Memory, slots, sums and host tensors of one processor; ``way``: cycles from a LOADW's issue until its slot changes."""

    def __init__(self, binary: Binary, way: int) -> None:
        self.b = binary
        self.way = way
        self.memory = bytearray(binary.memory.total)
        self.memory[: len(binary.constants)] = binary.constants
        for state in binary.states:
            self.memory[state.base : state.base + len(state.initial)] = state.initial
        self.slots: dict[tuple[int, int], list[tuple[int, list[list[Number | None]]]]] = {}  # since when, what
        self.sums: dict[tuple[int, int], list[list[Number]]] = {}

    def run(self, inputs: dict[str, bytes]) -> dict[str, bytes]:
        """One inference: input name -> row-major bytes in, output name -> row-major bytes out."""
        self.host = {port.name: bytearray(inputs.get(port.name, b"")) for port in self.b.ports}
        for port in self.b.ports:
            if port.output:
                self.host[port.name] = bytearray(math.prod(port.shape) * struct.calcsize(FORMS[port.dtype]))
        self.slots = {}
        n = 0
        while n < len(self.b.rows):
            i = self.b.rows[n]
            n += 1
            if i.opcode == Op.BRANCH:
                n += self._skipped(i)
            else:
                getattr(self, "_" + Op(i.opcode).name.lower())(i)
        return {port.name: bytes(self.host[port.name]) for port in self.b.ports if port.output}

    def _stream(self, reference: int) -> Stream:
        return self.b.streams[reference - 1]

    def _get(self, stream: Stream, address: int | None) -> Number:
        if address is None:
            return rounded(stream.fill, stream.dtype)
        return struct.unpack_from(FORMS[stream.dtype], self.memory, address)[0]  # type: ignore[no-any-return]

    def _put(self, stream: Stream, address: int | None, value: Number) -> None:
        assert address is not None
        form = FORMS[stream.dtype]
        struct.pack_into(form, self.memory, address, bool(value) if form == "?" else value)

    def _read(
        self, reference: int, i: Instruction, rows: tuple[int, int], inner: tuple[int, int]
    ) -> list[list[Number]]:
        """Values of a piece; what does not use a group of loops is repeated along it."""
        stream = self._stream(reference)
        found = [[self._get(stream, a) for a, _ in line] for line in elements(stream, i.g0, rows, inner)]
        if not stream.g2:
            found = [line * inner[1] for line in found]
        return found if stream.g1 else [list(found[0]) for _ in range(rows[1])]

    def _write(self, i: Instruction, inner: tuple[int, int], values: list[list[Number]]) -> None:
        stream = self._stream(i.out)
        for line, row in zip(elements(stream, i.g0, (i.start1, i.count1), inner), values, strict=True):
            for (address, _), value in zip(line, row, strict=True):
                self._put(stream, address, value)

    def _index(self, i: Instruction, inner: Stream | None, row: int, column: int) -> Callable[[int], int]:
        out = self._stream(i.out)
        at = point(out.g0, i.g0) + (point(out.g1, row) if out.g1 else ())
        return (at + (point(inner.g2, column) if inner else ())).__getitem__

    def _skipped(self, i: Instruction) -> int:
        """Instructions that a branch leaves out: all it covers when its condition is false, or with ``unless`` true."""
        if not i.a:
            return i.count3
        condition = bool(self._read(i.a, i, (i.start1, 1), (i.start2, 1))[0][0])
        return i.count3 if condition == bool(i.flags & 8) else 0

    def _loadw(self, i: Instruction) -> None:
        tile: list[list[Number | None]] = []
        places = elements(self._stream(i.a), i.g0, (i.start1, i.count1), (i.start2, i.count2))
        for r, weights in enumerate(self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2))):
            block = r // i.start3 % i.blocks if i.blocks else 0
            row: list[Number | None] = [None] * (i.count2 * max(1, i.blocks))  # cells that are off
            for n, weight in enumerate(weights):
                outside = places[r if len(places) > 1 else 0][n if len(places[0]) > 1 else 0][0] is None
                row[block * i.count2 + n] = None if i.offset and outside else weight
            tile.append(row)
        self.slots.setdefault((i.unit, i.slot), []).append((i.cycle + self.way, tile))

    def _matmul(self, i: Instruction) -> None:
        a = self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2))
        weights = [tile for since, tile in self.slots[i.unit, i.slot] if since <= i.cycle][-1]
        dtype = SUMS[self._stream(i.a).dtype]
        zero = rounded(0.0 if dtype == "f32" else 0, dtype)
        sums = [[zero] * i.count3 for _ in a] if i.flags & 1 else self.sums[i.unit, i.row]
        for t, row in enumerate(a):
            for n in range(i.count3):
                for k, value in enumerate(row):
                    weight = weights[k][n]
                    if weight is None:
                        continue
                    product = rounded(value * weight, dtype)
                    sums[t][n] = rounded(sums[t][n] + product, dtype)
        self.sums[i.unit, i.row] = sums
        if i.flags & 2:
            self._epilogue(i, self.sums.pop((i.unit, i.row)))

    def _epilogue(self, i: Instruction, sums: list[list[Number]]) -> None:
        rows, inner = (i.start1, i.count1), (i.start3, i.count3)
        if i.post:
            operands = [self._read(r, i, rows, inner) for r in (i.b, i.c, i.d) if r]
            program = self.b.programs[i.post - 1]
            first = next((self._stream(r) for r in (i.b, i.c, i.d, i.out) if r and self._stream(r).g2), None)
            sums = [
                [
                    evaluate(
                        program,
                        lambda p, t=t, n=n: sums[t][n] if p < 0 else operands[p][t][n],  # type: ignore[misc]
                        self._index(i, first, i.start1 + t, i.start3 + n),
                    )
                    for n in range(i.count3)
                ]
                for t in range(i.count1)
            ]
        self._write(i, inner, sums)

    def _vector(self, i: Instruction) -> None:
        references = [r for r in (i.a, i.b, i.c, i.d) if r]
        operands = [self._read(r, i, (i.start1, i.count1), (0, i.count2)) for r in references]
        inner = next((self._stream(r) for r in references if self._stream(r).g2), None)
        results: list[list[Number]] = []
        for p in range(i.count1):
            points = []
            for r in range(i.count2):
                index = self._index(i, inner, i.start1 + p, r)
                if i.pre:
                    points.append(evaluate(self.b.programs[i.pre - 1], lambda n, p=p, r=r: operands[n][p][r], index))  # type: ignore[misc]
                else:
                    points.append(operands[0][p][r])
            dtype = self.b.programs[i.pre - 1].dtype if i.pre else self._stream(i.a).dtype
            value = reduced(i.reducer, points, dtype) if i.reducer else points[0]
            if i.post:
                index = self._index(i, None, i.start1 + p, 0)
                value = evaluate(
                    self.b.programs[i.post - 1],
                    lambda n, p=p, v=value: v if n < 0 else operands[n][p][0],  # type: ignore[misc]
                    index,
                )
            results.append([value])
        self._write(i, (0, 1), results)

    def _move(self, i: Instruction) -> None:
        self._write(i, (i.start2, i.count2), self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2)))

    def _moved(self, i: Instruction, stream: Stream) -> list[list[int | None]]:
        """Addresses of a piece whose coordinates index streams decide."""
        rows, inner = (i.start1, i.count1), (i.start2, i.count2)
        axes = self.b.gathers[i.gather - 1].axes
        indices = [self._read(axis.index, i, rows, inner) for axis in axes]
        places = []
        for r, line in enumerate(elements(stream, i.g0, rows, inner)):
            row = []
            for c, (address, at) in enumerate(line):
                place = address
                for axis, index in zip(axes, indices, strict=True):
                    affine = sum(a * b for a, b in zip(axis.coefficients, at, strict=True))
                    coordinate = axis.offset + affine + int(index[r][c])
                    coordinate += axis.extent if coordinate < 0 else 0
                    assert 0 <= coordinate < axis.extent
                    place = None if place is None else place + coordinate * axis.stride
                row.append(place)
            places.append(row)
        return places

    def _gather(self, i: Instruction) -> None:
        stream = self._stream(i.a)
        values = [[self._get(stream, place) for place in row] for row in self._moved(i, stream)]
        self._write(i, (i.start2, i.count2), values)

    def _scatter(self, i: Instruction) -> None:
        stream = self._stream(i.out)
        values = self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2))
        for row, places in zip(values, self._moved(i, stream), strict=True):
            for new, place in zip(row, places, strict=True):
                combined = OPERATORS[JOIN[i.reducer]](self._get(stream, place), new) if i.reducer else new
                self._put(stream, place, rounded(combined, stream.dtype))

    def _sort(self, i: Instruction) -> None:
        """Every number goes where as many smaller ones (and equal ones before it) stand."""
        found = []
        for row in self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2)):
            placed: list[Number] = [0] * len(row)
            for n, value in enumerate(row):
                placed[sum(other < value or (other == value and m < n) for m, other in enumerate(row))] = value
            found.append(placed)
        self._write(i, (i.start2, i.count2), found)

    def _recv(self, i: Instruction) -> None:
        stream = self._stream(i.out)
        host = self.host[self.b.ports[i.port - 1].name]
        flat = struct.unpack_from(f"<{i.count1 * i.count2}{FORMS[stream.dtype]}", host, i.offset)
        self._write(i, (i.start2, i.count2), [list(flat[r * i.count2 : (r + 1) * i.count2]) for r in range(i.count1)])

    def _fetch(self, i: Instruction) -> None:
        stream = self._stream(i.out)
        flat = struct.unpack_from(f"<{i.count1 * i.count2}{FORMS[stream.dtype]}", self.b.external, i.offset)
        self._write(i, (i.start2, i.count2), [list(flat[r * i.count2 : (r + 1) * i.count2]) for r in range(i.count1)])

    def _send(self, i: Instruction) -> None:
        stream = self._stream(i.a)
        values = self._read(i.a, i, (i.start1, i.count1), (i.start2, i.count2))
        flat = [v for row in values for v in row]
        form = f"<{len(flat)}{FORMS[stream.dtype]}"
        struct.pack_into(form, self.host[self.b.ports[i.port - 1].name], i.offset, *flat)
