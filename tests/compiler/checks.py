"""What must hold for every program, in one place."""

import numpy as np

from compiler import targets
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.driver import quiet
from compiler.ir.interpreter import run
from compiler.isa.binary import Binary
from compiler.reporting import COLUMNS, per_operation, resources_of, totals
from compiler.scheduling.build import build
from compiler.simulator import simulate
from compiler.tiling import external

NO_BOUNDS = {"latency": 0, "interval": 0}


def binary_of(graph, target, extent=None, objective="balanced"):
    """Plan and binary of a graph as it stands, without passes; ``extent``: what lies in external memory."""
    plan = build(graph, target, quiet, external.extents(target)[0] if extent is None else extent, objective=objective)
    return plan, emit(plan, notes(plan, graph, NO_BOUNDS, "float32"))


def same(a, b):
    """Equal bits, a NaN equal to any NaN."""
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")


def check_program(graph, name, feeds, extent=None, objective="balanced"):
    """Results, counters, rows, memory and bytes of a graph compiled for one target; answers (plan, binary)."""
    target = targets.resolve(name)
    plan, binary = binary_of(graph, target, extent, objective)
    data = binary.to_bytes()
    assert Binary.from_bytes(data) == binary
    state = {}
    expected = [run(graph, f, state) for f in feeds]
    outputs, counters = simulate(data, feeds)
    for got, want in zip(outputs, expected, strict=True):
        for key in want:
            assert same(got[key], want[key]), f"{key} differs"
    resources = resources_of(binary, target)
    assert counters == resources
    check_rows(binary, target, resources)
    check_memory(plan)
    return plan, binary


def check_rows(binary, target, resources):
    """Every column of the rows sums to the program's own total."""
    rows = per_operation(binary, target)
    assert all(row[c] >= 0 for row in rows for c in COLUMNS)
    sums = totals(rows)
    r = resources
    assert sums == {
        "operations": r.operations,
        "executed_operations": r.executed_operations,
        "cycles": r.cycles,
        "weights": r.storage.weights,
        "activations": r.storage.activations,
        "state": r.storage.state,
        "instructions": r.storage.instructions,
        "scratch": r.storage.scratch,
        "storage": r.storage.total,
        "external": r.storage.external,
        "bytes_in": r.io.bytes_in,
        "bytes_out": r.io.bytes_out,
        "external_in": r.io.external_in,
        "external_out": r.io.external_out,
        "read": r.memory.read,
        "written": r.memory.written,
        "energy_fj": r.energy_fj,
    }


def check_memory(plan):
    """No two buffers that are live in the same cycle share a byte, inferences that come to the same arena included."""
    lives = {life.name: life for life in plan.live_ranges}
    spans = [(plan.address[b.number], b.size, lives[b.name]) for b in plan.space.buffers.values() if b.name in lives]
    base, period = plan.map.constants + plan.map.state, plan.interval * plan.map.copies
    assert all(base <= at and at + size <= base + plan.map.arena for at, size, _ in spans)
    for n, (at, size, a) in enumerate(spans):
        assert a.end - a.start <= period
        for low, length, b in spans[:n]:
            if at < low + length and low < at + size:
                turn = (b.start - a.start) % period
                assert a.end - a.start <= turn, f"{a.name} and {b.name} share bytes"
                assert turn + b.end - b.start <= period, f"{a.name} and {b.name} share bytes"
