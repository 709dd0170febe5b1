"""What a valid program is, whatever the processor: references, ranges, types, order.

Sizes of a processor (memory, tiles, units) and time are the simulator's to check.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import NoReturn

import numpy as np

from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.element import SIZE
from compiler.isa.instruction import REDUCERS, Flag, Instruction, Op
from compiler.isa.machine import UNIT_CLASSES
from compiler.isa.meaning import accumulator
from compiler.isa.program import Program
from compiler.isa.stream import Stream, points
from compiler.isa.table import COMMON, TABLE, accesses

_OPERATION = {int(op) for op in Op}
_TABLES = (
    ("a", "streams"),
    ("b", "streams"),
    ("c", "streams"),
    ("d", "streams"),
    ("out", "streams"),
    ("pre", "programs"),
    ("post", "programs"),
    ("gather", "gathers"),
    ("port", "ports"),
)


# By operation: the place of its unit's class among all.
_ORDER = {int(op): UNIT_CLASSES.index(spec.unit) for op, spec in TABLE.items()}

# Positions of the fields that refer to tables, and by operation of those that it needs.
_REFERENCES = tuple((Instruction._fields.index(name), name, table) for name, table in _TABLES)
_NEEDED = {
    int(op): tuple((Instruction._fields.index(o.field), o.field) for o in spec.operands if o.required)
    for op, spec in TABLE.items()
}

# Positions of the fields that an operation must leave at 0.
_UNUSED = {
    int(op): tuple(n for n, name in enumerate(Instruction._fields) if name not in COMMON and name not in spec.fields)
    for op, spec in TABLE.items()
}


class _Refusal(Exception):
    """Why an instruction is not valid; the caller adds which one."""


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise _Refusal(message)


def check(binary: Binary) -> None:
    """``ModelError`` unless every instruction and table entry of ``binary`` is well formed."""
    _check_memory(binary)
    _check_names(binary)
    _check_lengths(binary)
    sizes = [(points(s.g0), points(s.g1), points(s.g2)) for s in binary.streams]
    if not _ordered(binary) or any(_broken(binary, kind.most, sizes) for kind in binary.kinds):
        _check_each(binary, sizes)


def _broken(binary: Binary, i: Instruction, sizes: list[tuple[int, int, int]]) -> str:
    """Which rule about single instructions one breaks; '' when none."""
    try:
        _check_fields(binary, i)
        _check_operands(binary, i, sizes)
        _CHECKS[i.opcode](binary, i)
    except _Refusal as refusal:
        return str(refusal)
    return ""


def _ordered(binary: Binary) -> bool:
    """Whether instructions are in the order of cycle, unit class and unit, with known operations and no branches (which
    are looked at one by one)."""
    records = binary.instructions
    operations, cycle = records["opcode"], records["cycle"].astype(np.int64)
    if not np.isin(operations, list(_ORDER)).all() or (operations == Op.BRANCH).any():
        return False
    places = np.zeros(256, np.int64)
    places[list(_ORDER)] = list(_ORDER.values())
    here = ((cycle << 8) + places[operations] << 8) + records["unit"]
    return bool((here[1:] >= here[:-1]).all())


def _check_each(binary: Binary, sizes: list[tuple[int, int, int]]) -> None:
    """Instruction by instruction: the first that breaks a rule is named."""
    order = (-1, -1, -1)
    for number, i in enumerate(binary.rows):
        broken = _broken(binary, i, sizes)
        if broken:
            _fail(f"instruction {number}: {broken}")
        here = (i.cycle, _ORDER[i.opcode], i.unit)
        if here < order:
            _fail(f"instruction {number}: instructions are not ordered by cycle and unit")
        if i.opcode == Op.BRANCH and number + 1 + i.count3 > len(binary.rows):
            _fail(f"instruction {number}: a branch beyond the last instruction")
        order = here


def _fail(message: str) -> NoReturn:
    raise ModelError(f"not a valid program: {message}")


def _check_memory(b: Binary) -> None:
    if len(b.constants) != b.memory.constants:
        _fail(f"{len(b.constants)} bytes of constants for a region of {b.memory.constants}")
    if b.memory.copies < 1 or b.memory.activations % b.memory.copies:
        _fail(f"{b.memory.activations} bytes of activations do not make {b.memory.copies} equal arenas")
    _check_states(b)
    for gather in b.gathers:
        for axis in gather.axes:
            if not 0 < axis.index <= len(b.streams) or b.streams[axis.index - 1].dtype[0] not in "iu":
                _fail("a gather's index is not a stream of whole numbers")


def _check_states(b: Binary) -> None:
    end = b.memory.constants + b.memory.state
    for state in b.states:
        size = SIZE[state.dtype]
        total = size * prod(state.shape)
        if len(state.initial) != total:
            _fail(f"state {state.name!r} of {total} bytes has {len(state.initial)} initial bytes")
        if state.base % size or not b.memory.constants <= state.base <= end - total:
            _fail(f"state {state.name!r} lies outside the state region")


def _check_names(b: Binary) -> None:
    for kind, names in (
        ("input", [p.name for p in b.ports if not p.output]),
        ("output", [p.name for p in b.ports if p.output]),
        ("state", [s.name for s in b.states]),
    ):
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            _fail(f"two {kind}s have the name {min(twice)!r}")


def _check_lengths(b: Binary) -> None:
    """A length is an output of its own, one whole number."""
    outputs = {p.name: p for p in b.ports if p.output}
    for port in b.ports:
        found = outputs.get(port.length)
        if port.length and (found is None or (found.dtype, found.shape) != ("i64", ())):
            _fail(f"output {port.name!r} takes its length from {port.length!r}, which is no whole number")


def _check_fields(b: Binary, i: Instruction) -> None:
    if i.opcode not in _OPERATION:
        raise _Refusal(f"there is no operation {i.opcode}")
    for place in _UNUSED[i.opcode]:
        if i[place]:
            raise _Refusal(f"{Op(i.opcode).name} does not use {Instruction._fields[place]}")
    for place, name, table in _REFERENCES:
        if i[place] and i[place] > len(getattr(b, table)):
            raise _Refusal(f"{name} refers to an entry that is not in {table}")
    for place, name in _NEEDED[i.opcode]:
        if not i[place]:
            raise _Refusal(f"{Op(i.opcode).name} needs {name}")
    _require(i.source < max(1, len(b.sources)), "its source operation is not in the table")
    _require(not i.reducer or i.reducer in REDUCERS, f"there is no reducer {i.reducer}")
    _require(min(i.count1, i.count2) > 0, "an empty range")


def _inner(role: str, i: Instruction) -> str:
    """Which operands share their ``g2``: all but the left side of a product."""
    return "K" if i.opcode == Op.MATMUL and role == "a" else "inner"


def _check_operands(b: Binary, i: Instruction, sizes: list[tuple[int, int, int]]) -> None:
    """``sizes``: points of ``g0``, ``g1`` and ``g2`` of every stream."""
    shared: dict[str, int] = {}
    for access in accesses(b, i):
        stream = b.streams[access.stream]
        batch, outer, inner = sizes[access.stream]
        if stream.g0 and i.g0 >= batch:
            raise _Refusal(f"{access.role}: batch point {i.g0} is outside its loops")
        for group, nest, total, (start, count) in (
            ("rows", stream.g1, outer, access.rows),
            (_inner(access.role, i), stream.g2, inner, access.inner),
        ):
            if nest:
                if start + count > total:
                    raise _Refusal(f"{access.role}: {start} + {count} is beyond its {total} points")
                if shared.setdefault(group, total) != total:
                    raise _Refusal(f"{access.role}: its loops are not the others'")
            elif access.write:
                _require(count == 1, "the result puts several values in one place")
        if access.write:
            _require(not stream.guards, "the result has guards")


def _types(b: Binary, i: Instruction, program: Program, roles: tuple[str, ...], value: str) -> None:
    """Every argument of ``program`` exists and has its operand's type; argument -1 has type ``value`` ('' for none)."""
    references = [getattr(i, role) for role in roles]
    present = [b.streams[r - 1] for r in references if r]
    _require(references == sorted(references, key=lambda r: not r), "an operand is missing before another")
    for step in program.steps:
        if step.op == "index":
            _require(int(step.imm or 0) < len(index_loops(b, i)), f"the program asks for loop {step.imm}")
        if step.op != "arg":
            continue
        position = int(step.imm or 0)
        _require(position < len(present), f"the program uses operand {position}, which is not given")
        dtype = present[position].dtype if position >= 0 else value
        _require(
            step.dtype == dtype, f"the program takes operand {position} as {step.dtype}, but it is {dtype or 'absent'}"
        )


