"""ONNX Runtime as a host pool runs it: on one thread. Knows no Django, so that a benchmark measures the same."""

from __future__ import annotations

import platform
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def session_open(data: bytes) -> InferenceSession:
    """A model, loaded."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # its remarks on models would fill the worker's log
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


@lru_cache(maxsize=1)
def hardware() -> str:
    """The CPU's own name and the runtime, as stored beside what was measured on it."""
    import onnxruntime

    name = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), name)
    except OSError:
        pass
    return f"{name}, one thread, ONNX Runtime {onnxruntime.__version__}"
