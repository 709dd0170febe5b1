"""If and Loop whose course is known at compile time: the branch that is taken, the body as often as it runs."""

from __future__ import annotations

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir.types import DType

_TRIPS = 1 << 14


def _if(op: Op) -> tuple[str | None, ...]:
    chosen = bool(op.known(0, "Which branch is taken").reshape(-1)[0])
    assert op.body is not None
    return op.body(op.graph("then_branch" if chosen else "else_branch"), {})


def _loop(op: Op) -> tuple[str | None, ...]:
    """Unrolled: the number of trips and the condition must be known at every step."""
    body = op.graph("body")
    assert op.body is not None
    trips = int(op.known(0, "The number of trips").reshape(-1)[0]) if op.has(0) else _TRIPS + 1
    carried = [op.x(i) for i in range(2, len(op.inputs))]
    going = bool(op.known(1, "The condition").reshape(-1)[0]) if op.has(1) else True
    scans: list[list[str]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    names = [v.name for v in body.input]
    op.need(len(names) == len(carried) + 2, "its body does not take what it carries.")
    trip = 0
    while trip < trips and going:
        op.need(trip < _TRIPS, f"it runs more than {_TRIPS} times.")
        given = [op.const(trip, DType.I64), op.const(np.ones(()), DType.BOOL), *carried]
        results = op.body(body, dict(zip(names, given, strict=True)))
        known = op.b.known(results[0])
        if known is None:
            op.fail("whether it goes on depends on the data. Unroll it, or bound it by a number of trips alone.")
        going = bool(known.reshape(-1)[0])
        carried = list(results[1 : 1 + len(carried)])
        for scan, value in zip(scans, results[1 + len(carried) :], strict=True):
            scan.append(op.b.reshape(value, (1, *op.b.shape(value))))
        trip += 1
    op.need(all(scans) or not scans, "collects results but never runs.")
    return (*carried, *(op.b.join(s, 0) for s in scans))


def _scan(op: Op) -> tuple[str | None, ...]:
    """Unrolled over its scanned inputs (operator set 9 and later)."""
    body, count = op.graph("body"), op.whole("num_scan_inputs")
    assert op.body is not None
    op.need(op.opset >= 9, "has the form of operator set 8. Convert the model to a newer one.")
    states = [op.x(i) for i in range(len(op.inputs) - count)]
    scanned = [op.x(i) for i in range(len(states), len(op.inputs))]
    axes = [
        op.axis(a, len(op.b.shape(v))) for a, v in zip(op.wholes("scan_input_axes", [0] * count), scanned, strict=True)
    ]
    back = op.wholes("scan_input_directions", [0] * count)
    outputs = len(body.output) - len(states)
    out_axes, out_back = (
        op.wholes("scan_output_axes", [0] * outputs),
        op.wholes("scan_output_directions", [0] * outputs),
    )
    length = op.b.shape(scanned[0])[axes[0]]
    op.need(length <= _TRIPS, f"it runs more than {_TRIPS} times.")
    names = [v.name for v in body.input]
    scans: list[list[str]] = [[] for _ in range(outputs)]
    for t in range(length):
        given = list(states)
        for value, axis, reverse in zip(scanned, axes, back, strict=True):
            shape = op.b.shape(value)
            one = op.slice(value, axis, length - 1 - t if reverse else t, 1)
            given.append(op.b.reshape(one, (*shape[:axis], *shape[axis + 1 :])))
        results = op.body(body, dict(zip(names, given, strict=True)))
        states = list(results[: len(states)])
        for i, value in enumerate(results[len(states) :]):
            axis = op.axis(out_axes[i], len(op.b.shape(value)) + 1)
            shape = op.b.shape(value)
            scans[i].append(op.b.reshape(value, (*shape[:axis], 1, *shape[axis:])))
    joined = []
    for i, parts in enumerate(scans):
        axis = op.axis(out_axes[i], len(op.b.shape(parts[0])))
        joined.append(op.b.join(parts[::-1] if out_back[i] else parts, axis))
    return (*states, *joined)


TABLE: dict[str, Rule] = {"If": _if, "Loop": _loop, "Scan": _scan}
