"""The resource-limited process that compiles: `python -m apps.compilation.child <folder>`.

The process reads the model and the request from the folder, and writes the artefacts and the progress there.
"""

from __future__ import annotations

import gzip
import json
import time
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from apps.compilation.calibration import CalibrationError, OtherShape, Wanted, feeds_read
from apps.compilation.options import arguments_of
from apps.registry.child import child_main
from apps.registry.packages import model_unpack

SEED = 20250711
SEQUENCE = ("kind", "tokens", "context")  # facts of a program that continues a sequence


class Mismatch(Exception):
    """Raised if the counters of the executed binary contradict the compiler's counts."""


def work(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Compile the model. Return {"program": facts} or {"error": {"kind", "message", ...}}."""
    import compiler

    try:
        return {"program": _compile(compiler, folder, request)}
    except compiler.DoesNotFit as error:
        return {"error": {**error.to_json(), "kind": "does-not-fit", "message": str(error)}}
    except compiler.ModelError as error:
        problems = [{"message": problem.told(), "node": problem.node} for problem in error.problems or (error,)]
        return {"error": {"kind": "model", "message": error.told(), "node": error.node, "problems": problems}}
    except CalibrationError as error:
        return {"error": {"kind": "calibration", "message": str(error)}}
    except Mismatch as error:
        return {"error": {"kind": "not-reproduced", "message": str(error)}}


def _compile(compiler: Any, folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    progress = (folder / "progress").open("a", buffering=1)

    def on_stage(name: str) -> None:
        progress.write(f"{name} {time.time():.6f}\n")

    on_stage("read")
    model = model_unpack(folder / "model.onnx", bytes_max=request["bytes_max"])
    constants = _constants(model, request["constants"])
    options = arguments_of(request["options"])
    graph = compiler.load(model, dims=request["dims"], constants=constants, on_stage=on_stage, **options)
    ranges = None
    if request["precision"] != "float32":
        on_stage("calibrate")
        ranges = compiler.calibrate(graph, _examples(graph, folder, request), request["precision"])
        _write(folder / "ranges.json.gz", ranges.to_json())
    target = _target(request)
    compiled = compiler.compile(
        graph, target=target, precision=request["precision"], calibration=ranges, on_stage=on_stage
    )
    compiled.write(folder / "program.bin")
    del compiled  # from here on the file is the program: a large one is in memory once
    on_stage("verify")
    with (folder / "program.bin").open("rb") as file:
        binary = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))
    program = compiler.Program.from_bytes(binary, target)
    values = verify(graph, program, binary)
    report = compiler.report(program)
    _write(folder / "report.json.gz", json.dumps(report, separators=(",", ":")))
    _write(folder / "trace.json.gz", json.dumps(compiler.chrome_trace(program), separators=(",", ":")))
    _write(folder / "program.asm.gz", compiler.disassemble(binary))
    _graph_write(folder / "graph.takt.txt.gz", graph)
    return facts(program, report, len(binary), values)


def _target(request: dict[str, Any]) -> Any:
    from compiler import targets

    return targets.register(targets.parse(request["target_text"])) if request["target_text"] else request["target"]


def _examples(graph: Any, folder: Path, request: dict[str, Any]) -> list[dict[str, Any]] | None:
    path = folder / "calibration.npz"
    if not path.exists():
        return None
    wanted = {name: Wanted(str(graph.types[name].dtype.numpy), graph.types[name].shape) for name in graph.inputs}
    try:
        return feeds_read(path.read_bytes(), wanted)
    except OtherShape:
        if request["buckets"] > 1:
            return None
        raise


def _constants(model: Path, stated: dict[str, Any]) -> dict[str, Any]:
    if not stated:
        return {}
    import numpy as np
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    kinds = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    return {
        name: np.array(value, dtype=onnx.helper.tensor_dtype_to_np_dtype(kinds[name]) if name in kinds else None)
        for name, value in stated.items()
    }


def verify(graph: Any, program: Any, binary: bytes | memoryview) -> dict[str, Any]:
    """Execute the binary once, and compare its counters with the compiler's counts. Raises Mismatch.

    Return the program's `inputs` and `outputs`, and the counters as `executed` (empty if the counts are exact).
    """
    import compiler

    feeds = seeded_feeds(graph)
    outputs, counters = compiler.simulate(binary, feeds)
    counted, stated = counters.to_json(), program.resources.to_json()
    if not counters.within(program.resources):
        different = sorted(name for name in stated if counted.get(name) != stated[name] and name != "reason")
        name = different[0] if different else "reason"
        raise Mismatch(
            f"Executing the binary gave {name} = {counted.get(name)}, but the compiler stated {stated[name]}. "
            "This is a defect in Takt. The program was not stored."
        )
    executed = {} if program.resources.exact else counted
    return {"inputs": _described(feeds), "outputs": _described(outputs), "executed": executed}


def seeded_feeds(graph: Any) -> dict[str, Any]:
    """Return one generated feed: normally distributed floats, and 0 or 1 for all other types."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    feeds = {}
    for name in graph.inputs:
        kind = graph.types[name]
        if kind.dtype.is_float:
            feeds[name] = rng.standard_normal(kind.shape).astype(kind.dtype.numpy)
        else:
            feeds[name] = rng.integers(0, 2, kind.shape).astype(kind.dtype.numpy)
    return feeds


def _described(arrays: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": name, "dtype": str(array.dtype), "shape": list(array.shape)} for name, array in arrays.items()]


def facts(program: Any, report: dict[str, Any], size: int, values: dict[str, Any]) -> dict[str, Any]:
    """Return the column values of a program's row."""
    from compiler.sources import version_name

    resources, headline = program.resources, report["headline"]
    return {
        "digest": program.digest,
        "target_digest": headline["target_digest"],
        "compiler_version": version_name(headline["compiler_version"]),
        "binary_bytes": size,
        "resources": resources.to_json(),
        "bounds": report["bounds"],
        "sequence": {name: report["sequence"][name] for name in SEQUENCE if name in report["sequence"]},
        "accuracy": report["accuracy"],
        "exact": resources.exact,
        "reason": resources.reason[:400],
        "latency_cycles": resources.cycles,
        "interval_cycles": resources.interval,
        "clock_hz": headline["clock_hz"],
        "operations": resources.operations,
        "executed_operations": resources.executed_operations,
        **values,
    }


def _write(path: Path, text: str) -> None:
    # Without a timestamp, equal texts give equal files.
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _graph_write(path: Path, graph: Any) -> None:
    from compiler.ir.text import file_text
    from compiler.ir.written import FILE_BYTES

    if sum(array.nbytes for array in graph.constants.values()) > FILE_BYTES:
        return  # the text would be longer still
    size = 0
    with path.open("wb") as file, gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed:
        for part in file_text(graph):  # weights hardly shrink, whatever the level
            size += packed.write(part.encode())
    if size > FILE_BYTES:  # nobody could read it back
        path.unlink()


if __name__ == "__main__":
    child_main(work)
