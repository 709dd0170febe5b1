"""The schedule as lanes of bars, one lane for each unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

BARS_PER_LANE = 260
Run = Sequence[int]  # unit, start, cycles, row


def timeline(report: Mapping[str, Any], *, start: int, end: int, bars: int = BARS_PER_LANE) -> dict[str, Any]:
    """Return the lanes in the cycles [start, end). A bar is [unit, start, end, operation, fullness, runs].

    A lane with more than `bars` runs is divided into at most `bars` equal stretches. A stretch shows the operation that
    takes the most cycles. Fullness is in thousandths.
    """
    latency = report["resources"]["cycles"]
    start, end = max(0, min(start, latency - 1)), max(1, min(end, latency))
    if end <= start:
        end = start + 1
    number = {unit["name"]: place for place, unit in enumerate(report["units"])}
    lanes: list[list[Run]] = [[] for _ in number]
    for name, at, cycles, row in report["timeline"]:
        if at < end and at + cycles > start:
            lanes[number[name]].append((number[name], at, cycles, row))
    found: list[list[int]] = []
    folded = False
    for lane in lanes:
        if len(lane) <= bars:
            found += [[unit, at, at + cycles, row, 1000, 1] for unit, at, cycles, row in lane]
        else:
            folded = True
            found += _folded(lane, start, end, bars)
    return {"start": start, "end": end, "latency": latency, "folded": folded, "bars": found}


def _folded(lane: Sequence[Run], start: int, end: int, bars: int) -> list[list[int]]:
    width = -(-(end - start) // bars)
    busy: list[Counter[int]] = [Counter() for _ in range(-(-(end - start) // width))]
    count = [0] * len(busy)
    for _, at, cycles, operation in lane:
        first = max(at, start)
        last = min(at + cycles, end)
        count[(first - start) // width] += 1
        for stretch in range((first - start) // width, (last - 1 - start) // width + 1):
            left = start + stretch * width
            busy[stretch][operation] += min(last, left + width) - max(first, left)
    found: list[list[int]] = []
    for stretch, by_operation in enumerate(busy):
        if not by_operation:
            continue
        left = start + stretch * width
        right = min(left + width, end)
        # the smallest index among equals, so that the picture is the same every time
        operation = min(by_operation, key=lambda one: (-by_operation[one], one))
        fullness = sum(by_operation.values()) * 1000 // (right - left)
        previous = found[-1] if found else None
        if previous and previous[2] == left and previous[3] == operation and abs(previous[4] - fullness) <= 50:
            previous[2], previous[5] = right, previous[5] + count[stretch]
        else:
            found.append([lane[0][0], left, right, operation, fullness, count[stretch]])
    return found


def live_bytes(report: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Return (cycle, bytes) for each cycle in which the size of the live intermediate tensors changes."""
    change: Counter[int] = Counter()
    for buffer in report["memory"]:
        if buffer["kind"] == "arena":
            change[buffer["first"]] += buffer["size"]
            change[buffer["last"]] -= buffer["size"]
    found, live = [], 0
    for cycle in sorted(change):
        live += change[cycle]
        found.append((cycle, live))
    return found
