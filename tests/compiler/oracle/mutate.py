"""Seeded damage to valid programs, and what became of it.

Every damaged program that the independent checker calls illegal must be refused by the simulator or give other results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from compiler import targets
from compiler.errors import ModelError
from compiler.isa.binary import Binary
from compiler.isa.instruction import REDUCERS, Instruction, Op, pack
from compiler.isa.machine import UNIT_CLASSES
from compiler.isa.table import TABLE
from compiler.simulator import simulate
from tests.compiler.oracle.hazards import Oracle
from tests.compiler.oracle.programs import Feed, Sample

Rng = np.random.Generator
Damage = tuple[str, Binary]


def _pick(rng: Rng, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _ordered(binary: Binary, rows: Iterable[Instruction]) -> Binary:
    """``rows`` in issue order, as far as they are instructions at all."""
    order = sorted(rows, key=lambda i: (i.cycle, UNIT_CLASSES.index(TABLE[Op(i.opcode)].unit), i.unit))
    return replace(binary, instructions=pack(order))


def _change(binary: Binary, n: int, **fields: int) -> Binary:
    rows = list(binary.rows)
    rows[n] = rows[n]._replace(**fields)
    return _ordered(binary, rows)


def shift_cycle(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    by = int(_pick(rng, (-200, -40, -20, -13, -5, -2, -1, 1, 2, 5, 13, 20, 40, 200)))
    return f"{n}: cycle {by:+d}", _change(b, n, cycle=max(0, b.rows[n].cycle + by))


def swap_cycles(rng: Rng, b: Binary) -> Damage:
    n, m = (int(k) for k in rng.choice(len(b.rows), 2, replace=False))
    rows = list(b.rows)
    rows[n], rows[m] = rows[n]._replace(cycle=rows[m].cycle), rows[m]._replace(cycle=rows[n].cycle)
    return f"{n} and {m}: cycles swapped", _ordered(b, rows)


def pull_forward(rng: Rng, b: Binary) -> Damage:
    """Everything from one instruction on, earlier by a few cycles."""
    n, by = int(rng.integers(1, len(b.rows))), int(rng.integers(1, 30))
    at = b.rows[n].cycle
    rows = [i if i.cycle < at else i._replace(cycle=max(0, i.cycle - by)) for i in b.rows]
    return f"from {n} on: {by} cycles earlier", _ordered(b, rows)


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
    links = [n for n, i in enumerate(b.rows) if i.opcode in (Op.RECV, Op.SEND)]
    n = int(_pick(rng, links))
    value = max(0, b.rows[n].offset + int(_pick(rng, (-8, -4, 4, 8, 40))))
    return f"{n}: offset = {value}", _change(b, n, offset=value)


def fewer(rng: Rng, b: Binary) -> Damage:
    n = int(rng.integers(len(b.rows)))
    return f"{n}: removed", _ordered(b, [i for m, i in enumerate(b.rows) if m != n])


def twice(rng: Rng, b: Binary) -> Damage:
    n, by = int(rng.integers(len(b.rows))), int(_pick(rng, (0, 1, 30, 1000)))
    return f"{n}: again {by} later", _ordered(b, [*b.rows, b.rows[n]._replace(cycle=b.rows[n].cycle + by)])


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
        nest[at] = loop._replace(stride=loop.stride + by * s.size) if kind == "stride" else loop._replace(
            extent=max(1, loop.extent + by)
        )  # fmt: skip
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


def less_memory(rng: Rng, b: Binary) -> Damage:
    line = targets.load(b.target).line_bytes
    return "one line less", replace(b, memory=replace(b.memory, activations=b.memory.activations - line))


KINDS: tuple[Callable[[Rng, Binary], Damage], ...] = (
    shift_cycle, shift_cycle, shift_cycle, swap_cycles, pull_forward, other_place, other_range, other_reference,
    other_flags, other_offset, fewer, twice, other_stream, other_stream, other_gather, shorter_interval, less_memory,
)  # fmt: skip


@dataclass
class Verdict:
    """``illegal``: what the independent checker says. ``fate``: malformed, refused, changed or survived."""

    program: str
    damage: str
    illegal: list[str]
    fate: str
    reason: str = ""

    @property
    def escaped(self) -> bool:
        """Illegal, and yet it ran with the same results."""
        return bool(self.illegal) and self.fate == "survived"

    @property
    def wronged(self) -> bool:
        """Legal, and yet refused for something that is not its data's fault."""
        fault = "outside a dimension" in self.reason or "an index names memory" in self.reason
        return not self.illegal and self.fate == "refused" and not fault


@dataclass
class Tally:
    verdicts: list[Verdict] = field(default_factory=list)

    @property
    def table(self) -> Counter[tuple[bool, str]]:
        return Counter((bool(v.illegal), v.fate) for v in self.verdicts)

    @property
    def survivors(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.fate == "survived"]


def judge(sample: Sample, wanted: list[Feed], damage: str, damaged: Binary) -> Verdict:
    """What the checker and the simulator make of one damaged program."""
    try:
        data = damaged.to_bytes()
        decoded = Binary.from_bytes(data)
    except (ModelError, OverflowError) as error:
        return Verdict(sample.name, damage, [], "malformed", str(error))
    illegal = Oracle(decoded, targets.load(decoded.target)).violations(inferences=len(sample.feeds))
    try:
        outputs, _ = simulate(data, sample.feeds)
    except ModelError as error:
        return Verdict(sample.name, damage, illegal, "refused", str(error))
    same = all(
        np.array_equal(got[name].view(np.uint8), value.view(np.uint8))
        for got, right in zip(outputs, wanted, strict=True)
        for name, value in right.items()
    )
    return Verdict(sample.name, damage, illegal, "survived" if same else "changed")


def run(samples: list[Sample], count: int, seed: int = 0) -> Tally:
    """``count`` damaged programs, spread over the samples and the kinds of damage."""
    rng = np.random.default_rng(seed)
    right = [simulate(s.binary.to_bytes(), s.feeds)[0] for s in samples]
    tally = Tally()
    while len(tally.verdicts) < count:
        n = len(tally.verdicts)
        sample = samples[n % len(samples)]
        damage, damaged = KINDS[int(rng.integers(len(KINDS)))](rng, sample.binary)
        if damaged == sample.binary:
            continue
        tally.verdicts.append(judge(sample, right[n % len(samples)], damage, damaged))
    return tally
