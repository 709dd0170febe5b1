"""Bytes of the tables: a writer, a reader that trusts nothing, and the form of each entry.

Everything is little-endian. The reader answers every malformed input with ``ModelError``; it never allocates more than a
small multiple of the bytes it is given.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

import numpy as np

from compiler.errors import ModelError
from compiler.isa.element import ELEMENTS, NUMBER, NUMPY, SIZE
from compiler.isa.program import Program, Step
from compiler.isa.stream import Gather, GatherAxis, Guard, Loop, Nest, Stream
from compiler.isa.tables import Port
from compiler.numerics.scalar import CODES, NAMES, SCALAR, check

T = TypeVar("T")
MAX_LOOPS: Final = 16  # per group
MAX_STEPS: Final = 4096
LIMIT: Final = 1 << 40  # no address, stride or offset is as large


class Writer:
    """Collects bytes."""

    def __init__(self) -> None:
        self.parts: list[bytes | memoryview] = []

    def pack(self, form: str, *values: Any) -> None:
        self.parts.append(struct.pack("<" + form, *values))

    def blob(self, data: bytes) -> None:
        self.pack("Q", len(data))
        self.parts.append(data)

    def text(self, text: str) -> None:
        self.blob(text.encode())

    def many(self, items: Any, write: Callable[[Writer, Any], None]) -> None:
        entries = list(items)
        self.pack("I", len(entries))
        for entry in entries:
            write(self, entry)

    @property
    def data(self) -> bytes:
        return b"".join(self.parts)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


class Reader:
    """Takes bytes apart; every step checks that they are there."""

    def __init__(self, data: bytes | memoryview, what: str = "binary") -> None:
        self.data = memoryview(data)
        self.at = 0
        self.what = what

    def fail(self, message: str) -> NoReturn:
        raise ModelError(f"not a valid program: {self.what}: {message}")

    def require(self, condition: bool, message: str) -> None:
        if not condition:
            self.fail(message)

    def take(self, count: int) -> memoryview:
        if count > len(self.data) - self.at:
            self.fail(f"it ends after {len(self.data)} bytes where {count} more were expected at {self.at}")
        self.at += count
        return self.data[self.at - count : self.at]

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def one(self, form: str) -> Any:
        return self.unpack(form)[0]

    def blob(self) -> bytes:
        return bytes(self.take(self.one("Q")))

    def text(self) -> str:
        try:
            return str(self.blob(), "utf-8")
        except UnicodeDecodeError:
            self.fail("a name is not valid text")

    def many(self, read: Callable[[Reader], T], most: int | None = None) -> tuple[T, ...]:
        count = self.one("I")
        if most is not None and count > most:
            self.fail(f"{count} entries where at most {most} are allowed")
        return tuple(read(self) for _ in range(count))

    def end(self) -> None:
        self.require(self.at == len(self.data), f"{len(self.data) - self.at} bytes too many")


def _small(r: Reader, value: int, what: str) -> int:
    r.require(-LIMIT < value < LIMIT, f"{what} {value} is out of range")
    return value


def write_dtype(w: Writer, dtype: str) -> None:
    w.pack("B", NUMBER[dtype])


def read_dtype(r: Reader) -> str:
    number = r.one("B")
    r.require(number < len(ELEMENTS), f"there is no element type {number}")
    return str(ELEMENTS[number])


def _write_loop(w: Writer, loop: Loop) -> None:
    w.pack("Iq", loop.extent, loop.stride)


def _read_nest(r: Reader, size: int) -> Nest:
    def loop(r: Reader) -> Loop:
        extent, stride = r.unpack("Iq")
        r.require(extent > 0, "a loop has no steps")
        _small(r, stride, "stride")
        r.require(stride % size == 0, f"a stride of {stride} bytes is not a multiple of the element's {size}")
        return Loop(extent, stride)

    return r.many(loop, MAX_LOOPS)


def _write_guard(w: Writer, guard: Guard) -> None:
    w.pack("Iq", guard.extent, guard.offset)
    w.many(guard.coefficients, lambda w, c: w.pack("q", c))


def _read_guard(r: Reader) -> Guard:
    extent, offset = r.unpack("Iq")
    _small(r, offset, "guard offset")
    return Guard(extent, offset, r.many(lambda r: _small(r, r.one("q"), "guard coefficient"), 3 * MAX_LOOPS))


def value_bytes(value: float, dtype: str) -> bytes:
    """A value of an element type as 8 bytes."""
    return np.array(value, NUMPY[dtype]).tobytes().ljust(8, b"\0")


def _read_value(r: Reader, data: bytes, dtype: str) -> int | float:
    """The value in 8 bytes; one that would be written otherwise (a truth value of 2, an odd NaN) is refused."""
    item = np.frombuffer(data[: SIZE[dtype]], NUMPY[dtype])[0].item()
    value: int | float = int(item) if dtype == "bool" else item
    r.require(value_bytes(value, dtype) == data, f"a literal is not a plain {dtype}")
    return value


def write_stream(w: Writer, stream: Stream) -> None:
    write_dtype(w, stream.dtype)
    w.pack("q", stream.base)
    for nest in (stream.g0, stream.g1, stream.g2):
        w.many(nest, _write_loop)
    w.many(stream.guards, _write_guard)
    w.parts.append(value_bytes(stream.fill, stream.dtype))


def read_stream(r: Reader) -> Stream:
    dtype = read_dtype(r)
    size = SIZE[dtype]
    base = _small(r, r.one("q"), "base address")
    r.require(base % size == 0, f"base address {base} is not a multiple of the element's {size} bytes")
    g0, g1, g2 = (_read_nest(r, size) for _ in range(3))
    guards = r.many(_read_guard, MAX_LOOPS)
    loops = len(g0) + len(g1) + len(g2)
    r.require(all(len(g.coefficients) == loops for g in guards), "a guard does not have one coefficient per loop")
    fill = bytes(r.take(8))
    return Stream(dtype, base, g0, g1, g2, guards, _read_value(r, fill, dtype))


def _write_step(w: Writer, step: Step) -> None:
    w.pack("H", CODES[step.op])
    write_dtype(w, step.dtype)
    w.many(step.args, lambda w, a: w.pack("H", a))
    if step.op == "const":
        assert step.imm is not None
        w.parts.append(value_bytes(step.imm, step.dtype))
    elif step.op in ("arg", "index"):
        w.pack("q", step.imm)


def _read_step(r: Reader, earlier: list[Step]) -> Step:
    name = NAMES.get(r.one("H"), "")
    r.require(bool(name), "a step's operator is not known")
    dtype = read_dtype(r)
    args = r.many(lambda r: int(r.one("H")), 8)
    r.require(all(a < len(earlier) for a in args), "a step uses a later one")
    imm: int | float | None = None
    if name in SCALAR:
        problem = check(name, [NUMPY[earlier[a].dtype] for a in args], NUMPY[dtype])
        r.require(problem is None, str(problem))
        return Step(name, args, dtype, None)
    r.require(not args, f"{name} takes no arguments")
    if name == "const":
        imm = _read_value(r, bytes(r.take(8)), dtype)
    else:
        imm = r.one("q")
        low, high = (-1, 4) if name == "arg" else (0, 3 * MAX_LOOPS)
        r.require(low <= imm < high, f"{name} {imm} does not exist")
    return Step(name, args, dtype, imm)


def write_program(w: Writer, program: Program) -> None:
    w.many(program.steps, _write_step)


def read_program(r: Reader) -> Program:
    steps: list[Step] = []
    count = r.one("I")
    r.require(0 < count <= MAX_STEPS, f"a scalar program of {count} steps; 1 to {MAX_STEPS} are allowed")
    for _ in range(count):
        steps.append(_read_step(r, steps))
    return Program(tuple(steps))


def _write_axis(w: Writer, axis: GatherAxis) -> None:
    w.pack("IIqq", axis.index, axis.extent, axis.stride, axis.offset)
    w.many(axis.coefficients, lambda w, c: w.pack("q", c))


def _read_axis(r: Reader) -> GatherAxis:
    index, extent, stride, offset = r.unpack("IIqq")
    r.require(extent > 0, "a gathered dimension is empty")
    _small(r, stride, "stride")
    _small(r, offset, "offset")
    return GatherAxis(
        index, extent, stride, offset, r.many(lambda r: _small(r, r.one("q"), "coefficient"), 3 * MAX_LOOPS)
    )


def write_gather(w: Writer, gather: Gather) -> None:
    w.many(gather.axes, _write_axis)


def read_gather(r: Reader) -> Gather:
    axes = r.many(_read_axis, MAX_LOOPS)
    r.require(bool(axes), "a gather has no index")
    return Gather(axes)


def write_port(w: Writer, port: Port) -> None:
    w.text(port.name)
    write_dtype(w, port.dtype)
    w.many(port.shape, lambda w, n: w.pack("Q", n))
    w.pack("?", port.output)
    w.text(port.host)
    w.pack("fi", port.scale, port.zero)
    w.pack("I", port.axis)
    w.text(port.length)


def read_port(r: Reader) -> Port:
    name, dtype = r.text(), read_dtype(r)
    shape = r.many(lambda r: int(r.one("Q")), 64)
    elements = 1
    for extent in shape:
        r.require(extent < LIMIT, f"tensor {name!r} is too large")
        elements *= extent
        r.require(elements < LIMIT, f"tensor {name!r} is too large")
    output = r.one("B")
    r.require(output < 2, "a direction is neither in nor out")
    host = r.text()
    r.require(host in ("", "f32", "f64"), f"the host has no tensors of {host!r}")
    scale, zero = r.unpack("fi")
    r.require(scale > 0.0 and scale < float("inf"), f"tensor {name!r} has no scale")
    r.require(bool(host) or (scale == 1.0 and zero == 0), f"tensor {name!r} is converted from nothing")
    axis, length = r.one("I"), r.text()
    r.require(axis < max(1, len(shape)) and (bool(length) or axis == 0), f"tensor {name!r} has no axis {axis}")
    r.require(not length or (bool(output) and bool(shape)), f"tensor {name!r} has no length")
    return Port(name, dtype, shape, bool(output), host, scale, zero, axis, length)


def _bytes(write: Callable[[Writer, T], None], entry: T) -> bytes:
    w = Writer()
    write(w, entry)
    return w.data


def stream_bytes(stream: Stream) -> bytes:
    return _bytes(write_stream, stream)


def program_bytes(program: Program) -> bytes:
    return _bytes(write_program, program)


def gather_bytes(gather: Gather) -> bytes:
    return _bytes(write_gather, gather)
