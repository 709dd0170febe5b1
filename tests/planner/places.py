"""Measurements and price lists for tests: one of this machine, really measured, and others that are written by hand."""

from __future__ import annotations

import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

from apps.cli.main import main as takt
from apps.measurements import FORMAT, document_digest, rate_text

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "digits-small.onnx"


@lru_cache(maxsize=2)
def measured_here(model: Path = SAMPLE) -> bytes:
    """What `takt measure` writes on this machine of a model, by default the small sample."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "here.json"
        assert takt(["measure", str(model), "--seconds", "1", "--machine", "workshop", "-o", str(path)]) == 0
        return path.read_bytes()


def written_by_hand(sha256: str, **changes: Any) -> dict[str, Any]:
    """A measurement of a machine with a GPU that nobody measured: its figures are made up, and its date is stated."""
    row = {
        "batch": 1,
        "concurrency": 1,
        "dims": {},
        "samples": 1000,
        "items": 1000,
        "wall_ns": 10**9,
        "items_per_second": rate_text(1000, 10**9),
        "p50_ns": 900_000,
        "p95_ns": 1_100_000,
        "p99_ns": 1_500_000,
        "power": {"source": "nvidia-smi", "milliwatts": 65_000},
        "power_reason": "",
    }
    document = {
        "format": FORMAT,
        "measured_at": "2026-03-01T12:00:00Z",
        "model": {"name": "digits-small.onnx", "sha256": sha256, "bytes": 1},
        "machine": [],
        "hardware": {
            "cpu": "written by hand",
            "cores": 8,
            "memory_bytes": None,
            "gpus": [{"name": "NVIDIA L4", "driver": "570.1", "memory_mib": 23034}],
        },
        "system": "Linux 6 x86_64",
        "load_before": None,
        "runtime": {
            "name": "onnxruntime",
            "version": "1.22.0",
            "provider": "CUDAExecutionProvider",
            "threads": 0,
            "nodes": {},
        },
        "inputs": {"made_up": True, "seed": 0},
        "batch_dimension": None,
        "rows": [row],
        **changes,
    }
    return sealed(document)


def sealed(document: dict[str, Any]) -> dict[str, Any]:
    """With the digest that belongs to it."""
    return {**document, "digest": document_digest(document)}


def file_of(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()
