"""The stages of a compile, and its progress through them. Pure functions."""

from __future__ import annotations

from itertools import product
from typing import Any

STAGES = ("read", "shapes", "lower", "calibrate", "fuse", "schedule", "memory", "binary", "verify", "price")
BUCKETS_MAX = 8
SIZE_MAX = 2**20


def buckets_of(dims: dict[str, Any]) -> list[dict[str, int]]:
    """Expand {"batch": [1, 8], "length": 16} to [{"batch": 1, "length": 16}, {"batch": 8, "length": 16}].

    If there are no dims, return one empty bucket.
    """
    names = sorted(dims)
    lists = [value if isinstance(value, list) else [value] for value in (dims[name] for name in names)]
    return [dict(zip(names, values, strict=True)) for values in product(*lists)]


def waiting(dims: dict[str, int], *, narrow: bool = False) -> dict[str, Any]:
    """Return a bucket whose compile has not started. Only a narrow precision has the stage `calibrate`."""
    names = [name for name in STAGES if narrow or name != "calibrate"]
    rows = [{"name": name, "state": "waiting", "seconds": None} for name in names]
    return {"dims": dims, "program": None, "stages": rows}


def advance(bucket: dict[str, Any], marks: list[tuple[str, float]], now: float, *, ended: str = "") -> dict[str, Any]:
    """Return the bucket at the time `now`. `marks` are the (stage, start) pairs seen so far. Times are in seconds.

    A stage lasts until the next stage starts. `ended` is "" while the compile is running; afterwards, it is the state
    of the last stage ("done" or "failed"). Unknown stages are ignored. A stage that was skipped counts as done in 0
    seconds.
    """
    names = [row["name"] for row in bucket["stages"]]
    known = [(name, at) for name, at in marks if name in names]
    ends = [*(at for _, at in known[1:]), now]
    timed = {name: (at, end) for (name, at), end in zip(known, ends, strict=False)}
    last = known[-1][0] if known else ""
    return {**bucket, "stages": [_row(name, names, timed, last, ended or "running") for name in names]}


def _row(name: str, names: list[str], timed: dict[str, tuple[float, float]], last: str, state: str) -> dict[str, Any]:
    """Return the entry of one stage.

    `timed` maps each started stage to its (start, end). `last` is the stage that started last, and `state` is its
    state.
    """
    if name in timed:
        start, end = timed[name]
        return {"name": name, "state": state if name == last else "done", "seconds": f"{max(0.0, end - start):.3f}"}
    if last and names.index(name) < names.index(last):
        return {"name": name, "state": "done", "seconds": "0.000"}
    return {"name": name, "state": "waiting", "seconds": None}


def current(bucket: dict[str, Any]) -> str:
    """Return the stage that is running or ran last; empty if none has started."""
    seen = [row["name"] for row in bucket["stages"] if row["state"] != "waiting"]
    return seen[-1] if seen else ""
