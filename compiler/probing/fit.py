"""Which figure of a processor's file, at another value, would explain what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from compiler.isa import TABLE, Instruction, Op, program_of, time
from compiler.probing.micro import MicroProgram
from compiler.targets import Target

LARGEST = 1 << 20  # no figure is searched beyond
NEAR = 16  # values beside the present one that are all tried
MOST = 3  # figures that are changed together at most


@dataclass(frozen=True)
class Measured:
    """One instruction, in its micro-program, and the cycles that it took."""

    program: MicroProgram
    number: int
    cycles: int

    @property
    def instruction(self) -> Instruction:
        return self.program.binary.rows[self.number]

    def predicted(self, target: Target) -> int:
        return time(target, self.program.binary, self.instruction).end


@dataclass(frozen=True)
class Change:
    """``path``: the figure as the file names it ("vector.alus"), what it says, and the values that would fit, ``low`` to
    ``high`` (the measurements cannot tell them apart)."""

    path: str
    stated: int
    low: int
    high: int

    def __str__(self) -> str:
        fits = str(self.low) if self.low == self.high else f"{self.low} to {self.high}"
        return f"{self.path} = {fits} instead of {self.stated}"


def matches(target: Target, rows: Sequence[Measured]) -> int:
    return sum(row.predicted(target) == row.cycles for row in rows)


def explain(target: Target, rows: Sequence[Measured]) -> tuple[list[Change], int]:
    """The fewest changes, each the one that sets most rows right, and how many rows are right with them."""
    found: list[Change] = []
    best = matches(target, rows)
    current = target
    while best < len(rows) and len(found) < MOST:
        step = _best_change(current, rows, best)
        if step is None:
            break
        change, best, current = step
        found.append(change)
    return found, best


def _best_change(target: Target, rows: Sequence[Measured], best: int) -> tuple[Change, int, Target] | None:
    chosen: tuple[str, int] | None = None
    for path in candidates(target, rows):
        moved = _moved(target, rows, path)
        if all(row.predicted(target) == row.cycles for row in moved):
            continue
        fixed = matches(target, rows) - matches(target, moved)  # rows that this figure does not touch
        for value in _values(target, moved, path) if fixed + len(moved) > best else ():
            right = fixed + matches(varied(target, path, value), moved)
            if right > best:
                best, chosen = right, (path, value)
    if chosen is None:
        return None
    path, value = chosen
    low, high = (_end(target, rows, path, value, best, way) for way in (-1, 1))
    return Change(path, figure(target, path), low, high), best, varied(target, path, value)


def _moved(target: Target, rows: Sequence[Measured], path: str) -> list[Measured]:
    """Rows whose prediction depends on a figure."""
    ends = [varied(target, path, value) for value in (lowest(path), LARGEST)]
    return [row for row in rows if len({row.predicted(other) for other in (target, *ends)}) > 1]


def _end(target: Target, rows: Sequence[Measured], path: str, value: int, best: int, way: int) -> int:
    """The last value in a direction that sets as many rows right; durations are monotone in every figure."""

    def good(value: int) -> bool:
        return lowest(path) <= value <= LARGEST and matches(varied(target, path, value), rows) >= best

    reach = 1
    while good(value + way * reach):
        reach *= 2
    inside, outside = (reach // 2, reach) if reach > 1 else (0, 1)
    while outside - inside > 1:
        middle = (inside + outside) // 2
        inside, outside = (middle, outside) if good(value + way * middle) else (inside, middle)
    return value + way * inside


def lowest(path: str) -> int:
    """The least that a target file may say for a figure."""
    return 2 if path.endswith("lanes") else 8 if path == "memory.line_bytes" else 1


def candidates(target: Target, rows: Sequence[Measured]) -> list[str]:
    """Figures that the rows' formulas read, the unit's own first."""
    units = sorted({TABLE[Op(row.instruction.opcode)].unit for row in rows})
    found = []
    for name in units:
        unit = target.unit(name)
        found.append(f"{name}.latency")
        found += [f"{name}.{key}" for key in ("bytes_per_cycle", "lanes", "alus") if hasattr(unit, key)]
        found += [f"{name}.ports.{port}" for port in unit.ports]
    used = set()
    for row in rows:
        for reference in (row.instruction.pre, row.instruction.post):
            program = program_of(row.program.binary, reference)
            used |= {step.op for step in program.steps} if program else set()
    found += [f"passes.{op}" for op in sorted(used & set(target.passes))]
    return [*found, "memory.line_bytes"]


def figure(target: Target, path: str) -> int:
    """What a target says for a figure."""
    section, *rest = path.split(".")
    if section == "memory":
        return target.line_bytes
    if section == "passes":
        return target.passes[rest[0]]
    unit = target.unit(section)
    return unit.ports[rest[1]] if rest[0] == "ports" else int(getattr(unit, rest[0]))


def varied(target: Target, path: str, value: int) -> Target:
    """The target with another value for one figure."""
    section, *rest = path.split(".")
    if section == "memory":
        return replace(target, line_bytes=value)
    if section == "passes":
        return replace(target, passes=MappingProxyType({**target.passes, rest[0]: value}))
    unit: Any = target.unit(section)
    if rest[0] == "ports":
        changed = replace(unit, ports=MappingProxyType({**unit.ports, rest[1]: value}))
    else:
        changed = replace(unit, **{rest[0]: value})
    return replace(target, **{section: changed})


def _values(target: Target, rows: Sequence[Measured], path: str) -> list[int]:
    """Values worth trying: those near the present one, and where the sum of all durations comes out right."""
    stated = figure(target, path)
    low = lowest(path)
    wanted = sum(row.cycles for row in rows)

    def total(value: int) -> int:
        other = varied(target, path, value)
        return sum(row.predicted(other) for row in rows)

    places = {wanted_at + d for wanted_at in _crossing(total, wanted, low) for d in range(-2, 3)}
    for row in rows:  # a row that only this figure decides says its value by itself
        if row.predicted(target) != row.cycles:
            alone = [row]

            def single(value: int, alone: list[Measured] = alone) -> int:
                return alone[0].predicted(varied(target, path, value))

            places.update(_crossing(single, row.cycles, low))
    near = range(max(low, stated - NEAR), stated + NEAR + 1)
    return sorted(
        {v for v in (*places, *near) if low <= v <= LARGEST and v != stated}, key=lambda v: (abs(v - stated), v)
    )


def _crossing(total: Callable[[int], int], wanted: int, low: int) -> list[int]:
    """Values around which a monotone total passes ``wanted``; none when it never does."""
    high = LARGEST
    first, last = total(low), total(high)
    if not min(first, last) <= wanted <= max(first, last) or first == last:
        return []
    rising = last > first
    while high - low > 1:
        middle = (low + high) // 2
        if (total(middle) >= wanted) == rising:
            high = middle
        else:
            low = middle
    return [low, high]
