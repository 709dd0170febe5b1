"""The stages of a compile and its progress through them. Pure."""

from __future__ import annotations

from itertools import product
from typing import Any

STAGES = ("read", "shapes", "lower", "calibrate", "fuse", "schedule", "memory", "binary", "verify", "price")
BUCKETS_MAX = 8
LENGTH_MAX = 2**20


def buckets_of(dims: dict[str, Any]) -> list[dict[str, int]]:
    """{"batch": [1, 8], "length": 16} -> [{"batch": 1, "length": 16}, {"batch": 8, "length": 16}]; one empty bucket
    without dims.
    """
    names = sorted(dims)
    lists = [value if isinstance(value, list) else [value] for value in (dims[name] for name in names)]
    return [dict(zip(names, values, strict=True)) for values in product(*lists)]


def waiting(dims: dict[str, int], *, narrow: bool = False) -> dict[str, Any]:
    """A bucket before it starts; only a narrow precision has the stage `calibrate`."""
    names = [name for name in STAGES if narrow or name != "calibrate"]
    rows = [{"name": name, "state": "waiting", "seconds": None} for name in names]
    return {"dims": dims, "program": None, "stages": rows}


def advance(bucket: dict[str, Any], marks: list[tuple[str, float]], now: float, *, ended: str = "") -> dict[str, Any]:
    """The bucket at second `now`, given `marks`: the (stage, start second) pairs seen so far.

    A stage lasts until the next one starts. `ended` is "" while running, otherwise the state of the last stage
    ("done", "failed"). Unknown names are ignored; a skipped stage between two others counts as done in no time.
    """
    names = [row["name"] for row in bucket["stages"]]
    known = [(name, at) for name, at in marks if name in names]
    starts = dict(known)
    order = [name for name, _ in known]
    rows: list[dict[str, Any]] = []
    for name in names:
        if name in starts:
            index = order.index(name)
            last = index == len(order) - 1
            end = now if last else known[index + 1][1]
            state = (ended or "running") if last else "done"
            rows.append({"name": name, "state": state, "seconds": f"{max(0.0, end - starts[name]):.3f}"})
        else:
            passed = bool(order) and names.index(name) < names.index(order[-1])
            rows.append(
                {"name": name, "state": "done" if passed else "waiting", "seconds": "0.000" if passed else None}
            )
    return {**bucket, "stages": rows}


def current(bucket: dict[str, Any]) -> str:
    """The stage that is running or ran last; empty before the first."""
    seen = [row["name"] for row in bucket["stages"] if row["state"] != "waiting"]
    return seen[-1] if seen else ""
