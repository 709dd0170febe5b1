"""Which term the formula of an instruction lacks, when no value of any figure explains what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations

from compiler.isa.geometry import touches
from compiler.isa.instruction import Op
from compiler.isa.table import TABLE, accesses, fetched, time
from compiler.isa.tables import program_of
from compiler.probing.fit import Measured
from compiler.targets import Target

COUNTS = ("count1", "count2", "count3")


def lacking(target: Target, rows: Sequence[Measured]) -> list[str]:
    """Terms, each of which alone explains every row: added to the formula, or as one more of what it takes the most of.

    None where rows that are off do not tell terms apart: two of them have to differ in a term.
    """
    wrong = [n for n, row in enumerate(rows) if row.predicted(target) != row.cycles]
    sizes = [dict(_sizes(target, row)) for row in rows]
    found = []
    for name in sorted(set.intersection(*(set(size) for size in sizes)), key=lambda name: (name.count(" x "), name)):
        values = [size[name] for size in sizes]
        if len({values[n] for n in wrong}) < 2:
            continue
        added = _factor([row.cycles - row.predicted(target) for row in rows], values, wrong)
        if added is not None and all(_whole(added, value) == 0 or n in wrong for n, value in enumerate(values)):
            found.append(f"+ {_times(added)}{name}")
        limit = _factor([row.cycles - _latency(target, row) for row in rows], values, wrong)
        if limit is not None and all(
            _whole(limit, values[n]) + _latency(target, row) <= row.cycles for n, row in enumerate(rows)
        ):
            found.append(f"max(..., {_times(limit)}{name})")
    return found


def _factor(cycles: Sequence[int], values: Sequence[int], wrong: Sequence[int]) -> Fraction | None:
    """The factor by which a term gives the cycles of the wrong rows, rounded up."""
    widest = max(wrong, key=lambda n: values[n])
    if not values[widest] or cycles[widest] <= 0:
        return None
    exact = Fraction(cycles[widest], values[widest])
    for factor in (exact, exact.limit_denominator(64)):
        if factor > 0 and all(_whole(factor, values[n]) == cycles[n] for n in wrong):
            return factor
    return None


def _whole(factor: Fraction, value: int) -> int:
    return -(-factor.numerator * value // factor.denominator)


def _times(factor: Fraction) -> str:
    return "" if factor == 1 else f"{factor} x "


def _latency(target: Target, row: Measured) -> int:
    return time(target, row.program.binary, row.instruction).latency


def _sizes(target: Target, row: Measured) -> Iterator[tuple[str, int]]:
    """What a term may be proportional to: counts, products of them, lines of an operand, operations of the programs."""
    i, binary = row.instruction, row.program.binary
    counts = {name: int(getattr(i, name)) for name in COUNTS if name in TABLE[Op(i.opcode)].fields}
    yield from counts.items()
    for first, second in combinations(counts, 2):
        yield f"{first} x {second}", counts[first] * counts[second]
    if len(counts) == 3:
        yield " x ".join(counts), counts["count1"] * counts["count2"] * counts["count3"]
    for access in accesses(binary, i):
        yield f"lines({access.role})", touches(fetched(binary, i, access), access.rows, access.inner, target.line_bytes)
    programs = [program_of(binary, reference) for reference in (i.pre, i.post)]
    yield "operations", sum(len(program.steps) for program in programs if program)
