"""Memory plans beside their bounds. `python -m benchmarks.memory [--data FOLDER] [--targets T,T] [CASE ...]`

First the published cases of MiniMalloc (https://github.com/google/minimalloc, benchmarks/challenging, A to F; the folder
that holds them is ``--data``): whether each fits in 1,048,576 bytes, the steps of the search and its seconds, the plan
checked pair by pair. Then every real model on every processor and in every precision: its arena over the largest sum of
live bytes, and whether a smaller arena is possible where they differ: what the plan's own search leaves open, an integer
program is asked for so many ``--seconds`` (Sekiyama and others, "Profile-guided memory optimization for deep neural networks",
arXiv:1804.10001; SciPy's HiGHS). Schedules only, without bounds or bytes. A program that does not fit is planned all the same,
and so marked. Ends with status 1 when a plan is wrong or a case does not fit.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from itertools import combinations
from math import ceil, gcd
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import lil_matrix

from benchmarks.arguments import one_of
from benchmarks.data import DataMissing, data_folder
from compiler.memory.offsets import search
from compiler.memory.plan import LiveRange, live_bound, plan, sections

if TYPE_CHECKING:
    from compiler.ir.graph import Graph

CAPACITY = 1_048_576
STEPS = 400_000


def main(arguments: list[str]) -> int:
    """Print both tables; answers the exit status."""
    from tests.models import CASES, LARGE

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description="Memory plans beside their bounds."
    )
    parser.add_argument("--data", type=Path, help="MiniMalloc's challenging benchmarks; fetched unless given")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the search for each file")
    parser.add_argument("--targets", default="lpu,systolic,edge", help="processors, with commas between them")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the integer program for each arena left open")
    parser.add_argument("cases", nargs="*", type=one_of([*CASES, *LARGE]), help="models (all, unless given)")
    given = parser.parse_args(arguments)
    try:
        folder = given.data or data_folder("minimalloc-")
    except DataMissing as error:
        parser.error(str(error))
    files = sorted(folder.glob("*.csv"))
    if not files:
        print(f"no cases in {folder}; give the folder of MiniMalloc's challenging benchmarks with --data")
    failed = sum(not _file(path, given.steps) for path in files)
    _models(given.cases, given.targets.split(","), given.seconds)
    return 1 if failed or not files else 0


def _file(path: Path, steps: int) -> bool:
    with path.open() as rows:
        buffers = [LiveRange(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"])) for r in csv.DictReader(rows)]
    live, lengths = sections(buffers, None)
    began = time.perf_counter()
    found = search([b.size for b in buffers], live, lengths, CAPACITY, steps)
    seconds = time.perf_counter() - began
    verdict = "not found" if found.offsets is None else "fits" if fits(buffers, found.offsets) else "WRONG"
    print(
        f"{path.stem:12} buffers {len(buffers):4}  live {live_bound(buffers):9,}  {verdict:9} "
        f"steps {found.steps:8,}  {seconds:6.1f} s",
        flush=True,
    )
    return verdict == "fits"


def fits(buffers: list[LiveRange], offsets: list[int]) -> bool:
    """Whether the plan is right: nothing beyond the capacity, nothing live at one time on the same byte."""
    inside = all(o >= 0 and o + b.size <= CAPACITY for b, o in zip(buffers, offsets, strict=True))
    apart = all(
        a.end <= b.start or b.end <= a.start or p + a.size <= q or q + b.size <= p
        for (a, p), (b, q) in combinations(zip(buffers, offsets, strict=True), 2)
    )
    return inside and apart


def _models(wanted: list[str], names: list[str], seconds: float) -> None:
    """Print arena / bound of the models."""
    import compiler
    from compiler.passes import optimise, shape_for_units
    from compiler.precision import PRECISIONS, prepare
    from tests.models import CASES, LARGE, model_bytes

    for case in wanted or [*CASES, *LARGE]:
        data, dims = model_bytes(case)
        graph = optimise(compiler.load(data, dims=dims))
        for precision in PRECISIONS:
            fused = shape_for_units(prepare(graph, precision, None)[0])
            for name in names:
                _model(case, precision, name, fused, seconds)


def _model(case: str, precision: str, name: str, graph: Graph, seconds: float) -> None:
    from compiler import targets
    from compiler.errors import ModelError
    from compiler.scheduling.build import build
    from compiler.tiling import external

    target = targets.load(name)
    try:
        found = build(graph, target, lambda _: None, external.extents(target)[0])
    except ModelError as refusal:
        print(f"{case:12} {precision:8} {name:9} refused: {refusal}", flush=True)
        return
    period, arena, bound = found.interval * found.map.copies, found.map.arena, found.arena_bound
    none = (
        arena == bound
        or plan(found.live_ranges, period).smallest
        or least(found.live_ranges, period, arena, seconds) == arena
    )
    reason = "" if arena == bound else "  no smaller one exists" if none else "  a smaller one may exist"
    room = "" if target.on_chip(found.map.total, 0) <= target.memory_bytes else "  (more than it has)"
    print(
        f"{case:12} {precision:8} {name:9} arenas {found.map.copies}  arena {arena:11,}  live {bound:11,}  "
        f"ratio {arena / max(1, bound):.4f}{reason}{room}",
        flush=True,
    )


def least(buffers: list[LiveRange], period: int, arena: int, seconds: float) -> int:
    """What no arena is smaller than, in bytes, for all that an integer program proves in so many seconds; ``arena``: one that
    does. Of two buffers whose lives meet one lies below the other, by a variable of its own."""
    buffers = [b for b in buffers if b.size]
    line = gcd(*(b.size for b in buffers))
    size = np.array([b.size // line for b in buffers])
    live, _ = sections(buffers, period)
    pairs = [(i, j) for i, j in combinations(range(len(size)), 2) if (live[:, i] & live[:, j]).any()]
    count, most = len(size) + len(pairs) + 1, arena // line
    rules, limits = lil_matrix((2 * len(pairs) + len(size), count)), []
    for n, (i, j) in enumerate(pairs):
        rules[2 * n, [i, j, len(size) + n]] = 1, -1, most
        rules[2 * n + 1, [j, i, len(size) + n]] = 1, -1, -most
        limits += [most - size[i], -size[j]]
    for n in range(len(size)):
        rules[2 * len(pairs) + n, [n, count - 1]] = 1, -1
        limits.append(-size[n])
    top = np.append(np.zeros(count - 1), 1)
    above = np.concatenate([most - size, np.ones(len(pairs)), [most]])
    found = milp(
        top,
        constraints=LinearConstraint(rules.tocsr(), -np.inf, limits),
        integrality=np.ones(count),
        bounds=Bounds(top * (live_bound(buffers, period) // line), above),
        options={"time_limit": seconds},
    )
    return ceil(found.mip_dual_bound - 1e-6) * line if found.mip_dual_bound is not None else live_bound(buffers, period)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
