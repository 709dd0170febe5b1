"""Memory plans beside their bounds. `python -m benchmarks.memory [--data FOLDER] [--steps N] [CASE ...]`

First the published cases of MiniMalloc (https://github.com/google/minimalloc, benchmarks/challenging, A to F; the folder
that holds them is ``--data``): whether each fits in 1,048,576 bytes, the steps of the search and its seconds, the plan
checked pair by pair. Then for every real model on `lpu` its arena over the largest sum of live bytes. Ends with
status 1 when a plan is wrong or a case does not fit.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from itertools import combinations
from pathlib import Path

from compiler.schedule.memory import Lifetime, live_bound, sections
from compiler.schedule.offsets import search

ROOT = Path(__file__).resolve().parent.parent
CAPACITY = 1_048_576
STEPS = 400_000


def main(arguments: list[str]) -> int:
    """Print both tables; answers the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description="Memory plans beside their bounds."
    )
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "minimalloc")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of the search for each file")
    parser.add_argument("cases", nargs="*", help="models (all, unless given)")
    given = parser.parse_args(arguments)
    files = sorted(given.data.glob("*.csv"))
    if not files:
        print(f"no cases in {given.data}; give the folder of MiniMalloc's challenging benchmarks with --data")
    failed = sum(not _file(path, given.steps) for path in files)
    return 1 if failed + _models(given.cases) or not files else 0


def _file(path: Path, steps: int) -> bool:
    with path.open() as rows:
        buffers = [Lifetime(r["id"], int(r["size"]), int(r["lower"]), int(r["upper"])) for r in csv.DictReader(rows)]
    live, lengths = sections(buffers, None)
    began = time.perf_counter()
    found = search([b.size for b in buffers], live, lengths, CAPACITY, steps)
    seconds = time.perf_counter() - began
    verdict = "not found" if found.offsets is None else "fits" if fits(buffers, found.offsets) else "WRONG"
    print(f"{path.stem:12} buffers {len(buffers):4}  live {live_bound(buffers):9,}  {verdict:9} "
          f"steps {found.steps:8,}  {seconds:6.1f} s", flush=True)  # fmt: skip
    return verdict == "fits"


def fits(buffers: list[Lifetime], offsets: list[int]) -> bool:
    """Whether the plan is right: nothing beyond the capacity, nothing live at one time on the same byte."""
    inside = all(o >= 0 and o + b.size <= CAPACITY for b, o in zip(buffers, offsets, strict=True))
    apart = all(
        a.end <= b.start or b.end <= a.start or p + a.size <= q or q + b.size <= p
        for (a, p), (b, q) in combinations(zip(buffers, offsets, strict=True), 2)
    )
    return inside and apart


def _models(wanted: list[str]) -> int:
    """Print arena / bound of the models; answers how many have no line."""
    import compiler
    from tests.models import BOUND, CASES, LARGE, model_bytes

    for case in wanted or [*CASES, *LARGE]:
        data, dims = model_bytes(case)
        program = compiler.compile(compiler.load(data, dims=dims, constants=BOUND.get(case, {})))
        memory = program.bounds["memory"]
        print(f"{case:12} arena {memory['ours']:12,}  live {memory['bound']:12,}  ratio {memory['ratio']}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
