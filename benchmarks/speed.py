"""Seconds and memory of the compiler and the simulator: `python -m benchmarks.speed [--alone] [--layers N] [MODEL ...]`

Every figure comes from a process of its own. Per model and precision: seconds to load and to compile it (int8 with ranges
measured before, in seconds of their own), to execute one inference with its arithmetic, instructions per second, and
the most memory that each took beside three times the model and 300 MB. In the same run: ONNX Runtime's seconds for one
inference, TVM's to compile the same file, and SCALE-Sim's simulated cycles per second on the first layers of its own topology;
TVM and SCALE-Sim live in throw-away environments made from pinned lists (``benchmarks/others``), ``--alone`` leaves them out.
Seconds are processor time on one thread, with the wall clock's beside them. Ends with status 1 when a limit is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.data import given_or_fetched

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ROOT / "benchmarks" / "others"
MODELS = ("resnet50", "minilm-64", "minilm-128", "det", "squeezenet")
PRECISIONS = ("float32", "int8")
COMPILE = {"resnet50": 4.0, "minilm-64": 3.0, "minilm-128": 3.0, "det": 3.0, "squeezenet": 1.0}  # seconds
SIMULATE = {("resnet50", "float32"): 10.0, ("resnet50", "int8"): 3.0}
RATE = 20_000  # instructions per second, of the program with the most
TIMES, MORE = 3, 300  # memory: so many times the model, and so many MB
MB = 1 << 20
Figures = dict[str, Any]


# -- in processes of their own ------------------------------------------------------------------------------------------


def _peak() -> float:
    """MB that this process has had at most. The kernel's own count: what getrusage gives begins with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise OSError("this system does not count a process's memory")


def _timed(run: Callable[[], Any]) -> tuple[Any, Figures]:
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    return found, {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}


def calibrate(folder: Path, dims: dict[str, int]) -> Figures:
    import compiler

    graph = compiler.load((folder / "model.onnx").read_bytes(), dims=dims)
    found, figures = _timed(lambda: compiler.calibrate(graph))
    (folder / "ranges.json").write_text(found.to_json())
    return figures | {"peak": _peak()}


def compile_(folder: Path, precision: str, dims: dict[str, int]) -> Figures:
    import compiler
    from compiler.precision import Calibration

    ranges = Calibration.from_json((folder / "ranges.json").read_text()) if precision == "int8" else None
    path = folder / "model.onnx"
    graph, loading = _timed(lambda: compiler.load(path.read_bytes(), dims=dims))
    program, figures = _timed(lambda: compiler.compile(graph, precision=precision, calibration=ranges))
    peak = _peak()
    (folder / f"{precision}.takt").write_bytes(program.to_bytes())
    figures |= {"load": loading["cpu"], "peak": peak, "instructions": len(program.binary.rows)}
    (folder / f"{precision}.json").write_text(json.dumps(figures))
    return figures


def simulate(folder: Path, precision: str) -> Figures:
    import numpy as np

    from compiler.simulator import simulate as run

    data = (folder / f"{precision}.takt").read_bytes()
    feeds = dict(np.load(folder / "feeds.npz"))
    (_, counters), figures = _timed(lambda: run(data, feeds))
    rows = json.loads((folder / f"{precision}.json").read_text())["instructions"]
    return figures | {
        "peak": _peak(),
        "instructions": rows,
        "rate": rows / figures["cpu"],
        "cycles": counters.cycles / figures["cpu"],
    }


def native(folder: Path, dims: dict[str, int]) -> Figures:
    """One inference of ONNX Runtime, on one thread, after one that does not count; the feeds are kept for the others."""
    import numpy as np
    import onnxruntime

    import compiler
    from tests.models import sensible_feeds

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    path = folder / "model.onnx"
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = sensible_feeds(compiler.load(path.read_bytes(), dims=dims), 0)
    np.savez(folder / "feeds.npz", **feeds)
    session.run(None, feeds)
    return _timed(lambda: session.run(None, feeds))[1]


