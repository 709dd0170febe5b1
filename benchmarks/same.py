"""The same numbers whatever kernels a machine's libraries choose: `python -m benchmarks.same [--break WHAT] [CASE ...]`

Every real model in float32 and int8, calibrated, compiled and run in processes of their own: with the matrix kernels of
two other processors (``OPENBLAS_CORETYPE``), and with all of NumPy's kernels for newer instructions switched off
(``NPY_DISABLE_CPU_FEATURES``). Printed are digests of ranges, binary, counters and results, and whether they are equal. A line of
controls shows that the settings do change what NumPy's own product and ``exp`` give. ``--break exp`` or ``--break product``
lets the compiler use those, which must be noticed. Ends with status 1 when something differs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
BREAKS = ("exp", "product")
WHAT = ("ranges", "binary", "counters", "results")


def environments() -> dict[str, dict[str, str]]:
    """Settings by name; each chooses other kernels for the same NumPy."""
    from numpy._core import _multiarray_umath as umath

    plain = " ".join(umath.__cpu_dispatch__)
    return {
        "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
        "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
        "plain": {"OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": plain},
    }


def digest(data: bytes) -> str:
    """Ten hexadecimal digits that stand for some bytes."""
    return hashlib.sha256(data).hexdigest()[:10]


def controls() -> dict[str, str]:
    """Digests of what NumPy itself gives for a product and for ``exp``."""
    rng = np.random.default_rng(1)
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((60, 301), (301, 70)))
    return {"product": digest((a @ b).tobytes()), "exp": digest(np.exp(a).tobytes())}


def broken(what: str) -> None:
    """Lets the compiler's arithmetic use what depends on the machine: ``exp`` or ``product``."""
    import compiler.ir.interpreter
    import compiler.simulator.run  # noqa: F401
    from compiler.numerics import scalar
    from compiler.numerics.contract import contract

    if what == "exp":
        scalar.SCALAR["exp"] = replace(scalar.SCALAR["exp"], meaning=np.exp)
        return

    def product(acc: Any, a: Any, b: Any, dtype: Any = None, on: Any = None) -> Any:
        if a.dtype != np.float32:
            return contract(acc, a, b, dtype, on)
        return a @ b if acc is None else acc + a @ b

    for name, module in list(sys.modules.items()):
        if name.startswith("compiler.") and getattr(module, "contract", None) is contract:
            module.contract = product  # type: ignore[attr-defined]


def measured(data: bytes, dims: Mapping[str, int], feeds: list[dict[str, np.ndarray]]) -> dict[str, dict[str, str]]:
    """Digests by precision: the first feeds calibrate, the last one runs."""
    import compiler

    graph = compiler.load(data, dims=dict(dims))
    found = {}
    for precision in ("float32", "int8"):
        ranges = compiler.calibrate(graph, feeds[:-1] or feeds, precision) if precision == "int8" else None
        program = compiler.compile(graph, precision=precision, calibration=ranges)
        outputs, counters = compiler.simulate(program.to_bytes(), feeds[-1])
        parts = (
            ranges.to_json().encode() if ranges else b"",
            program.to_bytes(),
            json.dumps(counters.to_json(), sort_keys=True).encode(),
            b"".join(outputs[n].tobytes() for n in sorted(outputs)),
        )
        found[precision] = dict(zip(WHAT, map(digest, parts), strict=True))
    return found


def child(folder: Path, change: str) -> None:
    """One process's part: a folder with a model and feeds in, digests on standard output."""
    if change:
        broken(change)
    dims = json.loads((folder / "dims.json").read_text())
    feeds = [dict(np.load(path)) for path in sorted(folder.glob("feed*.npz"))]
    print(json.dumps({"controls": controls(), **measured((folder / "model.onnx").read_bytes(), dims, feeds)}))


def everywhere(
    data: bytes, dims: Mapping[str, int], feeds: list[dict[str, np.ndarray]], change: str = ""
) -> dict[str, dict[str, Any]]:
    """Digests by setting and precision. The feeds are made once: how they come about is no part of the promise."""
    found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(data)
        (folder / "dims.json").write_text(json.dumps(dict(dims)))
        for number, feed in enumerate(feeds):
            np.savez(folder / f"feed{number}.npz", **feed)  # type: ignore[arg-type]
        command = [sys.executable, "-m", "benchmarks.same", "--child", name, *(["--break", change] if change else [])]
        for setting, variables in environments().items():
            done = subprocess.run(
                command, cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE, check=True
            )
            found[setting] = json.loads(done.stdout)
    return found


def differing(found: Mapping[str, Mapping[str, Mapping[str, str]]], part: str) -> list[str]:
    """What of a part (a precision, or the controls) is not the same in every setting."""
    first, *others = (digests[part] for digests in found.values())
    return [what for what in first if any(other[what] != first[what] for other in others)]


def main(arguments: list[str]) -> int:
    """Print a line per model and precision; answers the exit status."""
    from tests.models import CASES, LARGE

    parser = argparse.ArgumentParser(description="Bytes and results under other kernels.")
    parser.add_argument("cases", nargs="*", default=[*CASES, *LARGE])
    parser.add_argument("--break", dest="change", default="", choices=("", *BREAKS))
    parser.add_argument("--child", type=Path)
    options = parser.parse_args(arguments)
    if options.child:
        child(options.child, options.change)
        return 0
    print(f"settings: {', '.join(environments())}\n{'model':12} {'precision':9} {' '.join(f'{w:10}' for w in WHAT)}")
    failed, moved = 0, set()
    for case in options.cases:
        found = _case(case, options.change)
        moved |= set(differing(found, "controls"))
        for precision in ("float32", "int8"):
            wrong = differing(found, precision)
            failed += bool(wrong)
            shown = " ".join(next(iter(found.values()))[precision][what] for what in WHAT)
            print(f"{case:12} {precision:9} {shown} {'DIFFER: ' + ', '.join(wrong) if wrong else 'equal'}", flush=True)
    print(f"controls that differ between the settings (both should): {', '.join(sorted(moved)) or 'none'}")
    return 1 if failed else 0


def _case(case: str, change: str) -> dict[str, dict[str, Any]]:
    import compiler
    from benchmarks.feeds import representative
    from tests.models import model_bytes

    data, dims = model_bytes(case)
    feeds = representative(case, compiler.load(data, dims=dims), 2, first=16)
    return everywhere(data, dims, feeds, change)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
