"""Writes a finished schedule as a binary: real addresses, the constants' image, the order of issue."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.isa import TABLE, UNIT_CLASSES, Gather, GatherAxis, Op, Stream, pack
from compiler.isa.binary import Binary, StateSlot
from compiler.scheduling.build import Plan
from compiler.tiling import external
from compiler.tiling.space import relocated, written

VERSION = "0.1.0"
LAST_CYCLE = (1 << 32) - 1  # that an instruction can name
_STREAMS = ("a", "b", "c", "d", "out")
Array = np.ndarray[Any, Any]


def emit(plan: Plan, notes: dict[str, object]) -> Binary:
    """The binary of a plan; ``notes`` travel with it for reports, no processor reads them."""
    pool = plan.space.pool
    used = _ordered(plan)
    streams, renamed = _streams(plan, used)
    table = np.zeros(max(renamed) + 1, np.int64)
    table[list(renamed)] = list(renamed.values())
    for name in _STREAMS:
        used[name] = table[used[name]]
    gathers = tuple(
        Gather(tuple(GatherAxis(renamed[a.index], a.extent, a.stride, a.offset, a.coefficients) for a in g.axes))
        for g in pool.gathers
    )
    return Binary(
        target=plan.target.name,
        target_digest=plan.target.digest,
        compiler_version=VERSION,
        instructions=used,
        streams=tuple(streams),
        programs=tuple(pool.programs),
        gathers=gathers,
        ports=tuple(pool.ports),
        states=_states(plan),
        constants=_image(plan),
        memory=plan.map,
        sources=tuple(plan.names),
        latency=plan.latency,
        interval=plan.interval,
        exact=plan.exact and not plan.graph.lengths,
        reason=plan.reason or _open_sizes(plan),
        notes=noted(notes),
        external=external.image(plan.space, plan.graph.constants.values()),
    )


def noted(notes: dict[str, object]) -> str:
    """Notes as a binary holds them."""
    return json.dumps(notes, sort_keys=True, separators=(",", ":"))


def _open_sizes(plan: Plan) -> str:
    """Why the largest size is counted; '' when every output's size is known."""
    names = ", ".join(repr(name) for name in plan.graph.lengths)
    return f"the data decides the size of {names}; the largest is counted" if names else ""


def _ordered(plan: Plan) -> Array:
    """Instructions with their issue cycles, in the order of issue. ``ModelError`` when these do not fit into their field."""
    last = max(plan.start, default=0)
    if last > LAST_CYCLE:
        raise ModelError(
            f"the last instruction would issue in cycle {last}; a program has at most {LAST_CYCLE} cycles. Choose smaller "
            "dimensions, or a processor that takes fewer cycles."
        )
    found = pack(t.instruction for t in plan.tiles)
    found["cycle"] = plan.start
    place = np.zeros(max(Op) + 1, np.int64)
    for op, spec in TABLE.items():
        place[op] = UNIT_CLASSES.index(spec.unit)
    return found[np.lexsort((found["unit"], place[found["opcode"]], found["cycle"]))]


def _streams(plan: Plan, used: Array) -> tuple[list[Stream], dict[int, int]]:
    """Streams that are used, at their real addresses, and the new reference of every old one."""
    references = np.stack([used[name] for name in _STREAMS], axis=1).ravel()
    wanted = dict.fromkeys(n for n in references.tolist() if n)
    for g in plan.space.pool.gathers:
        for axis in g.axes:
            wanted.setdefault(axis.index)
    renamed: dict[int, int] = {0: 0}
    table: list[Stream] = []
    seen: dict[object, int] = {}
    for reference in wanted:
        real = relocated(plan.space.pool.streams[reference - 1], plan.address)
        key = (real, type(real.fill), str(real.fill))
        if key not in seen:
            table.append(real)
            seen[key] = len(table)
        renamed[reference] = seen[key]
    return table, renamed


def _image(plan: Plan) -> bytes | memoryview:
    """The constants region."""
    kept = [b for b in plan.space.buffers.values() if b.kind == "constant" and b.data is not None and b.size]
    return written([(plan.address[b.number], b) for b in kept], plan.map.constants, plan.graph.constants.values())


def _states(plan: Plan) -> tuple[StateSlot, ...]:
    slots = []
    for state in plan.graph.states:
        t = plan.graph.types[state.input]
        base = plan.address[plan.space.buffers[state.input].number]
        initial = np.ascontiguousarray(state.initial).tobytes()
        slots.append(StateSlot(state.input, base, t.dtype.value, t.shape, initial))
    return tuple(slots)
