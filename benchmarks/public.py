"""Models that nobody chose for being easy: `python -m benchmarks.public [--feeds N] [--precisions LIST] [NAME ...]`

Every model of `benchmarks/public.toml` (package, version, digests and licence stand there; they are fetched when missing) is
compiled for `lpu` in float32 and, unless it arrives quantised, in int8 with calibration on other inputs than those measured; it
runs through binary and simulator beside ONNX Runtime. Printed per model: the largest error relative to the largest element of
its output, the signal-to-noise ratio of the worst output over all inputs, whether counters equal the resources, latency and what
became of it: passed (1e-3, and 20 dB in int8), refused (and why) or wrong. One process per model. ONNX Runtime is told
to multiply bytes exactly (``session.x64quantprecision``): without it processors that lack VNNI saturate sums of two products.
A model that arrives quantised rounds to codes between its layers, where one float32 sum in another order chooses the next code;
beside its error stands by how much ONNX Runtime differs from itself when every float32 weight is the next one up or down, and
twice that much is allowed.
Ends with status 1 when one is wrong.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bin.models import Entry, fetch, manifest

LISTED = Path(__file__).with_suffix(".toml")
LARGEST, LEAST = 1e-3, 20.0
WRONG = 2  # exit status of a model's process; 1 is left to what crashes


def main(arguments: list[str]) -> int:
    """Print a line per model and precision; answers the exit status."""
    known = manifest(LISTED)
    parser = argparse.ArgumentParser(description="Public models beside ONNX Runtime.")
    parser.add_argument("names", nargs="*", default=list(known))
    parser.add_argument("--feeds", type=int, default=3)
    parser.add_argument("--precisions", default="float32,int8")
    parser.add_argument("--here", action="store_true", help="in this process, not in one per model")
    options = parser.parse_args(arguments)
    if options.here:
        return max(_model(known[name], options) for name in options.names)
    print(
        f"{'model':18} {'precision':9} {'max err':>8} {'SNR dB':>7} {'counters':8} {'latency':>9} {'MB':>5}", flush=True
    )
    failed: Counter[int] = Counter()
    for name in options.names:
        rest = ["--feeds", str(options.feeds), "--precisions", options.precisions]
        child = subprocess.Popen([sys.executable, "-m", "benchmarks.public", "--here", *rest, name])
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        failed[child.returncode] += 1
        entry = known[name]
        print(f"{'':18} {entry.wheel} {entry.version}, {entry.licence}; {usage.ru_maxrss >> 10:,} MB", flush=True)
    print(f"{len(options.names)} models, {len(options.names) - failed[0]} of them wrong or broken")
    return 1 if len(options.names) > failed[0] else 0


def _model(entry: Entry, options: argparse.Namespace) -> int:
    import compiler

    data, run = fetch(entry.name, listed=LISTED).read_bytes(), entry.run
    status = 0
    for precision in ("float32",) if run.get("quantised") else options.precisions.split(","):
        try:
            graph = compiler.load(data, dims=run.get("dims", {}))
            examples = [made_up(graph, run, n) for n in range(100, 108)]
            ranges = compiler.calibrate(graph, examples, precision) if precision != "float32" else None
            program = compiler.compile(graph, "lpu", precision, ranges)
        except compiler.ModelError as error:
            print(f"{entry.name:18} {precision:9} refused: {str(error).splitlines()[-1]}", flush=True)
            continue
        feeds = [made_up(graph, run, n) for n in range(options.feeds)]
        status = max(status, _measured((entry.name, precision), bool(run.get("quantised")), data, program, feeds))
    return status


def _measured(
    what: tuple[str, str], quantised: bool, data: bytes, program: Any, feeds: list[dict[str, np.ndarray]]
) -> int:
    from compiler.simulator import Session

    name, precision = what
    session, reference = Session(program.to_bytes(), target=program.target), runtime(data)
    nudged = [runtime(data, nudge) for nudge in (np.inf, -np.inf)] if quantised else []
    names = [o.name for o in reference.get_outputs()]
    equal, largest, spread = True, 0.0, 0.0
    noise, signal = (dict.fromkeys(names, 0.0) for _ in range(2))
    for feed in feeds:
        outputs, counters = session.run(feed)
        equal &= counters.within(program.resources)
        others = [one.run(None, feed) for one in nudged]
        for n, (output, expected) in enumerate(zip(names, reference.run(None, feed), strict=True)):
            found = outputs[output]
            if (found.dtype, found.shape) != (expected.dtype, expected.shape):
                print(f"{name:18} {output}: {found.dtype}{list(found.shape)} WRONG", flush=True)
                return WRONG
            a, b = expected.astype(np.float64), found.astype(np.float64)
            noise[output] += float(((a - b) ** 2).sum())
            signal[output] += float((a**2).sum())
            top = float(np.abs(a).max(initial=0.0)) or 1.0
            largest = max(largest, float(np.abs(a - b).max(initial=0.0)) / top)
            spread = max([spread, *(float(np.abs(a - other[n]).max(initial=0.0)) / top for other in others)])
    ratio = min(10 * np.log10(signal[n] / noise[n]) if noise[n] and signal[n] else 999.0 for n in names)
    ok = equal and (ratio >= LEAST if precision == "int8" else largest <= max(LARGEST, 2 * spread))
    print(
        f"{name:18} {precision:9} {largest:8.1e} {ratio:7.1f} {'equal' if equal else 'DIFFER':8} {program.resources.cycles:9} "
        f"{'passed' if ok else 'WRONG'}{f' (beside itself {spread:.1e})' if quantised else ''}",
        flush=True,
    )
    return 0 if ok else WRONG


def runtime(data: bytes, nudge: float = 0.0) -> Any:
    """ONNX Runtime with exact products of bytes; ``nudge``: where each float32 weight moves to, by one step."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    if nudge:
        model = onnx.load_from_string(data)
        for tensor in model.graph.initializer:
            if tensor.data_type == onnx.TensorProto.FLOAT:
                array = onnx.numpy_helper.to_array(tensor)
                moved = np.nextafter(array, np.where(array == 0, array, np.float32(nudge)), dtype=np.float32)
                tensor.CopyFrom(onnx.numpy_helper.from_array(moved, tensor.name))
        data = model.SerializeToString()
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def made_up(graph: Any, run: dict[str, Any], number: int) -> dict[str, np.ndarray]:
    """Seeded inputs: noise (smooth for pictures, between 0 and 1), whole numbers below the stated ones, masks with a tail."""
    rng = np.random.default_rng([7, number])
    feeds = {}
    for name in graph.inputs:
        kind = graph.types[name]
        dtype, below = kind.dtype.numpy, run.get("below", {}).get(name)
        if name in run.get("fixed", {}):
            values = np.array(run["fixed"][name])
        elif dtype.kind == "b":
            values = np.broadcast_to(np.arange(kind.shape[-1]) < kind.shape[-1] - number % 4, kind.shape)
        elif dtype.kind != "f" or below:
            values = rng.integers(0, below or 20, kind.shape)
        else:
            values = rng.standard_normal(kind.shape)
            if run.get("pictures"):
                for axis in (-1, -2):
                    values = sum(np.roll(values, step, axis) for step in range(5)) / np.sqrt(5)
                values = np.clip(values / 4 + 0.5, 0, 1)
        feeds[name] = np.ascontiguousarray(values).astype(dtype)
    return feeds


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
