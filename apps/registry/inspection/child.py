"""The limited child process that inspects an uploaded file: `python -m apps.registry.inspection.child <folder>`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from apps.registry.child import child_main

NICE = 10  # pages and small work come before a check


def work(folder: Path, request: dict[str, Any]) -> dict[str, Any]:
    """Inspect `model.onnx` in the folder, and return the report."""
    from apps.registry.inspection import findings
    from apps.registry.inspection.compilable import compile_findings, supported_operators
    from apps.registry.inspection.report import inspect
    from apps.registry.packages import PackageError, model_unpack

    os.nice(NICE)
    try:
        path = model_unpack(folder / "model.onnx", bytes_max=request["bytes_max"])
    except PackageError as error:
        return {"problems": [findings.archive(str(error)).to_json()]}
    beside = path.parent if path.parent != folder else None
    report = inspect(path.read_bytes(), supported_operators(), beside)
    if not report["problems"] and not report["symbolic_dims"]:
        report["problems"] = [finding.to_json() for finding in compile_findings(path)]
    return report


if __name__ == "__main__":
    child_main(work)
