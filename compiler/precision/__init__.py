"""Fewer bits for a model that came in float32: calibration, a plan, a rewritten graph, and what it loses."""

from __future__ import annotations

from compiler.precision.artefact import Calibration
from compiler.precision.prepare import PRECISIONS, calibrate, offered, prepare

__all__ = ["PRECISIONS", "Calibration", "calibrate", "offered", "prepare"]
