"""A model of gigabytes in a side file: `python -m benchmarks.large [--layers N] [--width N] [--folder FOLDER] [--site WAY]`

Makes a model of layers of int8 codes (2.55 GB unless told otherwise; made-up weights in a file beside it), and takes it from the
file to a report on ``systolic``: load, compile, report, the program written to a file. Prints, by stage, seconds and memory, and
at the end the peak of a process of its own over the size of the model. Ends with status 1 when the peak is more than twice the
model and 500 MB.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from benchmarks.arguments import parser, whole

LAYERS, WIDTH = 38, 8192
WAYS = ("form", "pieces")
SPARE = 500_000_000
ROOT = Path(__file__).resolve().parent.parent


def made(folder: Path, *, layers: int = LAYERS, width: int = WIDTH) -> int:
    """Write `model.onnx` and `weights.bin` into the folder; answers the bytes of both."""
    rng = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    with (folder / "weights.bin").open("wb") as file:
        for n in range(layers):
            weights.append(beside(f"w{n}", (width, width), file.tell()))
            file.write(rng.integers(-127, 128, (width, width), np.int8).tobytes())
            nodes += [
                helper.make_node("QuantizeLinear", [value, "scale", "zero"], [f"q{n}"]),
                helper.make_node("MatMulInteger", [f"q{n}", f"w{n}"], [f"m{n}"]),
                helper.make_node("Cast", [f"m{n}"], [f"c{n}"], to=TensorProto.FLOAT),
                helper.make_node("Mul", [f"c{n}", "back"], [f"y{n}"]),
            ]
            value = f"y{n}"
    back = np.float32(1 / (127 * 73 * np.sqrt(width)))  # so that values stay about as large from layer to layer
    for name, constant in (("scale", np.float32(1 / 127)), ("zero", np.int8(0)), ("back", back)):
        weights.append(numpy_helper.from_array(np.asarray(constant), name))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "large", [ends[0]], [ends[1]], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    return sum((folder / name).stat().st_size for name in ("model.onnx", "weights.bin"))


def beside(name: str, shape: tuple[int, int], offset: int) -> TensorProto:
    """A tensor of bytes at a place of the side file."""
    tensor = TensorProto(name=name, data_type=TensorProto.INT8, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "weights.bin"), ("offset", offset), ("length", shape[0] * shape[1])):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def peak_of_compile(path: Path) -> tuple[int, dict[str, Any]]:
    """Peak memory in bytes of a process that loads, compiles and reports a model, and what it found out."""
    command = [sys.executable, "-m", "benchmarks.large", "--compile", str(path)]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts["peak"], facts


def compiled(path: Path) -> dict[str, Any]:
    """Facts of one compile in this process; stages go to the error output."""
    import compiler

    start = time.perf_counter()

    def stage(name: str) -> None:
        print(f"{name:10} {time.perf_counter() - start:7.1f} s  peak {peak() / 1e6:8,.0f} MB", file=sys.stderr)

    graph = compiler.load(path, on_stage=stage)
    program = compiler.compile(graph, "systolic", on_stage=stage)
    stage("report")
    report = program.report()
    with tempfile.TemporaryDirectory() as folder:
        program.write(Path(folder) / "program.bin")
    stage("written")
    return {
        "peak": peak(),
        "seconds": time.perf_counter() - start,
        "instructions": len(program.binary.instructions),
        "latency": report["headline"]["latency_cycles"],
        "external": program.resources.storage.external,
    }


def peak() -> int:
    """The most memory that this process has had, pages of files included, in bytes. (What `getrusage` says begins with what the
    process had that started it.)"""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) * 1024


def through_site(folder: Path, size: int, *, way: str) -> int:
    """Print what the product took; answers the exit status."""
    from benchmarks.large_site import running_site, show, walk

    with running_site(size) as site:
        found = walk(site, folder, way=way)
    show(found, size)
    return 0 if found.is_equal else 1


def main(arguments: list[str]) -> int:
    """Print what a compile took; answers the exit status."""
    command = parser("large", __doc__)
    command.add_argument("--layers", type=whole, default=LAYERS)
    command.add_argument("--width", type=whole, default=WIDTH)
    command.add_argument("--folder", type=Path, help="where the model is made and kept (unless given, it is not kept)")
    command.add_argument("--compile", type=Path, help="a model to compile in this process")
    command.add_argument("--site", choices=WAYS, help="take it through the whole product: how it is uploaded")
    options = command.parse_args(arguments)
    if options.compile:
        print(json.dumps(compiled(options.compile)))
        return 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        size = made(folder, layers=options.layers, width=options.width)
        if options.site:
            return through_site(folder, size, way=options.site)
        most, facts = peak_of_compile(folder / "model.onnx")
    print(f"model {size / 1e9:.2f} GB, {facts['instructions']:,} instructions, {facts['latency']:,} cycles")
    print(f"external memory {facts['external'] / 1e9:.2f} GB, {facts['seconds']:.0f} s")
    print(f"peak {most / 1e9:.2f} GB, {most / size:.2f} of the model; allowed {(2 * size + SPARE) / 1e9:.2f} GB")
    return 0 if most <= 2 * size + SPARE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
