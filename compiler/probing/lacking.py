"""Which term the formula of an instruction lacks, when no value of any figure explains what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from operator import sub

from compiler.isa import TABLE, Op, accesses, fetched, program_of, time
from compiler.isa.geometry import touches
from compiler.probing.fit import Measured
from compiler.targets import Target

COUNTS = ("count1", "count2", "count3")


def lacking(target: Target, rows: Sequence[Measured]) -> list[str]:
    """Terms, each of which alone explains every row: added to the formula, or as one more of what it takes the most of.

    None where rows that are off do not tell terms apart: two of them have to differ in a term.
    """
    predicted = [row.predicted(target) for row in rows]
    latency = [_latency(target, row) for row in rows]
    cycles = [row.cycles for row in rows]
    wrong = [n for n, one in enumerate(predicted) if one != cycles[n]]
    found = []
    for name, values in _telling(target, rows, wrong).items():
        added = _factor(list(map(sub, cycles, predicted)), values, wrong)
        if added is not None and _given(added, values, predicted) == cycles:
            found.append(f"+ {_times(added)}{name}")
        limit = _factor(list(map(sub, cycles, latency)), values, wrong)
        if limit is not None and _given(limit, values, latency, cycles) == cycles:
            found.append(f"max(..., {_times(limit)}{name})")
    return found


def _telling(target: Target, rows: Sequence[Measured], wrong: Sequence[int]) -> dict[str, list[int]]:
    """By term that all rows have, and of which wrong ones differ, its size in each row; simple terms first."""
    sizes = [dict(_sizes(target, row)) for row in rows]
    names = set.intersection(*(set(size) for size in sizes))
    ordered = sorted(names, key=lambda name: (name.count(" x "), name))
    return {name: [size[name] for size in sizes] for name in ordered if len({sizes[n][name] for n in wrong}) > 1}


def _given(factor: Fraction, values: Sequence[int], start: Sequence[int], least: Sequence[int] = ()) -> list[int]:
    """The cycles of all rows with one more term behind ``start``, and no fewer than ``least``."""
    found = [begun + _whole(factor, value) for begun, value in zip(start, values, strict=True)]
    return list(map(max, found, least)) if least else found


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
