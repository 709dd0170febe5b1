"""Traces: one CSV row for every instruction of every micro-program, with the cycles that were measured.

Columns: ``program`` and ``number`` (which instruction, from 0), ``instruction``, ``operands`` (for the reader; they must be
those of the micro-program) and ``cycles``: from the cycle in which the instruction issues to the first in which what it
wrote can be read (a weight slot: used; the host: has it all; a branch: the next instruction issues). Empty: not measured.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from compiler.errors import ModelError
from compiler.isa import Instruction, Op, time
from compiler.probing.micro import MicroProgram, described
from compiler.targets import Target

COLUMNS = ("program", "number", "instruction", "operands", "cycles")
LARGEST = 1 << 24  # bytes of a trace


@dataclass(frozen=True)
class Row:
    """One measured instruction. ``cycles``: None when it was not measured."""

    program: str
    number: int
    instruction: str
    operands: str
    cycles: int | None = None


def rows_of(programs: Iterable[MicroProgram]) -> list[Row]:
    """The rows of a trace that nobody has measured yet."""
    return [
        Row(p.name, n, Op(i.opcode).name, described(p.binary, i)) for p in programs for n, i in enumerate(p.binary.rows)
    ]


def predicted_rows(target: Target, programs: Iterable[MicroProgram]) -> list[Row]:
    """The trace that a processor gives which is exactly as its file says."""

    def cycles(program: MicroProgram, i: Instruction) -> int:
        return time(target, program.binary, i).end

    return [
        Row(p.name, n, Op(i.opcode).name, described(p.binary, i), cycles(p, i))
        for p in programs
        for n, i in enumerate(p.binary.rows)
    ]


def write_trace(rows: Iterable[Row]) -> str:
    """Rows as CSV with a heading."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        writer.writerow(
            [row.program, row.number, row.instruction, row.operands, "" if row.cycles is None else row.cycles]
        )
    return out.getvalue()


def read_trace(path: Path) -> list[Row]:
    """The rows of a file; ``ModelError`` names the line that cannot be read.

    Spreadsheets put a mark before the first byte and write empty rows as commas: both are passed over.
    """
    reader = csv.reader(io.StringIO(_text(path)))
    try:
        lines = [(reader.line_num, [cell.strip() for cell in line]) for line in reader]
    except csv.Error as error:
        raise ModelError(f"trace {path.name}, line {reader.line_num}: {error}") from None
    full = [(number, cells) for number, cells in lines if any(cells)]
    heading = ",".join(full[0][1])[:80] if full else "nothing"
    if not full or tuple(full[0][1]) != COLUMNS:
        raise ModelError(f"trace {path.name} must begin with the heading {','.join(COLUMNS)}, not {heading!r}")
    return [_row(path.name, number, cells) for number, cells in full[1:]]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise ModelError(f"trace {path.name} is larger than {LARGEST} bytes")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ModelError(f"trace {path.name} is not UTF-8 text") from None
    except OSError as error:
        raise ModelError(f"trace {path} cannot be read: {error.strerror or error}") from None


def _row(name: str, line: int, cells: list[str]) -> Row:
    if len(cells) != len(COLUMNS):
        raise ModelError(f"trace {name}, line {line}: {len(cells)} columns where there should be {len(COLUMNS)}")
    program, number, instruction, operands, cycles = cells
    for what, text in (("number", number), ("cycles", cycles or "0")):
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise ModelError(f"trace {name}, line {line}: {what} must be a whole number, not {text[:40]!r}")
    return Row(program, int(number), instruction, operands, int(cycles) if cycles else None)
