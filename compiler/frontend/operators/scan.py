"""Scan: a loop over the slices of its inputs, unrolled. In operator set 8 there is one for every element of a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compiler.frontend.op import Op

_TRIPS = 1 << 14


@dataclass(frozen=True)
class _Form:
    """How scanned inputs are cut and collected outputs put together: axes, and which run backwards."""

    axes: list[int]
    back: list[int]
    out_axes: list[int]
    out_back: list[int]


def scan(op: Op) -> tuple[str | None, ...]:
    count = op.whole("num_scan_inputs")
    first = 1 if op.opset < 9 else 0
    values = [op.x(i) for i in range(first, len(op.inputs))]
    op.need(0 < count <= len(values), "it does not have the inputs that it scans.")
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    return _batched(op, states, scanned) if first else _scan(op, states, scanned, _form(op, len(states), count), None)


def _form(op: Op, states: int, count: int) -> _Form:
    outputs = len(op.graph("body").output) - states
    return _Form(
        op.wholes("scan_input_axes", [0] * count),
        op.wholes("scan_input_directions", [0] * count),
        op.wholes("scan_output_axes", [0] * outputs),
        op.wholes("scan_output_directions", [0] * outputs),
    )


def _batched(op: Op, states: list[str], scanned: list[str]) -> tuple[str, ...]:
    """Operator set 8: the first dimension is a batch, the second the sequence, whose lengths may be given."""
    outputs = len(op.graph("body").output) - len(states)
    back = op.wholes("directions", [0] * len(scanned))
    form = _Form([0] * len(scanned), back, [0] * outputs, [0] * outputs)
    size = op.b.shape(scanned[0])[0]
    lengths = op.known(0, "The length of the sequences").reshape(-1).tolist() if op.has(0) else [None] * size
    op.need(len(lengths) == size, "it does not give a length for every sequence.")
    rows = []
    for n, length in enumerate(lengths):
        one = [[_at(op, v, 0, n) for v in values] for values in (states, scanned)]
        rows.append(_scan(op, one[0], one[1], form, length))
    return tuple(
        op.b.join([op.b.reshape(v, (1, *op.b.shape(v))) for v in parts], 0) for parts in zip(*rows, strict=True)
    )


def _at(op: Op, value: str, axis: int, place: int) -> str:
    shape = op.b.shape(value)
    return op.b.reshape(op.slice(value, axis, place, 1), (*shape[:axis], *shape[axis + 1 :]))


def _scan(op: Op, states: list[str], scanned: list[str], form: _Form, length: int | None) -> tuple[str, ...]:
    """One sequence; behind ``length`` collected outputs are zero."""
    body = op.graph("body")
    assert op.body is not None
    axes = [op.axis(a, len(op.b.shape(v))) for a, v in zip(form.axes, scanned, strict=True)]
    total = op.b.shape(scanned[0])[axes[0]]
    trips = total if length is None else min(length, total)
    op.need(trips <= _TRIPS, f"it runs more than {_TRIPS} times.")
    op.need(trips > 0, "its sequence is empty, so the shape of its results is not known.")
    names = [v.name for v in body.input]
    collected: list[list[str]] = [[] for _ in form.out_axes]
    for t in range(trips):
        slices = [
            _at(op, value, axis, trips - 1 - t if reverse else t)
            for value, axis, reverse in zip(scanned, axes, form.back, strict=True)
        ]
        results = op.body(body, dict(zip(names, [*states, *slices], strict=True)))
        states = list(results[: len(states)])
        for parts, axis, value in zip(collected, form.out_axes, results[len(states) :], strict=True):
            shape = op.b.shape(value)
            place = op.axis(axis, len(shape) + 1)
            parts.append(op.b.reshape(value, (*shape[:place], 1, *shape[place:])))
    outputs = zip(collected, form.out_axes, form.out_back, strict=True)
    return (*states, *(_joined(op, parts, axis, total - trips, back) for parts, axis, back in outputs))


def _joined(op: Op, parts: list[str], axis: int, missing: int, back: int) -> str:
    """What was collected put together along ``axis``, with zeros for ``missing`` trips behind it; from the end if ``back``."""
    shape, dtype = op.b.shape(parts[0]), op.b.dtype(parts[0])
    place = op.axis(axis, len(shape))
    if missing:
        gap = np.zeros((*shape[:place], missing, *shape[place + 1 :]), dtype.numpy)
        parts = [*parts, op.const(gap, dtype)]
    return op.b.join(parts[::-1] if back else parts, place)
