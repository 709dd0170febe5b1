"""One model on several processors and at several precisions, side by side; what does not fit is a row of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from compiler import reporting, targets
from compiler.driver import quiet
from compiler.errors import DoesNotFit, ModelError
from compiler.ir import Graph
from compiler.precision import Calibration
from compiler.program import Program
from compiler.targets import Target


def compare(
    graph: Graph,
    chosen: Sequence[str | Target],
    precisions: Sequence[str] = ("float32",),
    feeds: Sequence[dict[str, Any]] | None = None,
    *,
    on_stage: Callable[[str], None] = quiet,
) -> list[dict[str, Any]]:
    """A row for every processor and precision, in the order given: plain numbers, or why there are none.

    ``chosen``: names, paths of processor files, or descriptions: a processor that no pool has is compared like any other.
    ``feeds``: what float16 and int8 are calibrated with (seeded ones without). A row that ``fits`` has cycles, time,
    operations, storage, IO, loading, energy and the proven bounds; one that does not has ``reason``, and for lack of memory what
    was asked, what there is, and the levers.
    """
    from compiler.precision import calibrate

    machines = [targets.resolve(target) for target in chosen]
    ranges: dict[str, Calibration | None] = {}
    rows = []
    for precision in precisions:
        for machine in machines:
            on_stage(f"{machine.name} {precision}")
            row = {
                "target": machine.name,
                "digest": machine.digest,
                "price_class": machine.price_class,
                "precision": precision,
            }
            try:
                if precision not in ranges:
                    ranges[precision] = None if precision == "float32" else calibrate(graph, feeds, precision)
                rows.append(row | _row(graph, machine, precision, ranges[precision]))
            except DoesNotFit as error:
                rows.append(row | {"fits": False, "reason": str(error)} | error.to_json())
            except ModelError as error:
                rows.append(row | {"fits": False, "reason": error.told()})
    return rows


def _row(graph: Graph, machine: Target, precision: str, calibration: Calibration | None) -> dict[str, Any]:
    import compiler

    program: Program = compiler.compile(graph, machine, precision, calibration)
    r = program.resources
    bounds, load = program.bounds, reporting.load_of(r.storage, machine)
    return {
        "fits": True,
        "program": program.digest,
        "clock_hz": machine.clock_hz,
        "cycles": r.cycles,
        "interval": r.interval,
        "nanoseconds": -(-r.cycles * 10**9 // machine.clock_hz),
        "interval_nanoseconds": -(-r.interval * 10**9 // machine.clock_hz),
        "operations": r.operations,
        "storage": machine.on_chip(r.storage.total - r.storage.instructions, r.storage.instructions),
        "external": r.storage.external,
        "bytes_in": r.io.bytes_in,
        "bytes_out": r.io.bytes_out,
        "external_in": r.io.external_in,
        "load_bytes": load.bytes_in,
        "load_cycles": load.cycles_in,
        "energy_fj": r.energy_fj,
        "exact": r.exact,
        "latency_ratio": bounds["latency"]["ratio"],
        "interval_ratio": bounds["interval"]["ratio"],
        "limit": bounds["interval"]["limit"],
    }
