"""What fewer bits cost and save, on every processor: `python -m benchmarks.precision [--feeds N] [--seeded] [CASE ...]`

Every model in float32, float16 and int8, compiled with calibration on representative inputs (``--seeded``: on made-up
ones) and run on N others through binary and simulator; reference is ONNX Runtime in float32. Per model, processor and
precision: the signal-to-noise ratio over all inputs together (the worst output), the largest error relative to the
largest element, how many rows name another class first, latency and interval beside their bounds, whether the counters
of every run equal the resources, and how contractions multiply. The first processor runs all inputs; the others
(``--targets``, the first is the one they are compared with) run one, whose results must be the same bits, and so must
operations and IO; what does not fit says what is missing. One process per model, whose largest memory is printed.
``NAME-logits`` is the model up to its last Softmax.
Ends with status 1 when float32 exceeds 1e-3, int8 keeps less than 20 dB, or anything differs that must not.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx

from benchmarks.feeds import representative

Outputs = list[dict[str, np.ndarray]]
LEAST, LARGEST = 20.0, 1e-3
WORK = 3e9  # operations beyond which one input calibrates
ONLY_FLOAT32 = ("minilm-int8",)  # arrives quantised
LOGITS = "-logits"  # the model up to its last Softmax, which hides errors where it is sure of one class
PRECISIONS = ("float32", "float16", "int8")


def main(arguments: list[str]) -> int:
    """Print a line per model, processor and precision; answers the exit status."""
    from tests.models import CASES, LARGE

    parser = argparse.ArgumentParser(description="Error, latency and interval by processor and precision.")
    parser.add_argument("cases", nargs="*", default=[*CASES, *LARGE, f"resnet50{LOGITS}"])
    parser.add_argument("--feeds", type=int, default=16)
    parser.add_argument("--targets", default="lpu,systolic,edge")
    parser.add_argument("--precisions", default=",".join(PRECISIONS))
    parser.add_argument("--seeded", action="store_true")
    parser.add_argument("--here", action="store_true", help="in this process, not in one per model")
    options = parser.parse_args(arguments)
    if options.here:
        return 1 if sum(_model(case, options) for case in options.cases) else 0
    print(
        f"{'model':12} {'processor':9} {'precision':9} {'SNR dB':>7} {'max err':>8} {'top-1':>6} {'latency':>9} {'x bound':>7} "
        f"{'interval':>9} {'x bound':>7} {'counters':8} contractions",
        flush=True,
    )
    rest = [a for a in arguments if a not in options.cases]
    failed = 0
    for case in options.cases:
        child = subprocess.Popen([sys.executable, "-m", "benchmarks.precision", "--here", *rest, case])
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        failed += child.returncode != 0
        print(f"{case:12} largest memory {usage.ru_maxrss / 1024:,.0f} MB", flush=True)
    return 1 if failed else 0


@dataclass
class Case:
    """A model with its inputs and what ONNX Runtime makes of them."""

    name: str
    graph: Any
    feeds: Outputs
    expected: Outputs


def _model(name: str, options: argparse.Namespace) -> int:
    """All lines of one model; answers how many failed."""
    import compiler
    from compiler.ir.graph import Compute
    from tests.models import model_bytes

    data, dims = model_bytes(name.removesuffix(LOGITS))
    data = _before_softmax(data) if name.endswith(LOGITS) else data
    graph = compiler.load(data, dims=dims)
    feeds = representative(name, graph, options.feeds)
    case = Case(name, graph, feeds, _reference(data, feeds))
    work = sum(n.operations for n in graph.nodes if isinstance(n, Compute))
    failed = 0
    for precision in ("float32",) if name in ONLY_FLOAT32 else options.precisions.split(","):
        examples = representative(name, graph, 16 if work < WORK else 1, first=16) if precision != "float32" else None
        ranges = None
        if precision != "float32":
            ranges = compiler.calibrate(graph, None if options.seeded else examples, precision)
        failed += _precision(case, precision, ranges, options.targets.split(","))
    return failed


def _precision(case: Case, precision: str, ranges: Any, targets: list[str]) -> int:
    """A line per processor; answers how many failed. Of the first processor only what others are compared with is kept."""
    import compiler

    first: _Facts | None = None
    failed = 0
    for target in targets:
        try:
            program = compiler.compile(case.graph, target, precision, ranges)
        except compiler.ModelError as error:
            print(f"{case.name:12} {target:9} {precision:9} {str(error).splitlines()[0]}", flush=True)
            continue
        errors = _Errors()
        equal, result = _run(program, case if first is None else replace(case, feeds=case.feeds[:1]), errors)
        io = program.resources.io
        facts = _Facts(program.resources.operations, (io.bytes_in, io.bytes_out), result)
        mix = program.report()["accuracy"].get("contractions", {})
        words = ", ".join(f"{n} {k}" for k, n in mix.items()) if first is None else _beside(facts, first)
        first = first or facts
        failed += not _line(case, (target, precision), program, errors, equal=equal, words=words)
    return failed


@dataclass(frozen=True)
class _Facts:
    """What must be the same on every processor that computes in this precision: counts, and the first input's outputs."""

    operations: int
    io: tuple[int, int]
    result: dict[str, np.ndarray]


