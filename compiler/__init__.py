"""A compiler whose figures are proven: an ONNX model becomes a program with a known cost to the cycle.

The public face: ``load`` a model, ``compile`` it for a processor version, ``simulate`` the bytes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compiler.bundle import Buckets, Bundle, read_programs
    from compiler.driver import compile
    from compiler.errors import DoesNotFit, ModelError
    from compiler.face import chrome_trace, disassemble, inspect, load, report
    from compiler.isa.resources import Counters, Resources
    from compiler.precision import Calibration, calibrate
    from compiler.program import Program
    from compiler.simulator import Session, SimulationError, simulate

# Products are of single tiles: a second thread finds nothing to do, and on a busy machine spins for five times the work.
# Heard only where NumPy is not loaded yet; whoever wants threads sets the variable.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Where each name of the face is defined. Loaded on first use: the rooms import each other through this package, and a
# worker that only simulates should not pay for the frontend.
_HOMES = {
    "Buckets": "compiler.bundle",
    "Bundle": "compiler.bundle",
    "read_programs": "compiler.bundle",
    "Calibration": "compiler.precision",
    "calibrate": "compiler.precision",
    "compile": "compiler.driver",
    "DoesNotFit": "compiler.errors",
    "ModelError": "compiler.errors",
    "chrome_trace": "compiler.face",
    "disassemble": "compiler.face",
    "inspect": "compiler.face",
    "load": "compiler.face",
    "report": "compiler.face",
    "Counters": "compiler.isa.resources",
    "Resources": "compiler.isa.resources",
    "Program": "compiler.program",
    "Session": "compiler.simulator",
    "SimulationError": "compiler.simulator",
    "simulate": "compiler.simulator",
}

__all__ = [
    "Buckets",
    "Bundle",
    "Calibration",
    "Counters",
    "DoesNotFit",
    "ModelError",
    "Program",
    "Resources",
    "Session",
    "SimulationError",
    "calibrate",
    "chrome_trace",
    "compile",
    "disassemble",
    "inspect",
    "load",
    "read_programs",
    "report",
    "simulate",
]


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'compiler' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
