"""The memory map: the addresses and cycles that each buffer occupies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.pages.report.timeline import live_bytes

DRAWN = 1500
TITLES = (
    ("weights", "Weights"),
    ("state", "State"),
    ("activations", "Activations (arena)"),
    ("instructions", "Instructions"),
    ("scratch", "Scratch"),
)


def memory_map(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the buffers as rectangles of addresses and cycles, largest first, and the live bytes over time.

    The drawing starts at the address `base`, above the weights and the state, which are much larger than the buffers.
    `highest` is the highest address in use, counted from `base`. It is above the peak of the live bytes where free
    space lies between buffers.
    """
    storage = report["resources"]["storage"]
    moving = [buffer for buffer in report["memory"] if buffer["kind"] == "arena"]
    moving.sort(key=lambda one: (-one["size"] * (one["last"] - one["first"]), one["address"], one["first"]))
    line = live_bytes(report)
    peak = max(line, key=lambda point: (point[1], -point[0]), default=(0, 0))
    base = storage["weights"] + storage["state"]
    return {
        "base": base,
        "top": base + storage["activations"] // report.get("arenas", 1),
        "latency": report["resources"]["cycles"],
        "buffers": [[b["buffer"], b["address"], b["size"], b["first"], b["last"]] for b in moving[:DRAWN]],
        "left_out": max(0, len(moving) - DRAWN),
        "live": [list(point) for point in line],
        "peak": {"cycle": peak[0], "bytes": peak[1]},
        "highest": max((buffer["address"] + buffer["size"] - base for buffer in moving), default=0),
    }


def storage_rows(report: Mapping[str, Any], *, on_chip: int) -> list[dict[str, Any]]:
    """Return the parts of the storage that lie on the chip, whose bytes add up to `on_chip`.

    Instructions that are streamed from external memory are no part of it.
    """
    storage, arenas = dict(report["resources"]["storage"]), report.get("arenas", 1)
    storage["instructions"] -= storage["total"] - on_chip
    titles = dict(TITLES) | ({"activations": f"Activations ({arenas} arenas, used in turn)"} if arenas > 1 else {})
    return [{"key": key, "title": title, "bytes": storage[key]} for key, title in titles.items() if storage[key]]
