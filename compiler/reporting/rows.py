"""One row per operation; every column sums exactly to the program's total."""

from __future__ import annotations

from typing import Any

from compiler.isa import INSTRUCTION_DTYPE, UNIT_CLASSES, unit_class
from compiler.isa.binary import Binary
from compiler.isa.counting import Counts, dearest_counts
from compiler.isa.timings import Timings
from compiler.reporting.notes import notes_of
from compiler.targets import Target

COLUMNS = (
    "operations",
    "executed_operations",
    "cycles",
    "weights",
    "activations",
    "state",
    "instructions",
    "scratch",
    "storage",
    "external",
    "bytes_in",
    "bytes_out",
    "external_in",
    "external_out",
    "read",
    "written",
    "energy_fj",
)
SHARED = "shared by all operations"


def per_operation(binary: Binary, target: Target) -> list[dict[str, Any]]:
    """Rows in the order of the table of sources, then what belongs to no single operation (arena, tables, state).

    ``cycles`` is the row's part of the critical path. ``busy`` counts the cycles that it keeps each class of unit,
    ``limiting`` is the class that it keeps longest per instance.
    """
    found = notes_of(binary.notes, len(binary.sources))
    rows = [_blank(n, name, found) for n, name in enumerate(binary.sources)]
    rows.append(_blank(len(rows), SHARED, {}))
    _spread(rows, binary, target)
    _storage(rows, binary, found)
    critical = found.get("critical") or [0] * len(binary.sources)
    rest = binary.latency - sum(critical)
    for row, cycles in zip(rows, [*critical, rest], strict=True):
        row["cycles"] = cycles
        row["energy_fj"] += cycles * target.energy["cycle"]
        row["limiting"] = _limiting(row, target)
    return rows


def totals(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {column: sum(row[column] for row in rows) for column in COLUMNS}


def _blank(index: int, name: str, found: dict[str, Any]) -> dict[str, Any]:
    known = found.get("rows") or []
    about = known[index] if index < len(known) else {"kind": "shared", "source": []}
    row: dict[str, Any] = {"index": index, "name": name, "kind": about["kind"], "source": about["source"]}
    row |= dict.fromkeys(COLUMNS, 0)
    return row | {"busy": {}, "instructions_count": 0, "limiting": "", "start": None, "end": None}


def _spread(rows: list[dict[str, Any]], binary: Binary, target: Target) -> None:
    """What instructions do, to the rows that they come from."""
    parts: dict[int, list[Counts]] = {}
    timings = Timings(target, binary)
    for i, counted in zip(binary.rows, dearest_counts(target, binary, binary.rows), strict=True):
        row = rows[i.source]
        parts.setdefault(i.source, []).append(counted)
        timing = timings.of(i)
        unit = unit_class(i)
        row["busy"][unit] = row["busy"].get(unit, 0) + timing.beats
        row["instructions_count"] += 1
        row["instructions"] += INSTRUCTION_DTYPE.itemsize
        row["start"] = i.cycle if row["start"] is None else min(row["start"], i.cycle)
        row["end"] = max(row["end"] or 0, i.cycle + timing.end)
    for source, mine in parts.items():
        total = Counts.total(mine)
        row = rows[source]
        row["operations"], row["executed_operations"] = total.operations, total.executed
        row["read"], row["written"] = total.read, total.written
        row["bytes_in"], row["bytes_out"] = total.bytes_in, total.bytes_out
        row["external_in"] = total.external_in
        row["energy_fj"] = total.energy_fj(dict(target.energy), 0)


def _storage(rows: list[dict[str, Any]], binary: Binary, found: dict[str, Any]) -> None:
    weights = found.get("weights") or [0] * len(binary.sources)
    external = found.get("external") or [0] * len(binary.sources)
    for row, size, outside in zip(rows[:-1], weights, external, strict=True):
        row["weights"], row["external"] = size, outside
    shared = rows[-1]
    shared["external"] = len(binary.external) - sum(external)
    shared["weights"] = binary.memory.constants - sum(weights)
    shared["activations"] = binary.memory.activations
    shared["state"] = binary.memory.state
    shared["scratch"] = binary.memory.scratch
    shared["instructions"] = binary.instruction_bytes - sum(row["instructions"] for row in rows[:-1])
    for row in rows:
        row["storage"] = sum(row[c] for c in ("weights", "activations", "state", "instructions", "scratch"))


def _limiting(row: dict[str, Any], target: Target) -> str:
    busy = row["busy"]
    if not busy:
        return ""
    return str(max(busy, key=lambda u: (busy[u] / target.unit(u).instances, -UNIT_CLASSES.index(u))))
