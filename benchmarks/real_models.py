"""The real models on both processors: error, counters, bytes, times. `python -m benchmarks.real_models [CASE ...]`

For each model and processor version: the largest error on five seeded inputs against ONNX Runtime, relative to the largest
output; whether integer outputs are equal and everything is finite; whether the counters of every run equal the resources in
every field; whether processes with different PYTHONHASHSEED write the same bytes; latency and interval beside their bounds;
seconds to compile and to simulate beside ONNX Runtime's for one run. Ends with status 1 when a line fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arguments import names

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 1e-3  # of the largest output
SEEDS = 5
HASH_SEEDS = ("1", "2")
DIGEST = """
import sys, compiler
from benchmarks.real_models import case_bytes
data, dims = case_bytes(sys.argv[1])
print(compiler.compile(compiler.load(data, dims=dims), target=sys.argv[2]).digest)
"""


def samples() -> dict[str, Path]:
    """The project's own small models."""
    return {path.stem: path for path in sorted((ROOT / "samples").glob("*.onnx"))}


def case_bytes(case: str) -> tuple[bytes, dict[str, int]]:
    """A model by its name here, and the sizes of its open dimensions (1 for each that a sample leaves open)."""
    from compiler.frontend import symbolic_dims
    from tests.models import CASES, model_bytes

    if case in CASES:
        return model_bytes(case)
    data = samples()[case].read_bytes()
    return data, dict.fromkeys(symbolic_dims(data), 1)


def main(wanted: list[str]) -> int:
    """Print one line per model and processor; answers the exit status."""
    from tests.models import CASES

    wanted = names("real_models", __doc__, wanted, [*CASES, *samples()], "case")
    failed = 0
    print(
        f"{'model':14} {'target':6} {'error':>9} {'counters':8} {'bytes':5} {'latency':>9} {'x bound':>7} "
        f"{'interval':>9} {'x bound':>7} {'arena':>6} {'compile s':>9} {'simulate s':>10} {'onnxrt s':>8}"
    )
    for case in wanted or [*CASES, *samples()]:
        for target in ("lpu", "lpu2"):  # the others multiply bytes only: benchmarks.processors
            failed += not _line(case, target)
    return 1 if failed else 0


def _line(case: str, target: str) -> bool:
    import compiler
    from tests.models import sensible_feeds

    data, dims = case_bytes(case)
    start = time.perf_counter()
    graph = compiler.load(data, dims=dims)
    program = compiler.compile(graph, target=target)
    compiled = time.perf_counter() - start
    session = _session(data)
    names = [o.name for o in session.get_outputs()]
    binary = program.to_bytes()
    errors, equal, simulated, native = [], True, [], []
    for seed in range(SEEDS):
        feeds = sensible_feeds(graph, seed)
        start = time.perf_counter()
        outputs, counters = compiler.simulate(binary, feeds)
        simulated.append(time.perf_counter() - start)
        start = time.perf_counter()
        expected = dict(zip(names, session.run(None, feeds), strict=True))
        native.append(time.perf_counter() - start)
        errors.append(max(error(outputs[n], expected[n]) for n in names))
        equal &= counters == program.resources
    stable = _stable(case, target, program.digest)
    ok = max(errors) <= LIMIT and equal and stable
    b = program.bounds
    print(
        f"{case:14} {target:6} {max(errors):9.2e} {'equal' if equal else 'DIFFER':8} {'same' if stable else 'DIFFER':5} "
        f"{program.resources.cycles:9} {b['latency']['ratio']:>7} {program.resources.interval:9} {b['interval']['ratio']:>7} "
        f"{b['memory']['ratio']:>6} {compiled:9.2f} {min(simulated):10.2f} {min(native):8.4f}{'' if ok else '  FAILED'}",
        flush=True,
    )
    return ok


def error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """max|a - b| / max|b|; infinite when a value is not finite, or when whole numbers differ."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return float("inf")
    if ours.dtype.kind != "f":
        return 0.0 if np.array_equal(ours, theirs) else float("inf")
    if not np.isfinite(ours).all():
        return float("inf")
    scale = float(np.abs(theirs).max()) or 1.0
    return float(np.abs(ours.astype(np.float64) - theirs).max()) / scale


def _session(data: bytes) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def _stable(case: str, target: str, digest: str) -> bool:
    """Whether other processes, with other hash seeds, make the same bytes."""
    for seed in HASH_SEEDS:
        done = subprocess.run(
            [sys.executable, "-c", DIGEST, case, target],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        if done.stdout.strip() != digest:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