def index_loops(b: Binary, i: Instruction) -> tuple[int, ...]:
    """Extents of the loops that ``index`` counts: ``g0`` and ``g1`` of the result, then ``g2`` of the first user of it."""
    streams = {access.role: b.streams[access.stream] for access in accesses(b, i)}
    out: Stream = streams["out"]
    inner = next((s.g2 for role, s in streams.items() if s.g2 and _inner(role, i) == "inner"), ())
    return tuple(loop.extent for loop in out.g0 + out.g1 + inner)


def _out(b: Binary, i: Instruction) -> Stream:
    return b.streams[i.out - 1]


def _loadw(b: Binary, i: Instruction) -> None:
    _require(bool(accumulator(b.streams[i.a - 1].dtype)), "a plane does not take weights of this type")
    run = i.blocks * i.start3
    _require(bool(i.blocks) == bool(i.start3), "blocks and the rows of a run belong together")
    _require(i.blocks != 1 and not (run and i.count1 % run), "rows that do not fall into equal blocks")
    _require(not i.offset or bool(b.streams[i.a - 1].guards), "cells that are off without a guard")
    _require(i.offset <= i.count1 * i.count2, "more cells that are on than there are")


def _matmul(b: Binary, i: Instruction) -> None:
    _require(i.count3 > 0, "an empty range")
    dtype = accumulator(b.streams[i.a - 1].dtype)
    _require(bool(dtype), "a plane does not take operands of this type")
    blocks = max(1, i.blocks)  # one block is written as 0
    even = not (i.count2 % blocks or i.count3 % blocks)
    _require(i.blocks != 1 and even, "a product that does not fall into equal blocks")
    _require(i.offset <= i.count2 * i.count3 // blocks, "more cells that are on than there are")
    if not i.flags & Flag.LAST:
        _require(not (i.b or i.c or i.d or i.out or i.post), "a product that is not the last one has no epilogue")
        return
    _require(bool(i.out), "the last product needs out")
    if i.post:
        program = b.programs[i.post - 1]
        _types(b, i, program, ("b", "c", "d"), dtype)
        dtype = program.dtype
    else:
        _require(not (i.b or i.c or i.d), "operands without a program")
    _require(_out(b, i).dtype == dtype, f"the result is {dtype}, out is {_out(b, i).dtype}")


def _vector(b: Binary, i: Instruction) -> None:
    inner = [points(b.streams[access.stream].g2) for access in accesses(b, i)]
    _require(i.start2 == 0 and (max(inner) in (1, i.count2)), "an inner range that is not whole")
    roles = ("a", "b", "c", "d")
    if i.reducer:
        _require(bool(i.pre or i.a), "nothing to reduce")
    else:
        _require(bool(i.pre) and not i.post, "without a reducer there is pre and no post")
        _require(i.count2 == 1, "without a reducer there is one inner point")
    if i.pre:
        program = b.programs[i.pre - 1]
        _types(b, i, program, roles, "")
        dtype = program.dtype
    else:
        dtype = b.streams[i.a - 1].dtype
    if i.reducer:
        logic = REDUCERS[i.reducer] in ("any", "all")
        _require(logic == (dtype == "bool"), f"{REDUCERS[i.reducer]} does not reduce {dtype}")
    if i.post:
        program = b.programs[i.post - 1]
        _types(b, i, program, roles, dtype)
        _after_reduction(b, i, program)
        dtype = program.dtype
    _require(points(_out(b, i).g2) == 1, "the result of a vector instruction has no inner loops")
    _require(_out(b, i).dtype == dtype, f"the result is {dtype}, out is {_out(b, i).dtype}")


def _after_reduction(b: Binary, i: Instruction, program: Program) -> None:
    outer = len(_out(b, i).g0) + len(_out(b, i).g1)
    for step in program.steps:
        if step.op not in ("arg", "index"):
            continue  # a literal may be anything, infinity too
        position = int(step.imm or 0)
        if step.op == "arg" and position >= 0:
            stream = b.streams[(i.a, i.b, i.c, i.d)[position] - 1]
            _require(points(stream.g2) == 1, "post uses an operand of the reduced loops")
        if step.op == "index":
            _require(position < outer, "post uses a reduced loop")


def _same_type(b: Binary, i: Instruction) -> None:
    _require(b.streams[i.a - 1].dtype == _out(b, i).dtype, "a copy does not change the element type")


def _scatter(b: Binary, i: Instruction) -> None:
    _gather(b, i)
    _require(not i.reducer or REDUCERS[i.reducer] in ("sum", "max", "min", "prod"), "SCATTER does not combine so")
    _require(not i.reducer or _out(b, i).dtype != "bool", "SCATTER does not combine truth values")


def _sort(b: Binary, i: Instruction) -> None:
    _same_type(b, i)
    _require(_out(b, i).dtype[0] in "iu", "SORT orders whole numbers")


def _gather(b: Binary, i: Instruction) -> None:
    _same_type(b, i)
    _require(bool(i.gather), f"{Op(i.opcode).name} needs gather")
    loops = len(b.streams[(i.out if i.opcode == Op.SCATTER else i.a) - 1].loops)
    for axis in b.gathers[i.gather - 1].axes:
        _require(len(axis.coefficients) == loops, "a gathered dimension does not have one coefficient per loop of a")


def _link(b: Binary, i: Instruction) -> None:
    stream = b.streams[(i.a or i.out) - 1]
    _require(bool(i.port), "a transfer needs a host tensor")
    port = b.ports[i.port - 1]
    total = SIZE[port.dtype]
    for extent in port.shape:
        total *= extent
    _require(port.output == (i.opcode == Op.SEND), "a transfer in the wrong direction")
    _require(port.dtype == stream.dtype, f"the host tensor is {port.dtype}, the stream {stream.dtype}")
    _require(i.offset % stream.size == 0, "a transfer that begins inside an element")
    _require(i.offset + i.count1 * i.count2 * stream.size <= total, "a transfer beyond the host tensor")


def _fetch(b: Binary, i: Instruction) -> None:
    size = _out(b, i).size
    _require(i.offset % size == 0, "a transfer that begins inside an element")
    _require(i.offset + i.count1 * i.count2 * size <= len(b.external), "a transfer beyond external memory")


def _branch(b: Binary, i: Instruction) -> None:
    _require((i.count1, i.count2) == (1, 1), "a branch that reads more than one condition")
    _require(not i.a or b.streams[i.a - 1].dtype == "bool", "a branch that reads no truth value")
    _require(not i.flags & ~Flag.UNLESS, "a branch with a flag of another instruction")
    _require(bool(i.a) or not i.flags, "a flag of a branch that has no condition")
    _require(not i.a or not b.exact, "a condition in a program that says that its cost is exact")


_CHECKS: dict[int, Callable[[Binary, Instruction], None]] = {
    Op.LOADW: _loadw,
    Op.MATMUL: _matmul,
    Op.VECTOR: _vector,
    Op.MOVE: _same_type,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
    Op.SORT: _sort,
    Op.RECV: _link,
    Op.SEND: _link,
    Op.FETCH: _fetch,
    Op.BRANCH: _branch,
}
