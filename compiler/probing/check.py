"""Predicted cycles beside measured ones, instruction by instruction, and a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from compiler.errors import ModelError
from compiler.isa import TABLE, Op
from compiler.probing.fit import Change, Measured, explain
from compiler.probing.lacking import lacking
from compiler.probing.micro import MicroProgram, described
from compiler.probing.trace import Row, rows_of
from compiler.targets import Target

SHOWN = 5  # wrong rows that a verdict lists


@dataclass(frozen=True)
class Finding:
    """A row whose cycles are not those of the formula."""

    program: str
    number: int
    operands: str
    measured: int
    predicted: int


@dataclass(frozen=True)
class Verdict:
    """One instruction: of ``measured`` rows ``right`` are as predicted. ``changes`` are the figures that would explain the
    others, ``explained`` how many rows are right with them; ``lacks`` are terms of which any one would explain all rows where
    figures do not."""

    instruction: str
    formula: str
    rows: int
    measured: int
    right: int
    wrong: tuple[Finding, ...]
    changes: tuple[Change, ...]
    explained: int
    lacks: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.wrong

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"ok": self.ok}


def check(target: Target, programs: Sequence[MicroProgram], trace: Sequence[Row]) -> list[Verdict]:
    """A verdict for every instruction that the processor has, in the order of the micro-programs.

    ``ModelError`` when a row does not belong to these micro-programs: they were made from another file.
    """
    known = {(row.program, row.number): row for row in rows_of(programs)}
    by_name = {p.name: p for p in programs}
    measured: dict[str, list[Measured]] = {}
    seen: set[tuple[str, int]] = set()
    for row in trace:
        key = (row.program, row.number)
        _belongs(row, known.get(key), again=key in seen)
        seen.add(key)
        if row.cycles is not None:
            measured.setdefault(row.instruction, []).append(Measured(by_name[row.program], row.number, row.cycles))
    names = list(dict.fromkeys(row.instruction for row in known.values()))
    counts = {name: sum(row.instruction == name for row in known.values()) for name in names}
    return [_verdict(target, name, counts[name], measured.get(name, [])) for name in names]


def _belongs(row: Row, expected: Row | None, *, again: bool) -> None:
    """``ModelError`` unless a row is of one of the micro-programs, and the first of its kind."""
    which = f"the trace's instruction {row.number} of {row.program!r}"
    if expected is None:
        raise ModelError(f"{which} is in no micro-program of this processor; emit the programs again")
    if (row.instruction, row.operands) != (expected.instruction, expected.operands):
        raise ModelError(
            f"{which} is {row.instruction} {row.operands}, but this file's is {expected.instruction} {expected.operands}; "
            "emit the programs again"
        )
    if again:
        raise ModelError(f"{which} stands there twice")


def _verdict(target: Target, name: str, rows: int, measured: list[Measured]) -> Verdict:
    wrong = [m for m in measured if m.predicted(target) != m.cycles]
    changes, explained = explain(target, measured) if wrong else ([], len(measured))
    lacks = tuple(lacking(target, measured)) if explained < len(measured) else ()
    findings = tuple(
        Finding(m.program.name, m.number, described(m.program.binary, m.instruction), m.cycles, m.predicted(target))
        for m in wrong
    )
    right = len(measured) - len(wrong)
    return Verdict(name, formula(name), rows, len(measured), right, findings, tuple(changes), explained, lacks)


def formula(name: str) -> str:
    """How the duration of an instruction is predicted."""
    spec = TABLE[Op[name]]
    ports = ", ".join(f"lines({o.field}) / {spec.unit}.ports.{o.port}" for o in spec.operands)
    latency = f"{spec.unit}.latency" + (" + tree levels" if name == "VECTOR" else "")
    return f"{latency} + max({spec.cycles_text}{', ' + ports if ports else ''})"


def words(verdict: Verdict) -> list[str]:
    """A verdict as lines of text."""
    v = verdict
    if not v.measured:
        return [f"{v.instruction}: not measured ({v.rows} rows are empty or missing)"]
    if v.ok:
        return [f"{v.instruction}: {v.right} of {v.rows} rows measured, all as predicted"]
    lines = [f"{v.instruction}: {len(v.wrong)} of {v.measured} measured rows are off", f"  formula: {v.formula}"]
    lines += [
        f"  {f.program} #{f.number} ({f.operands}): measured {f.measured}, predicted {f.predicted}"
        for f in v.wrong[:SHOWN]
    ]
    if len(v.wrong) > SHOWN:
        lines.append(f"  and {len(v.wrong) - SHOWN} more")
    named = " and ".join(map(str, v.changes))
    if named and v.explained == v.measured:
        lines.append(f"  {named} explains every row")
    elif v.lacks:
        lines.append(
            f"  no figure of the file explains it; a term that the formula lacks does: {' or '.join(v.lacks[:SHOWN])}"
        )
    elif named:
        lines.append(f"  {named} explains {v.explained} of {v.measured} rows; measure the others again")
    else:
        lines.append("  no figure of the file explains it: measure the rows again, or the formula lacks a term")
    return lines
