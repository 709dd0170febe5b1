"""Models of the corpus beside their bounds, a process for each, and what is said of them all."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from benchmarks.corpus.listed import Model
from benchmarks.corpus.sources import differs
from bin.models import ROOT

PATIENCE = 4  # seconds on the clock for each second of the processor, on a machine that others use too
COLUMNS = (
    "name", "part", "family", "source",
    "latency", "latency_bound", "latency_ratio", "interval", "interval_bound", "interval_ratio", "interval_latency",
    "throughput", "throughput_ratio",
    "balanced_latency", "balanced_latency_ratio", "balanced_interval", "balanced_interval_ratio",
    "latency_limit", "interval_limit", "latency_whole", "interval_whole", "throughput_whole", "balanced_whole",
    "prepared", "seconds", "megabytes", "other_file", "reason",
)  # fmt: skip  # figures of one program in one line
RATIOS = {  # each: a program's cycles and the bound that they are held to
    "latency_ratio": ("latency", "latency_bound"),
    "interval_ratio": ("interval", "interval_bound"),
    "throughput_ratio": ("throughput", "interval_bound"),
    "balanced_latency_ratio": ("balanced_latency", "latency_bound"),
    "balanced_interval_ratio": ("balanced_interval", "interval_bound"),
}
OF = {"separate": tuple(RATIOS)[:3], "balanced": tuple(RATIOS)[3:], "all": tuple(RATIOS)}


@dataclass(frozen=True)
class How:
    """What is measured, and within which limits. ``programs``: of ``OF``; ``memory``: bytes; ``seconds``: of the processor."""

    precision: str
    target: str
    programs: str
    jobs: int
    seconds: int
    memory: int


def run(wanted: Sequence[Model], how: How) -> Iterator[dict[str, Any]]:
    """A row of ``COLUMNS`` for each model, in the order of the list, as soon as it is known."""
    with ThreadPoolExecutor(how.jobs) as pool:
        yield from pool.map(lambda model: _row(model, how), wanted)


def _row(model: Model, how: How) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.corpus.measure", model.name, how.precision, how.target, how.programs]
    found: dict[str, Any] = {"reason": ""}
    child = subprocess.Popen(
        [*command, str(how.seconds), str(how.memory)],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said, errors = child.communicate(timeout=PATIENCE * how.seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        said, errors = child.communicate()
    for line in said.splitlines():
        found |= json.loads(line)
    if child.returncode and not found["reason"]:
        found["reason"] = _end(child.returncode, errors)
    named = {"name": model.name, "part": model.part, "family": model.family, "source": model.source}
    return completed(named | {"other_file": differs(model)} | found, OF[how.programs])


def _end(status: int, errors: str) -> str:
    """Why a process ended early."""
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        return "time: more than the limit"
    if "MemoryError" in errors:
        return "memory: more than the limit"
    return f"crashed: {(errors.strip().splitlines() or [f'status {status}'])[-1]}"


def completed(row: dict[str, Any], ratios: Iterable[str]) -> dict[str, Any]:
    """With its ratios; one of which a side is not known is infinite."""
    for ratio in ratios:
        cycles, bound = RATIOS[ratio]
        known = cycles in row and bound in row
        row[ratio] = round(row[cycles] / row[bound], 4) if known else inf
    return {column: row.get(column, "") for column in COLUMNS}


def line(row: dict[str, Any]) -> str:
    """A row for a screen."""
    figures = [f"{row[ratio]:7.2f}" if row[ratio] != "" else f"{'':7}" for ratio in RATIOS]
    limits = f"{row['latency_limit']}; {row['interval_limit']}" if not row["reason"] else row["reason"]
    other = ", another file" if row["other_file"] else ""
    return f"{row['name']:22} {row['part']:6} {' '.join(figures)} {row['seconds'] or 0:8.1f} s  {limits[:120]}{other}"


def write(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """All rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
