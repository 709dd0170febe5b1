"""What fewer bits cost and save: `python -m benchmarks.precision [--feeds N] [--target NAME] [--seeded] [CASE ...]`

Every model in float32, float16 and int8, compiled with calibration on representative inputs (``--seeded``: on made-up
ones) and run on N others through the simulator; reference is ONNX Runtime in float32. Per model and precision: the
signal-to-noise ratio over all inputs together (the worst output), the largest error relative to the largest element, how
many rows name another class first, how contractions multiply, latency and interval beside their bounds, and whether the
counters of every run equal the resources. Ends with status 1 when float32 exceeds 1e-3 or int8 keeps less than 20 dB.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np

from benchmarks.feeds import representative

LEAST, LARGEST = 20.0, 1e-3
WORK = 3e9  # operations beyond which one input calibrates
ONLY_FLOAT32 = ("minilm-int8",)  # arrives quantised


def main(arguments: list[str]) -> int:
    """Print one line per model and precision; answers the exit status."""
    from tests.models import CASES, LARGE

    parser = argparse.ArgumentParser(description="Error, latency and interval by precision.")
    parser.add_argument("cases", nargs="*", default=[*CASES, *LARGE])
    parser.add_argument("--feeds", type=int, default=16)
    parser.add_argument("--target", default="lpu")
    parser.add_argument("--seeded", action="store_true")
    options = parser.parse_args(arguments)
    print(f"{'model':12} {'precision':9} {'SNR dB':>7} {'max err':>8} {'top-1':>6} {'latency':>8} {'x bound':>7} "
          f"{'interval':>8} {'x bound':>7} {'counters':8} contractions")  # fmt: skip
    failed = 0
    for case in options.cases:
        for precision in ("float32",) if case in ONLY_FLOAT32 else ("float32", "float16", "int8"):
            failed += not _line(case, precision, options)
    return 1 if failed else 0


def _line(case: str, precision: str, options: argparse.Namespace) -> bool:
    import compiler
    from compiler.ir.graph import Compute
    from tests.models import model_bytes

    data, dims = model_bytes(case)
    graph = compiler.load(data, dims=dims)
    work = sum(n.operations for n in graph.nodes if isinstance(n, Compute))
    examples = (
        None if options.seeded else representative(case, graph, 16 if work < WORK else 1, first=max(16, options.feeds))
    )
    program = compiler.compile(graph, options.target, precision, examples)
    feeds = representative(case, graph, options.feeds)
    expected = _reference(data, feeds)
    binary, equal = program.to_bytes(), True
    results = []
    for feed in feeds:
        outputs, counters = compiler.simulate(binary, feed)
        equal &= counters == program.resources
        results.append(outputs)
    snr, largest, changed = _errors(expected, results)
    b = program.bounds
    mix = program.report()["accuracy"].get("contractions", {})
    ok = equal and (precision != "int8" or snr >= LEAST) and (precision != "float32" or largest <= LARGEST)
    print(f"{case:12} {precision:9} {snr:7.1f} {largest:8.1e} {changed:>6} {program.resources.cycles:8} "
          f"{b['latency']['ratio']:>7} {program.resources.interval:8} {b['interval']['ratio']:>7} "
          f"{'equal' if equal else 'DIFFER':8} {', '.join(f'{n} {k}' for k, n in mix.items())}{'' if ok else '  FAILED'}",
          flush=True)  # fmt: skip
    return ok


def _reference(data: bytes, feeds: list[dict[str, np.ndarray]]) -> list[dict[str, np.ndarray]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session: Any = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return [dict(zip(names, session.run(None, feed), strict=True)) for feed in feeds]


def _errors(expected: list[dict[str, np.ndarray]], results: list[dict[str, np.ndarray]]) -> tuple[float, float, str]:
    """The worst output's ratio in dB and relative error, and changed first classes of all rows."""
    worst, largest, changed, rows = float("inf"), 0.0, 0, 0
    for name in expected[0]:
        a = np.stack([e[name] for e in expected]).astype(np.float64)
        b = np.stack([r[name] for r in results]).astype(np.float64)
        noise, signal = float(((a - b) ** 2).sum()), float((a**2).sum())
        if noise > 0:
            worst = min(worst, 10 * float(np.log10(signal / noise)) if signal else -float("inf"))
        largest = max(largest, float(np.abs(a - b).max()) / (float(np.abs(a).max()) or 1.0))
        if a.ndim == 3 and a.shape[2] > 1:
            changed += int((a.argmax(axis=2) != b.argmax(axis=2)).sum())
            rows += a.shape[0] * a.shape[1]
    return worst, largest, f"{changed}/{rows}" if rows else "-"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