CHILDREN: dict[str, Callable[..., Figures]] = {
    "calibrate": calibrate,
    "compile": compile_,
    "simulate": simulate,
    "native": native,
}


# -- the others ---------------------------------------------------------------------------------------------------------


def environment(name: str, folder: Path) -> Path:
    """An interpreter with the pinned packages of ``others/<name>.lock``."""
    place = folder / f"environment-{name}"
    for command in (
        ["venv", "--quiet", "--python", sys.executable, str(place)],
        ["pip", "sync", "--quiet", "--python", str(place), "--require-hashes", str(OTHERS / f"{name}.lock")],
    ):
        subprocess.run([sys.executable, "-m", "uv", *command], check=True)
    return place / "bin" / "python"


def _other(python: Path, script: str, folder: Path, *arguments: str) -> Figures | str:
    """What a script prints about another tool; its last words when it fails."""
    done = subprocess.run(
        [str(python), str(OTHERS / script), *arguments], cwd=folder, env=_environment(), capture_output=True, text=True
    )
    lines = (done.stdout if done.returncode == 0 else done.stderr).strip().splitlines()
    if done.returncode:
        return lines[-1] if lines else f"status {done.returncode}"
    found: Figures = json.loads(lines[-1])
    return found


def _environment() -> dict[str, str]:
    """One thread; and what is imported while the clock runs comes as bytecode, as Python keeps it unless told not to."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    kept["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "takt-speed-bytecode")
    return kept | dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TVM_NUM_THREADS"), "1")


# -- the table ----------------------------------------------------------------------------------------------------------


class Run:
    """One run of the benchmark: where its files lie, and what was missed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: list[str] = []

    def child(self, what: str, *arguments: Any) -> Figures:
        """The figures that a process of its own prints."""
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.speed", "--child", json.dumps([what, *arguments])],
            cwd=ROOT,
            env=_environment(),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        found: Figures = json.loads(done.stdout)
        return found

    def within(self, what: str, value: float, limit: float | None, unit: str, *, least: bool = False) -> str:
        """A figure with its limit, noted when missed."""
        if limit is None:
            return f"{value:9,.2f} {unit}"
        missed = value < limit if least else value > limit
        if missed:
            self.failed.append(f"{what}: {value:,.2f} {unit}, limit {limit:,.2f}")
        return f"{value:9,.2f} {unit} ({'at least' if least else 'at most'} {limit:,.4g}{', MISSED' if missed else ''})"

    def model(self, case: str, tvm: Path | None) -> list[Figures]:
        """All lines of one model; answers the simulator's figures."""
        from tests.models import model_bytes

        folder = self.folder / case
        folder.mkdir()
        data, dims = model_bytes(case)
        (folder / "model.onnx").write_bytes(data)
        most = TIMES * len(data) / MB + MORE
        others = self._beside(case, folder, dims, tvm)
        print(
            f"\n{case}: {len(data) / MB:.1f} MB; ONNX Runtime {others['native']:.3f} s for one inference"
            f"{others['text']}",
            flush=True,
        )
        seconds = self.child("calibrate", str(folder), dims)
        print(f"  int8 ranges and error, apart: {seconds['cpu']:.2f} s, {seconds['wall']:.2f} s wall", flush=True)
        found = []
        for precision in PRECISIONS:
            name = f"{case} {precision}"
            made = self.child("compile", str(folder), precision, dims)
            ratio = f", {made['cpu'] / others['tvm']:.2f} x TVM's" if others["tvm"] else ""
            print(
                f"  {precision:7} compile  {self.within(name + ' compile', made['cpu'], COMPILE.get(case), 's')}"
                f"{ratio}; wall {made['wall']:.2f} s, load {made['load']:.2f} s; "
                f"{self.within(name + ' compile memory', made['peak'], most, 'MB')}",
                flush=True,
            )
            ran = self.child("simulate", str(folder), precision)
            found.append(ran | {"name": name})
            limit = SIMULATE.get((case, precision))
            print(
                f"  {precision:7} simulate {self.within(name + ' simulate', ran['cpu'], limit, 's')}, "
                f"{ran['cpu'] / others['native']:.0f} x ONNX Runtime's; wall {ran['wall']:.2f} s; "
                f"{ran['instructions']:,} instructions, {ran['rate']:,.0f} per second; "
                f"{self.within(name + ' simulate memory', ran['peak'], most, 'MB')}",
                flush=True,
            )
        return found

    def _beside(self, case: str, folder: Path, dims: dict[str, int], tvm: Path | None) -> Figures:
        """ONNX Runtime's seconds for an inference and TVM's to compile it (0: not measured)."""
        cpu = self.child("native", str(folder), dims)["cpu"]
        if tvm is None:
            return {"native": cpu, "tvm": 0.0, "text": ""}
        made = _other(tvm, "compile_tvm.py", folder, "model.onnx", json.dumps(self._shapes(folder, dims)))
        if isinstance(made, str):
            return {"native": cpu, "tvm": 0.0, "text": f"; TVM cannot compile it: {made}"}
        text = f"; TVM compiles it in {made['cpu']:.2f} s, {made['wall']:.2f} s wall, {made['peak_mb']:.0f} MB"
        return {"native": cpu, "tvm": made["cpu"], "text": text}

    def _shapes(self, folder: Path, dims: dict[str, int]) -> dict[str, list[int]]:
        """Shapes of the inputs whose dimensions are open in the file."""
        if not dims:
            return {}
        import compiler

        graph = compiler.load((folder / "model.onnx").read_bytes(), dims=dims)
        return {name: list(graph.types[name].shape) for name in graph.inputs}


