"""ONNX Runtime with one thread, as on host pools. Does not use Django, so benchmarks can measure the same code."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def session_open(model: bytes | Path) -> InferenceSession:
    """Load a model into a session. A model with side files is given as its path."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # warnings about models would fill the worker's log
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def hardware() -> str:
    """Return the names of the CPU and the runtime, for storage with each measurement."""
    import onnxruntime

    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, one thread, ONNX Runtime {onnxruntime.__version__}"