def _run(program: Any, case: Case, errors: _Errors) -> tuple[bool, dict[str, np.ndarray]]:
    """All inputs through the binary: whether the counters of every run equal the resources, and the first outputs."""
    from compiler.simulator import Session

    session, equal = Session(program.to_bytes(), target=program.target), True
    first: dict[str, np.ndarray] = {}
    for feed, expected in zip(case.feeds, case.expected, strict=False):
        outputs, counters = session.run(feed)
        equal &= counters.within(program.resources)
        errors.add(expected, outputs)
        first = first or outputs
    return equal, first


def _beside(ours: _Facts, first: _Facts) -> str:
    """What differs from the first processor."""
    wrong = [] if ours.operations == first.operations else ["operations"]
    wrong += [] if ours.io == first.io else ["IO"]
    wrong += [] if all(np.array_equal(ours.result[n], a) for n, a in first.result.items()) else ["results"]
    return f"DIFFER in {', '.join(wrong)}" if wrong else "same operations, IO and results"


def _line(case: Case, what: tuple[str, str], program: Any, errors: _Errors, *, equal: bool, words: str) -> bool:
    snr, largest, changed = errors.worst()
    b, (target, precision) = program.bounds, what
    ok = equal and "DIFFER" not in words
    ok &= (precision != "int8" or snr >= LEAST or errors.inputs == 1) and (precision != "float32" or largest <= LARGEST)
    print(
        f"{case.name:12} {target:9} {precision:9} {snr:7.1f} {largest:8.1e} {changed:>6} {program.resources.cycles:9} "
        f"{b['latency']['ratio']:>7} {program.resources.interval:9} {b['interval']['ratio']:>7} "
        f"{'equal' if equal else 'DIFFER':8} {words}{'' if ok else '  FAILED'}",
        flush=True,
    )
    return ok


class _Errors:
    """What is needed of outputs that have been compared: sums and extremes by output, and changed first classes."""

    def __init__(self) -> None:
        self.inputs = self.changed = self.rows = 0
        self._sums: dict[str, tuple[float, float, float, float]] = {}  # noise, signal, largest error, largest element

    def add(self, expected: dict[str, np.ndarray], outputs: dict[str, np.ndarray]) -> None:
        """One more input's outputs."""
        self.inputs += 1
        for name, array in expected.items():
            a, b = array.astype(np.float64), outputs[name].astype(np.float64)
            old = self._sums.get(name, (0.0, 0.0, 0.0, 0.0))
            gap = np.abs(a - b)
            self._sums[name] = (
                old[0] + float((gap**2).sum()),
                old[1] + float((a**2).sum()),
                max(old[2], float(gap.max())),
                max(old[3], float(np.abs(a).max())),
            )
            if a.ndim == 2 and a.shape[1] > 1:
                self.changed += int((a.argmax(axis=1) != b.argmax(axis=1)).sum())
                self.rows += a.shape[0]

    def worst(self) -> tuple[float, float, str]:
        """The worst output's ratio in dB and relative error, and changed first classes of all rows."""
        worst, largest = float("inf"), 0.0
        for noise, signal, gap, top in self._sums.values():
            if noise > 0:
                worst = min(worst, 10 * float(np.log10(signal / noise)) if signal else -float("inf"))
            largest = max(largest, gap / (top or 1.0))
        return worst, largest, f"{self.changed}/{self.rows}" if self.rows else "-"


def _before_softmax(data: bytes) -> bytes:
    """The model with the inputs of the Softmax operations that make its outputs as outputs."""
    model = onnx.load_from_string(data)
    makers = {o: n for n in model.graph.node for o in n.output}
    for output in model.graph.output:
        if makers[output.name].op_type == "Softmax":
            output.name = makers[output.name].input[0]
    return model.SerializeToString(deterministic=True)


def _reference(data: bytes, feeds: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session: Any = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