def main(arguments: list[str]) -> int:
    """Print the figures; answers the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description="Seconds and memory.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of tests.models; {', '.join(MODELS)} unless given")
    parser.add_argument("--alone", action="store_true", help="without TVM and SCALE-Sim")
    parser.add_argument("--layers", type=int, default=2, help="of SCALE-Sim's topology")
    parser.add_argument("--topology", type=Path, default=os.environ.get("TAKT_SCALESIM"))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="takt-speed-") as made:
        run = Run(Path(made))
        tvm = None if given.alone else environment("tvm", run.folder)
        found = [figures for case in given.models or MODELS for figures in run.model(case, tvm)]
        longest = max(found, key=lambda f: int(f["instructions"]))
        print(
            f"\nlongest program, {longest['name']}: "
            f"{run.within('instructions', longest['rate'], RATE, 'instructions/s', least=True)}"
        )
        if not given.alone:
            fastest = max(found, key=lambda f: float(f["cycles"]))
            print(f"{fastest['name']}: {fastest['cycles']:,.0f} simulated cycles per second, with arithmetic")
            _scalesim(run, given_or_fetched(given.topology, "scalesim-resnet50", parser), given.layers)
    for line in run.failed:
        print(f"missed: {line}")
    return 1 if run.failed else 0


def _scalesim(run: Run, topology: Path, layers: int) -> None:
    made = _other(
        environment("scalesim", run.folder), "simulate_scalesim.py", run.folder, str(topology.resolve()), str(layers)
    )
    if isinstance(made, str):
        print(f"SCALE-Sim fails: {made}")
        return
    print(
        f"SCALE-Sim, {made['layers']} layers of its topology: {made['cycles']:,} cycles in {made['cpu']:.2f} s, "
        f"{made['cycles'] / made['cpu']:,.0f} per second, {made['peak_mb']:.0f} MB"
    )


def _child(order: str) -> int:
    what, folder, *rest = json.loads(order)
    print(json.dumps(CHILDREN[what](Path(folder), *rest)))
    return 0


if __name__ == "__main__":
    sys.exit(_child(sys.argv[2]) if sys.argv[1:2] == ["--child"] else main(sys.argv[1:]))
