"""Seeded damage to a program: a field of an instruction, of a table or of the header; an instruction too many or too few."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from compiler import targets
from compiler.isa.binary import Binary
from compiler.isa.instruction import FIELDS, REDUCERS, Instruction, Op, pack
from compiler.isa.machine import UNIT_CLASSES
from compiler.isa.table import TABLE

Rng = np.random.Generator
Damage = tuple[str, Binary]


def _pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def ordered(binary: Binary, rows: Iterable[Instruction]) -> Binary:
    """``rows`` in issue order, as far as they are instructions at all."""
    order = sorted(rows, key=lambda i: (i.cycle, UNIT_CLASSES.index(TABLE[Op(i.opcode)].unit), i.unit))
    return replace(binary, instructions=pack(order))


def _change(binary: Binary, n: int, **fields: int) -> Binary:
    rows = list(binary.rows)
    rows[n] = rows[n]._replace(**fields)
    return ordered(binary, rows)


def shift_cycle(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    by = int(_pick(rng, (-200, -40, -20, -13, -5, -2, -1, 1, 2, 5, 13, 20, 40, 200)))
    return f"{n}: cycle {by:+d}", _change(b, n, cycle=max(0, b.rows[n].cycle + by))


def swap_cycles(rng: Rng, b: Binary) -> Damage:
    n, m = (int(k) for k in rng.choice(len(b.rows), 2, replace=False))
    rows = list(b.rows)
    rows[n], rows[m] = rows[n]._replace(cycle=rows[m].cycle), rows[m]._replace(cycle=rows[n].cycle)
    return f"{n} and {m}: cycles swapped", ordered(b, rows)


def pull_forward(rng: Rng, b: Binary) -> Damage:
    """Everything from one instruction on, earlier by a few cycles."""
    n, by = int(rng.integers(1, len(b.rows))), int(rng.integers(1, 30))
    at = b.rows[n].cycle
    rows = [i if i.cycle < at else i._replace(cycle=max(0, i.cycle - by)) for i in b.rows]
    return f"from {n} on: {by} cycles earlier", ordered(b, rows)


def other_place(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    name = _pick(rng, ("unit", "slot", "row", "g0"))
    value = int(_pick(rng, (0, 1, 2, 3, 7)))
    return f"{n}: {name} = {value}", _change(b, n, **{name: value})


def other_range(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    name = _pick(rng, ("start1", "count1", "start2", "count2", "start3", "count3"))
    value = max(0, getattr(b.rows[n], name) + int(_pick(rng, (-2, -1, 1, 2))))
    return f"{n}: {name} = {value}", _change(b, n, **{name: value})


def other_reference(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    name = _pick(rng, ("a", "b", "c", "out", "pre", "post", "gather", "port"))
    table = {"pre": b.programs, "post": b.programs, "gather": b.gathers, "port": b.ports}.get(name, b.streams)
    value = int(rng.integers(0, len(table) + 1))
    return f"{n}: {name} = {value}", _change(b, n, **{name: value})


def other_flags(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    if b.rows[n].reducer:
        return f"{n}: reducer", _change(b, n, reducer=int(_pick(rng, sorted(REDUCERS))))
    return f"{n}: flags", _change(b, n, flags=b.rows[n].flags ^ int(_pick(rng, (1, 2, 3, 8))))


def other_offset(rng: Rng, b: Binary) -> Damage:
    links = [n for n, i in enumerate(b.rows) if i.offset or i.opcode in (Op.RECV, Op.SEND, Op.FETCH)]
    n = int(_pick(rng, links))
    value = max(0, b.rows[n].offset + int(_pick(rng, (-8, -4, 4, 8, 40))))
    return f"{n}: offset = {value}", _change(b, n, offset=value)


def fewer(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    return f"{n}: removed", ordered(b, [i for m, i in enumerate(b.rows) if m != n])


def twice(rng: Rng, b: Binary) -> Damage:
    n, by = int(rng.integers(len(b.rows))), int(_pick(rng, (0, 1, 30, 1000)))
    return f"{n}: again {by} later", ordered(b, [*b.rows, b.rows[n]._replace(cycle=b.rows[n].cycle + by)])


def other_stream(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.streams)))
    s = b.streams[n]
    loops = ("stride", "extent") if s.loops else ()
    kind = _pick(rng, ("base", *loops, *(("guard", "fill") if s.guards else ())))
    if kind == "base":
        s = replace(s, base=s.base + s.size * int(_pick(rng, (-80, -3, -1, 1, 3, 80))))
    elif kind in ("stride", "extent"):
        group = _pick(rng, [name for name in ("g0", "g1", "g2") if getattr(s, name)])
        nest = list(getattr(s, group))
        at = int(rng.integers(len(nest)))
        by = int(_pick(rng, (-2, -1, 1, 2)))
        loop = nest[at]
        nest[at] = (
            loop._replace(stride=loop.stride + by * s.size)
            if kind == "stride"
            else loop._replace(extent=max(1, loop.extent + by))
        )
        s = replace(s, **{group: tuple(nest)})
    elif kind == "guard":
        guard = s.guards[0]
        changed = () if rng.integers(2) else (replace(guard, offset=guard.offset + int(_pick(rng, (-1, 1)))),)
        s = replace(s, guards=changed + s.guards[1:])
    else:
        s = replace(s, fill=s.fill + 1)
    streams = (*b.streams[:n], s, *b.streams[n + 1 :])
    return f"stream {n + 1}: {kind}", replace(b, streams=streams)


def other_gather(rng: Rng, b: Binary) -> Damage:
    if not b.gathers:
        return other_stream(rng, b)
    axis = b.gathers[0].axes[0]
    kind = _pick(rng, ("extent", "stride", "offset"))
    by = {"extent": (-3, -1, 1, 9), "stride": (-4, 4, 24), "offset": (-1, 1)}[kind]
    changed = replace(axis, **{kind: getattr(axis, kind) + int(_pick(rng, by))})
    return f"gather: {kind}", replace(b, gathers=(replace(b.gathers[0], axes=(changed,)),))


def shorter_interval(rng: Rng, b: Binary) -> Damage:
    by = int(_pick(rng, (1, 5, 10, 20, 50, 100)))
    return f"interval {-by}", replace(b, interval=max(0, b.interval - by))


def other_interval(rng: Rng, b: Binary) -> Damage:
    """Half of what is billed, twice as much, or a cycle more or less."""
    stated = int(_pick(rng, (b.interval // 2, b.interval - 1, b.interval + 1, 2 * b.interval)))
    return f"interval = {stated}", replace(b, interval=max(0, stated))


def less_memory(rng: Rng, b: Binary) -> Damage:
    line = targets.load(b.target).line_bytes
    return "one line less", replace(b, memory=replace(b.memory, activations=b.memory.activations - line))


def any_field(rng: Rng, b: Binary) -> Damage:
    """Any field of an instruction: a bit of it, a step up or down, or 0."""
    n, field = int(rng.integers(len(b.rows))), _pick(rng, [f for f in FIELDS if f.name != "opcode"])
    old = getattr(b.rows[n], field.name)
    bit = 1 << int(rng.integers(min(field.bits, 2 + old.bit_length())))
    value = int(_pick(rng, (old ^ bit, old ^ bit, old + 1, max(0, old - 1), 0))) % (1 << field.bits)
    return f"{n}: {field.name} = {value}", _change(b, n, **{field.name: value})


def other_operation(rng: Rng, b: Binary) -> Damage:
    n, op = int(rng.integers(len(b.rows))), _pick(rng, list(Op))
    return f"{n}: {op.name}", _change(b, n, opcode=int(op))


def other_program(rng: Rng, b: Binary) -> Damage:
    """One step of a scalar program: what it does, what it takes, or its literal."""
    if not b.programs:
        return any_field(rng, b)
    n = int(rng.integers(len(b.programs)))
    steps = list(b.programs[n].steps)
    at = int(rng.integers(len(steps)))
    step = steps[at]
    if step.op in ("arg", "index"):
        steps[at] = replace(step, imm=int(step.imm or 0) + int(_pick(rng, (-1, 1))))
    elif step.op == "const":
        steps[at] = replace(step, imm=0 if step.imm else 1)
    elif rng.integers(2):
        steps[at] = replace(step, op=_pick(rng, ("add", "mul", "max", "sub", "neg", "exp")))
    else:
        steps[at] = replace(step, args=tuple(max(0, a - 1) for a in step.args))
    programs = (*b.programs[:n], replace(b.programs[n], steps=tuple(steps)), *b.programs[n + 1 :])
    return f"program {n + 1}: step {at}", replace(b, programs=programs)


def other_port(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.ports)))
    port = b.ports[n]
    if rng.integers(3) == 0:
        changed = replace(port, output=not port.output)
    else:
        shape = list(port.shape) or [1]
        shape[int(rng.integers(len(shape)))] += int(_pick(rng, (-1, 1)))
        changed = replace(port, shape=tuple(max(0, extent) for extent in shape))
    return f"host tensor {port.name}", replace(b, ports=(*b.ports[:n], changed, *b.ports[n + 1 :]))


def other_state(rng: Rng, b: Binary) -> Damage:
    if not b.states:
        return other_stream(rng, b)
    state = b.states[0]
    changed = replace(state, base=max(0, state.base + int(_pick(rng, (-320, -4, 4, 320)))))
    return f"state {state.name}", replace(b, states=(changed, *b.states[1:]))


def other_promise(rng: Rng, b: Binary) -> Damage:
    """The header's latency, or whether it calls the cost exact."""
    if rng.integers(4) == 0:
        return "exact", replace(b, exact=not b.exact)
    by = int(_pick(rng, (-40, -1, 1, 40)))
    return f"latency {by:+d}", replace(b, latency=max(0, b.latency + by))


