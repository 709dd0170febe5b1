"""Networks of repeated blocks: `python -m benchmarks.repeats [--runs N] [--target NAME] [feedforward] [gpt2] [layers] [memory]`

Compiles to int8, every time in a process of its own; seconds are processor time on one thread, medians of N runs (3) that go
round the cases. ``feedforward``: two layers of 67 million parameters together (4,096 to 8,192 and back), and two such blocks,
with ranges given and measured. ``gpt2``: GPT-2 of 12 layers with seeded weights, ranges given. ``layers``: 12 and 24 equal
encoder layers, weights included, and the ratio. ``memory``: peaks of the same beside twice the model and 500 MB.
Ends with status 1 when a limit is missed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from benchmarks.arguments import one_of, parser, whole
from benchmarks.large import peak

ROOT = Path(__file__).resolve().parent.parent
FIGURES = ("feedforward", "gpt2", "layers", "memory")
FEEDFORWARD, GPT2, RATIO = 8.0, 15.0, 1.5  # seconds, seconds, times
TIMES, SPARE = 2, 500_000_000  # memory: so many times the model, and bytes beside it
LAYERS, CONTEXT = 12, 256
WIDTH, HEADS, TOKENS, WIDER = 256, 4, 64, 4
INNER, OUTER = 4096, 8192
Figures = dict[str, float]


# -- models -------------------------------------------------------------------------------------------------------------


class _Model:
    """A graph in the making, its weights seeded."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def weight(self, *shape: int) -> str:
        spread = np.float32(shape[0] ** -0.5 if len(shape) > 1 else 0.02)
        return self.constant(self.rng.standard_normal(shape, dtype=np.float32) * spread)

    def dense(self, x: str, before: int, after: int) -> str:
        return self.node("Add", self.node("MatMul", x, self.weight(before, after)), self.weight(after))

    def norm(self, x: str, width: int) -> str:
        gain = self.constant(1 + self.constants[self.weight(width)])
        return self.node("LayerNormalization", x, gain, self.weight(width), epsilon=1e-5)

    def made(self, result: str, shape: list[int]) -> ModelProto:
        ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", result)]
        stored = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "repeats", ends[:1], ends[1:], stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def feedforward(blocks: int) -> ModelProto:
    """``x`` [1, 4096] through blocks of two layers of 67 million parameters together."""
    m, x = _Model(), "x"
    for _ in range(blocks):
        wide = m.node("Relu", m.node("MatMul", x, m.weight(INNER, OUTER)))
        x = m.node("MatMul", wide, m.weight(OUTER, INNER))
    return m.made(x, [1, INNER])


