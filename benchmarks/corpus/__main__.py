"""Nearness of programs to their proven bounds over the corpus of `benchmarks/corpus/models.toml`.

`make` fetches models and exports the others (its own environment, 6 GB, comes first). `run` measures: per model the latency of
the program made for latency, the interval of those made for the interval and for throughput, and both of the balanced program,
each divided by its proven bound; what limits them; seconds of the processor; why there is no program. Then, for each part of the
corpus, medians, 90th percentiles, largest ratios. A model that is refused, takes too long or too much memory, or crashes the
compiler, counts as infinite.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.arguments import one_of, parser, whole
from benchmarks.corpus import make, run, summary
from benchmarks.corpus.listed import models
from benchmarks.corpus.split import PARTS

MODELS = models()


def main(arguments: list[str]) -> int:
    """Make or run what is named; answers the exit status."""
    command = parser("corpus", __doc__)
    tasks = command.add_subparsers(dest="task", required=True)
    making = tasks.add_parser("make", help="fetch and export models that are not there yet")
    making.add_argument("--lock", action="store_true", help="write the digests of exports into digests.toml")
    running = tasks.add_parser("run", help="measure models beside their bounds")
    running.add_argument("--part", default="all", choices=[*PARTS, "all"])
    running.add_argument("--precision", default="int8", choices=["float32", "float16", "int8"])
    running.add_argument("--target", default="lpu", help="a processor's name or file")
    running.add_argument("--objective", default="all", choices=list(run.OF), help="programs to make")
    running.add_argument("--jobs", type=whole, default=1, help="models at once")
    running.add_argument("--limit", type=whole, default=120, help="seconds of the processor for a model")
    running.add_argument("--memory", type=whole, default=8, help="GB for a model")
    running.add_argument("--csv", type=Path, help="file for all figures")
    for task in (making, running):
        task.add_argument("models", nargs="*", type=one_of(MODELS), metavar="MODEL")
    given = command.parse_args(arguments)
    wanted = [MODELS[name] for name in given.models or MODELS]
    if given.task == "make":
        return make.make(wanted, lock=given.lock)
    wanted = [model for model in wanted if given.part in (model.part, "all")]
    rows = []
    memory = given.memory * 10**9
    how = run.How(given.precision, given.target, given.objective, max(1, given.jobs), given.limit, memory)
    for row in run.run(wanted, how):
        rows.append(row)
        print(run.line(row), flush=True)
        if given.csv:
            run.write(given.csv, rows)
    for line in (*summary.summaries(rows, run.OF[how.programs]), *summary.far(rows, run.OF[how.programs])):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
