"""The whole report of a program as plain data, for pages, JSON and CSV."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from compiler.isa.binary import Binary
from compiler.isa.resources import Resources
from compiler.reporting.notes import notes_of
from compiler.reporting.resources import resources_of
from compiler.reporting.rows import COLUMNS, per_operation, totals
from compiler.reporting.timeline import Scheduled, scheduled, segments
from compiler.targets import Target


def report(binary: Binary, target: Target) -> dict[str, Any]:
    """Headline, resources, rows that sum to the totals, units, timeline, memory, bounds, graph, digests."""
    found = notes_of(binary.notes, len(binary.sources))
    resources = resources_of(binary, target)
    rows = per_operation(binary, target)
    plan = scheduled(binary, target)
    return {
        "headline": _headline(binary, target, resources, found),
        "resources": resources.to_json(),
        "columns": list(COLUMNS),
        "per_operation": rows,
        "totals": totals(rows),
        "units": _units(plan, target, resources.cycles),
        "timeline": segments(plan),
        "memory": memory_map(binary),
        "arenas": binary.memory.copies,
        "bounds": bounds_of(binary),
        "accuracy": found.get("accuracy", {}),
        "combined": found.get("combined", []),
        "sequence": _sequence(found, resources, target),
        "graph": _graph(rows, found),
        "ports": [
            {"name": p.name, "dtype": p.host or p.dtype, "wire": p.dtype, "shape": list(p.shape), "output": p.output}
            for p in binary.ports
        ],
        "digests": {
            "program": binary.digest,
            "target": binary.target_digest,
            "model": found.get("metadata", {}).get("sha256", ""),
        },
    }


def _headline(binary: Binary, target: Target, r: Resources, found: dict[str, Any]) -> dict[str, Any]:
    peak = peak_per_cycle(target, found.get("precision", "float32"))
    used = target.on_chip(r.storage.total - r.storage.instructions, r.storage.instructions)
    return {
        "model": found.get("model", ""),
        "dims": found.get("dims", {}),
        "target": target.name,
        "version": target.version,
        "title": target.title,
        "price_class": target.price_class,
        "precision": found.get("precision", "float32"),
        "objective": found.get("objective", "balanced"),
        "digest": binary.digest,
        "target_digest": binary.target_digest,
        "compiler_version": binary.compiler_version,
        "clock_hz": target.clock_hz,
        "latency_cycles": r.cycles,
        "latency_us": microseconds(r.cycles, target.clock_hz),
        "interval_cycles": r.interval,
        "inferences_per_second": str(Fraction(target.clock_hz, r.interval)),
        "operations": r.operations,
        "peak_share": f"{r.operations / (peak * r.interval):.6f}" if r.interval else "0",
        "memory_bytes": target.memory_bytes,
        "memory_used": used,
        "memory_share": f"{used / target.memory_bytes:.6f}",
        "exact": r.exact,
        "reason": r.reason,
    }


def _sequence(found: dict[str, Any], r: Resources, target: Target) -> dict[str, Any]:
    """What a token costs in a program that continues a sequence: the run's cost over the tokens that it adds; else nothing."""
    facts = found.get("metadata", {})
    tokens, context = (str(facts.get(name, "")) for name in ("tokens", "context"))
    if not (tokens.isdecimal() and context.isdecimal() and int(tokens)):
        return {}
    count = int(tokens)
    return {
        "kind": "decode" if count == 1 else "prefill",
        "tokens": count,
        "context": int(context),
        "cycles_per_token": f"{r.cycles / count:.1f}",
        "us_per_token": microseconds(-(-r.cycles // count), target.clock_hz),
        "link_bytes_per_token": f"{(r.io.bytes_in + r.io.bytes_out) / count:.1f}",
        "energy_fj_per_token": -(-r.energy_fj // count),
    }


def peak_per_cycle(target: Target, precision: str) -> int:
    """Most operations per cycle in that precision: of the planes, or of the vector unit where no plane multiplies it."""
    tile = target.matrix.tiles.get({"float16": "f16", "bfloat16": "bf16", "int8": "i8"}.get(precision, "f32"))
    if tile is None:
        return target.vector.lanes * target.vector.alus * max(target.vector.instances, 1)
    return 2 * tile[0] * tile[1] * target.matrix.instances


def microseconds(cycles: int, clock_hz: int) -> str:
    """Exact to the nanosecond, rounded half even."""
    nano = round(Fraction(cycles * 10**9, clock_hz))
    return f"{nano // 1000}.{nano % 1000:03d}"


def _units(plan: list[Scheduled], target: Target, cycles: int) -> list[dict[str, Any]]:
    busy: dict[tuple[str, int], int] = {}
    for row in plan:
        busy[row.unit, row.instance] = busy.get((row.unit, row.instance), 0) + row.duration
    return [
        {
            "name": f"{name}[{n}]",
            "class": name,
            "instance": n,
            "busy": busy.get((name, n), 0),
            "share": f"{busy.get((name, n), 0) / cycles:.6f}" if cycles else "0",
        }
        for name, n in target.instances()
    ]


def memory_map(binary: Binary) -> list[dict[str, Any]]:
    """Buffers by address: bytes, and the cycles from the first write to the last use."""
    names = ("buffer", "kind", "address", "size", "first", "last")
    return [
        dict(zip(names, row, strict=True)) for row in notes_of(binary.notes, len(binary.sources)).get("buffers", [])
    ]


def bounds_of(binary: Binary) -> dict[str, Any]:
    """What is achieved beside what is proven to be the least: cycles per inference, per interval, bytes of the arena."""
    found = notes_of(binary.notes, len(binary.sources))
    proven = found.get("bounds", {})
    result = {}
    for name, ours in (("latency", binary.latency), ("interval", binary.interval)):
        bound = proven.get(name, 0)
        result[name] = {
            "ours": ours,
            "bound": bound,
            "ratio": _ratio(ours, bound),
            "limit": proven.get(f"{name}_limit", ""),
        }
    arena, bound = binary.memory.arena, found.get("arena_bound", 0)
    result["memory"] = {
        "ours": arena,
        "bound": bound,
        "ratio": _ratio(arena, bound),
        "limit": "largest sum of live buffers" + (" in each arena" if binary.memory.copies > 1 else ""),
    }
    return result


def _ratio(ours: int, bound: int) -> str:
    return f"{ours / bound:.4f}" if bound else ""


def _graph(rows: list[dict[str, Any]], found: dict[str, Any]) -> dict[str, Any]:
    nodes = [
        {
            "id": row["index"],
            "name": row["name"],
            "kind": row["kind"],
            "source": row["source"],
            "operations": row["operations"],
            "cycles": row["cycles"],
        }
        for row in rows[:-1]
    ]
    return {"nodes": nodes, "edges": found.get("edges", [])}
