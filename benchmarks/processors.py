"""The real models on every processor, in int8. `python -m benchmarks.processors [--precision P] [--large] [CASE ...]`

For each model and shipped processor: whether it fits (else what is missing), latency and interval beside their bounds, bytes on
the chip, in external memory and fetched from it, operations and IO (which must be the same on all of them), and whether the
counters of one seeded run equal the resources in every field. Ends with status 1 when one does not.
"""

from __future__ import annotations

import argparse
import sys

import compiler
from benchmarks.arguments import one_of
from compiler import targets
from tests.models import CASES, LARGE, model_bytes, sensible_feeds


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    known = [*CASES, *LARGE]
    options.add_argument("cases", nargs="*", metavar="CASE", type=one_of(known), help=f"of {', '.join(known)}")
    options.add_argument("--precision", default="int8")
    options.add_argument("--large", action="store_true", help="the large models too")
    chosen = options.parse_args()
    cases = chosen.cases or [*CASES, *(LARGE if chosen.large else ())]
    columns = ("latency", 12), ("x bound", 8), ("interval", 12), ("x bound", 8), ("on chip", 12), ("external", 12)
    columns += ("fetched", 12), ("operations", 14), ("in", 9), ("out", 9)
    print(f"{'model':12} {'target':9} " + " ".join(f"{name:>{width}}" for name, width in columns) + " counters")
    results = [_case(case, chosen.precision) for case in cases]
    return 0 if all(results) else 1


def _case(case: str, precision: str) -> bool:
    data, dims = model_bytes(case)
    graph = compiler.load(data, dims)
    ranges = None if precision == "float32" else compiler.calibrate(graph, None, precision)
    same = set()
    fine = True
    for name in targets.names():
        try:
            program = compiler.compile(graph, name, precision, ranges)
        except compiler.ModelError as error:
            print(f"{case:12} {name:9} {str(error)[:160]}", flush=True)
            continue
        r, b = program.resources, program.bounds
        _, counters = compiler.simulate(program.to_bytes(), sensible_feeds(graph, 1))
        equal = counters.within(r)
        fine &= equal
        same.add((r.operations, r.io.bytes_in, r.io.bytes_out))
        print(
            f"{case:12} {name:9} {r.cycles:>12,} {b['latency']['ratio']:>8} {r.interval:>12,} {b['interval']['ratio']:>8} "
            f"{r.storage.total:>12,} {r.storage.external:>12,} {r.io.external_in:>12,} {r.operations:>14,} {r.io.bytes_in:>9,} "
            f"{r.io.bytes_out:>9,} {'equal' if equal else 'DIFFER'}",
            flush=True,
        )
    if len(same) > 1:
        print(f"{case:12} operations or IO differ between processors: {sorted(same)}")
    return fine and len(same) <= 1


if __name__ == "__main__":
    sys.exit(main())
