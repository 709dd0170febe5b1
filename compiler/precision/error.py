"""What a precision loses: a converted graph beside the float32 one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.ir import Graph
from compiler.numerics.codes import encode
from compiler.numerics.functions import log
from compiler.numerics.reduce import reduce
from compiler.precision.caches import step, stored_state

if TYPE_CHECKING:
    from compiler.precision.calibrate import Measure

Array = np.ndarray[Any, Any]
ENDLESS = float(np.finfo(np.float32).max)  # an error without end, in a number that every JSON text can hold


def host_feeds(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """The model's inputs as they cross the link."""
    wires = json.loads(graph.metadata.get("wire", "{}"))
    sent = {}
    for name, array in feeds.items():
        w = wires.get(name)
        dtype = graph.types[name].dtype.numpy
        sent[name] = array if w is None else encode(array, dtype, w.get("scale", 1.0), w.get("zero", 0))
    return sent


def measure(graph: Graph, asked: Measure) -> dict[str, dict[str, Any]]:
    """By output: maximum error (``ENDLESS`` where a number became none), the same relative to the largest element, signal to
    noise in dB over all feeds, and (where an output is rows of classes) how many rows of all name another class first."""
    state = stored_state(graph, asked.state)
    results = [step(graph, host_feeds(graph, feed), state) for feed in asked.feeds]
    return {name: errors([o[name] for o in asked.outputs], [r[name] for r in results]) for name in graph.outputs}


def errors(references: list[Array], results: list[Array]) -> dict[str, Any]:
    """One output over all feeds."""
    signal = noise = largest = peak = 0.0
    changed = rows = 0
    for a, b in zip(references, results, strict=True):
        s, n = powers(a, b)
        signal, noise = signal + s, noise + n
        if a.size:
            largest = max(largest, _largest(a.astype(np.float64), b.astype(np.float64)))
            peak = max(peak, float(np.abs(a.astype(np.float64)).max()))
        if a.ndim == 2 and a.shape[1] > 1 and a.dtype.kind == "f":
            changed += int((a.argmax(axis=1) != b.argmax(axis=1)).sum())
            rows += len(a)
    found: dict[str, Any] = {
        "max": largest,
        "relative": largest if largest >= ENDLESS else largest / peak if peak else 0.0,
        "snr_db": decibels(signal, noise),
    }
    if rows:
        found["changed_top1"] = f"{changed}/{rows}"
    return found


def _largest(reference: Array, result: Array) -> float:
    """The largest difference: none between equal numbers, be they infinite, ``ENDLESS`` where only one is a number."""
    same = (reference == result) | (np.isnan(reference) & np.isnan(result))
    with np.errstate(all="ignore"):
        apart = np.where(same, 0.0, np.abs(reference - result))
    return float(np.where(apart < ENDLESS, apart, ENDLESS).max())


def powers(reference: Array, result: Array) -> tuple[float, float]:
    """Sums of squares of the signal and of the noise, added up in a fixed order."""
    a, b = (np.ascontiguousarray(x).reshape(-1).astype(np.float64) for x in (reference, result))
    if not a.size:
        return 0.0, 0.0
    with np.errstate(all="ignore"):
        return float(reduce("sum", a * a)), float(reduce("sum", (a - b) * (a - b)))


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise) to a thousandth; 999 where there is no noise, -999 where it is not a number."""
    if noise == 0.0:
        return 999.0
    if not (isfinite(signal) and isfinite(noise)) or signal <= 0.0:
        return -999.0
    ratio = np.array([signal / noise])
    return round(float(log(ratio)[0] / log(np.array([10.0]))[0]) * 10.0, 3)