def other_region(rng: Rng, b: Binary) -> Damage:
    """A region of memory a line longer or shorter, or by less than a line."""
    line = targets.load(b.target).line_bytes
    name = _pick(rng, ("constants", "state", "activations", "scratch"))
    value = max(0, getattr(b.memory, name) + int(_pick(rng, (-line, line, -1, 1))))
    return f"{name} = {value}", replace(b, memory=replace(b.memory, **{name: value}))


def other_copies(rng: Rng, b: Binary) -> Damage:
    """An arena more or less, beside the others or cut from them."""
    m, by = b.memory, int(_pick(rng, (-1, 1)))
    copies = max(0, m.copies + by)
    activations = copies * m.arena if rng.integers(2) else m.activations
    return f"{copies} arenas, {activations} bytes", replace(
        b, memory=replace(m, copies=copies, activations=activations)
    )


KINDS: tuple[Callable[[Rng, Binary], Damage], ...] = (
    shift_cycle,
    shift_cycle,
    shift_cycle,
    swap_cycles,
    pull_forward,
    other_place,
    other_range,
    other_reference,
    other_flags,
    other_offset,
    fewer,
    twice,
    other_stream,
    other_stream,
    other_gather,
    shorter_interval,
    other_interval,
    less_memory,
    any_field,
    any_field,
    any_field,
    any_field,
    any_field,
    any_field,
    other_operation,
    other_program,
    other_program,
    other_port,
    other_state,
    other_promise,
    other_region,
    other_copies,
)
