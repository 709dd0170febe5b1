"""The stages of a compile, and the progress through the stages. Pure functions."""

from __future__ import annotations

from itertools import product
from typing import Any

STAGES = ("read", "shapes", "lower", "calibrate", "fuse", "schedule", "memory", "binary", "verify", "price")
BUCKETS_MAX = 8
SIZE_MAX = 2**20


def buckets_of(dims: dict[str, Any]) -> list[dict[str, int]]:
    """Return one bucket for each combination of sizes. If there are no dims, return one empty bucket."""
    names = sorted(dims)
    lists = [value if isinstance(value, list) else [value] for value in (dims[name] for name in names)]
    return [dict(zip(names, values, strict=True)) for values in product(*lists)]


def waiting(dims: dict[str, int], *, narrow: bool = False) -> dict[str, Any]:
    """Return a bucket whose compile has not started. `narrow` adds the stage `calibrate`."""
    names = [name for name in STAGES if narrow or name != "calibrate"]
    rows = [{"name": name, "state": "waiting", "seconds": None} for name in names]
    return {"dims": dims, "program": None, "stages": rows}


def advance(bucket: dict[str, Any], marks: list[tuple[str, float]], now: float, *, ended: str = "") -> dict[str, Any]:
    """Return the bucket at the time `now`, in seconds.

    `marks` are the (stage, start) pairs so far. `ended` is the state of the last stage ("done" or "failed"), or ""
    while the compile is running.
    """
    names = [row["name"] for row in bucket["stages"]]
    known = [(name, at) for name, at in marks if name in names]
    ends = [*(at for _, at in known[1:]), now]
    timed = {name: (at, end) for (name, at), end in zip(known, ends, strict=False)}
    last = known[-1][0] if known else ""
    return {**bucket, "stages": [_row(name, names, timed, last, ended or "running") for name in names]}


def _row(name: str, names: list[str], timed: dict[str, tuple[float, float]], last: str, state: str) -> dict[str, Any]:
    if name in timed:
        start, end = timed[name]
        return {"name": name, "state": state if name == last else "done", "seconds": f"{max(0.0, end - start):.3f}"}
    if last and names.index(name) < names.index(last):
        return {"name": name, "state": "done", "seconds": "0.000"}
    return {"name": name, "state": "waiting", "seconds": None}


def current(bucket: dict[str, Any]) -> str:
    """Return the running stage or, if no stage is running, the last one; empty if no stage has started."""
    seen = [row["name"] for row in bucket["stages"] if row["state"] != "waiting"]
    return seen[-1] if seen else ""