def encoder(layers: int) -> ModelProto:
    """``x`` [64, 256] through equal encoder layers: attention of 4 heads, two dense layers, normalisations behind both."""
    m, x = _Model(), "x"
    heads, flat = m.constant([TOKENS, HEADS, WIDTH // HEADS]), m.constant([TOKENS, WIDTH])
    root = m.constant(np.float32((WIDTH // HEADS) ** -0.5))
    for _ in range(layers):
        parts = [m.node("Reshape", m.dense(x, WIDTH, WIDTH), heads) for _ in "qkv"]
        q, k, v = (m.node("Transpose", part, perm=[1, 0, 2]) for part in parts)
        scores = m.node("Mul", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 2, 1])), root)
        mixed = m.node("MatMul", m.node("Softmax", scores, axis=-1), v)
        mixed = m.node("Reshape", m.node("Transpose", mixed, perm=[1, 0, 2]), flat)
        x = m.norm(m.node("Add", x, m.dense(mixed, WIDTH, WIDTH)), WIDTH)
        wide = m.node("Relu", m.dense(x, WIDTH, WIDER * WIDTH))
        x = m.norm(m.node("Add", x, m.dense(wide, WIDER * WIDTH, WIDTH)), WIDTH)
    return m.made(x, [TOKENS, WIDTH])


def made(case: str, folder: Path) -> Path:
    """The file of a case such as ``feedforward-2``, made once."""
    from benchmarks.gpt2 import gpt2

    path = folder / f"{case}.onnx"
    if not path.exists():
        kind, _, count = case.partition("-")
        make = {"feedforward": feedforward, "encoder": encoder, "gpt2": gpt2}[kind]
        path.write_bytes(make(int(count)).SerializeToString())
    return path


# -- in processes of their own ------------------------------------------------------------------------------------------


def _loaded(path: Path) -> Any:
    import compiler

    if path.stem.startswith("gpt2"):
        return compiler.load(path, {"batch": 1, "sequence": 1}, context=CONTEXT)
    return compiler.load(path)


def ranged(path: Path) -> Figures:
    """Write the ranges of a model beside it."""
    import compiler

    path.with_suffix(".json").write_text(compiler.calibrate(_loaded(path)).to_json())
    return {}


def compiled(path: Path, target: str, given: bool) -> Figures:
    """Processor seconds of one compile, with the ranges beside the model where they are ``given``, and the peak in bytes."""
    import compiler
    from compiler.precision import Calibration

    graph = _loaded(path)
    ranges = Calibration.from_json(path.with_suffix(".json").read_text()) if given else None
    began = time.process_time()
    program = compiler.compile(graph, target, "int8", ranges)
    seconds = time.process_time() - began
    return {"seconds": seconds, "peak": peak(), "instructions": len(program.binary.rows)}


def _child(*order: Any) -> Figures:
    """What a process of its own finds out."""
    kept = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "benchmarks.repeats", "--child", json.dumps(order)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | kept, check=True, stdout=subprocess.PIPE, text=True)
    found: Figures = json.loads(done.stdout)
    return found


# -- the figures --------------------------------------------------------------------------------------------------------


class Run:
    """Cases compiled in turn, and what was missed. ``known``: figures of each case, so that none is measured twice."""

    def __init__(self, folder: Path, target: str, runs: int) -> None:
        self.folder, self.target, self.runs = folder, target, runs
        self.known: dict[tuple[str, bool], Figures] = {}
        self.failed = 0

    def figures(self, cases: Sequence[tuple[str, bool]]) -> list[Figures]:
        """Medians over the runs of each case; whether its ranges are given stands beside its name."""
        new = [case for case in cases if case not in self.known]
        self._give_ranges({name for name, given in new if given})
        found: dict[tuple[str, bool], list[Figures]] = {case: [] for case in new}
        for _ in range(self.runs):
            for name, given in new:
                found[name, given].append(_child("compiled", str(made(name, self.folder)), self.target, given))
        self.known |= {case: {key: median(run[key] for run in some) for key in some[0]} for case, some in found.items()}
        return [self.known[case] for case in cases]

    def _give_ranges(self, names: set[str]) -> None:
        """Measure ranges of models that have none yet, outside of what is timed."""
        for path in (made(name, self.folder) for name in names):
            if not path.with_suffix(".json").exists():
                _child("ranged", str(path))

    def line(self, text: str, value: float, limit: float, unit: str) -> None:
        """Print a figure beside its limit."""
        self.failed += value > limit
        print(f"{text}: {value:,.2f} {unit}, at most {limit:,.2f}{', MISSED' if value > limit else ''}", flush=True)

    def feedforward(self) -> None:
        """One block and two, ranges given and measured; the limit is that of one."""
        cases = [(f"feedforward-{blocks}", given) for blocks in (1, 2) for given in (True, False)]
        for (name, given), found in zip(cases, self.figures(cases), strict=True):
            how = "ranges given" if given else "ranges measured"
            self.line(f"{name}, {how}, compile", found["seconds"], FEEDFORWARD * int(name[-1]), "s")

    def gpt2(self) -> None:
        """Ranges given, one bucket."""
        (found,) = self.figures([(f"gpt2-{LAYERS}", True)])
        self.line(f"gpt2 of {LAYERS} layers, compile", found["seconds"], GPT2, "s")

    def layers(self) -> None:
        """The ratio of twice as many layers, weights and all."""
        cases = [(f"encoder-{LAYERS}", True), (f"encoder-{2 * LAYERS}", True)]
        few, many = (found["seconds"] for found in self.figures(cases))
        print(f"{LAYERS} layers {few:.2f} s, {2 * LAYERS} layers {many:.2f} s")
        self.line(f"{2 * LAYERS} layers beside {LAYERS}, compile", many / few, RATIO, "times")

    def memory(self) -> None:
        """Peaks of loading and compiling."""
        cases = [(name, True) for name in ("feedforward-1", "feedforward-2", f"gpt2-{LAYERS}", f"encoder-{2 * LAYERS}")]
        for (name, _), found in zip(cases, self.figures(cases), strict=True):
            size = made(name, self.folder).stat().st_size
            self.line(f"{name}, {size / 1e6:,.0f} MB, peak", found["peak"] / 1e6, (TIMES * size + SPARE) / 1e6, "MB")


def main(arguments: list[str]) -> int:
    """Print the figures; answers the exit status."""
    command = parser("repeats", __doc__ or "")
    command.add_argument("figures", nargs="*", type=one_of(FIGURES), default=list(FIGURES))
    command.add_argument("--runs", type=whole, default=3)
    command.add_argument("--target", default="lpu")
    options = command.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="takt-repeats-") as folder:
        run = Run(Path(folder), options.target, max(1, options.runs))
        for figure in options.figures:
            getattr(run, figure)()
    return 1 if run.failed else 0


def _answer(order: str) -> int:
    what, path, *rest = json.loads(order)
    print(json.dumps(ranged(Path(path)) if what == "ranged" else compiled(Path(path), *rest)))
    return 0


if __name__ == "__main__":
    sys.exit(_answer(sys.argv[2]) if sys.argv[1:2] == ["--child"] else main(sys.argv[1:]))
