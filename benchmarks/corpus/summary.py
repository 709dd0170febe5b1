"""What is said of many models: medians, 90th percentiles, the largest, and which lie far above their bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, inf, isinf
from statistics import median_low
from typing import Any

from benchmarks.corpus.split import PARTS, WORK
from compiler.driver import LONGEST

FAR = 2.5
LONG, SELDOM = 1.6, 1.4  # ratios of latency and of interval above which a model is listed
KINDS = ("refused", "time", "memory", "crashed", "missing")  # reasons begin with one of them


def summaries(rows: Sequence[dict[str, Any]], ratios: Sequence[str]) -> Iterator[str]:
    """Lines for each part that rows are of; what has no program counts as infinite in every figure."""
    for part in PARTS:
        some = [row for row in rows if row["part"] == part]
        if not some:
            continue
        ended = {kind: sum(row["reason"].startswith(kind) for row in some) for kind in KINDS}
        yield f"{part}: {len(some)} models; " + ", ".join(f"{kind} {count}" for kind, count in ended.items())
        yield f"{'':24} {'median':>7} {'90 %':>7} {'largest':>8} {'above ' + str(FAR):>10} {'of these infinite':>18}"
        for ratio in ratios:
            values = sorted(row[ratio] for row in some)
            figures = f"{median_low(values):7.2f} {ninth(values):7.2f} {_largest(values):8.2f}"
            infinite = sum(map(isinf, values))
            yield f"{ratio.replace('_', ' '):24} {figures} {sum(v > FAR for v in values):10} {infinite:18}"
        held = [row["interval_latency"] / row["latency_bound"] for row in some if row.get("interval_latency")]
        if held:
            above = sum(latency > LONGEST for latency in held)
            yield f"latency of interval programs: at most {max(held):.2f} x its bound, {above} above {LONGEST}"


def ninth(values: Sequence[float]) -> float:
    """The 90th percentile of sorted values, by the nearest rank: at least 90 % of them are not above it."""
    return values[ceil(0.9 * len(values)) - 1]


def _largest(values: Sequence[float]) -> float:
    """Of sorted values those that are finite; infinite ones are counted beside it."""
    return max((v for v in values if not isinf(v)), default=inf)


def far(rows: Sequence[dict[str, Any]], ratios: Sequence[str]) -> Iterator[str]:
    """The models of the part to work on above the limits, the farthest first. The other part is counted and not named:
    who knows its names begins to work on them."""
    limits = {ratio: LONG if "latency" in ratio else SELDOM for ratio in ratios}
    above = [row for row in rows if any(row[ratio] > limit for ratio, limit in limits.items())]
    named = sorted((row for row in above if row["part"] == WORK), key=lambda row: -max(row[r] for r in ratios))
    yield f"above {LONG} in latency or {SELDOM} in interval: {len(named)} of {WORK}, {len(above) - len(named)} others"
    for row in named:
        figures = " ".join(f"{row[ratio]:7.2f}" for ratio in ratios)
        yield f"  {row['name']:22} {figures}  {row['reason'] or row['latency_limit'] + '; ' + row['interval_limit']}"
