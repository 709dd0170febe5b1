"""Latency and interval beside their proven bounds: `python -m benchmarks.near_bound [--precision P] [--run] [MODEL ...]`

For each real model on `lpu`: the latency of the program that is made short in latency, its bound, their ratio and what limits
it; the same of the interval, of the program that is made short in that; the cycles that each kind of unit works in one
inference (the units of a kind together, divided by their number); latency and interval of the balanced program. Then medians
and largest ratios. All of it again on the same processor with every latency doubled whose source says "chosen", and, for the
largest image classifier, with links of no cost. `--run` runs inferences back to back on the simulator, more than there are
arenas, which refuses any conflict between them. Ends with status 1 when a ratio is above the limits that the project has
set itself.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import compiler
from benchmarks.arguments import one_of, parser
from compiler import targets
from compiler.bounds import bounds
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.driver import quiet
from compiler.errors import ModelError
from compiler.ir.graph import Graph
from compiler.ir.guards import taken
from compiler.passes import optimise, shape_for_units
from compiler.precision import prepare
from compiler.scheduling.build import Plan, builds
from compiler.simulator import simulate
from compiler.targets import Target
from tests.models import CASES, LARGE, model_bytes, sensible_feeds

LATENCY, INTERVAL = (1.25, 1.5), (1.15, 1.3)  # median and largest of cycles / bound
WITHOUT_LINKS = "resnet50"
FREE = 1 << 24  # bytes per cycle of a link that costs nothing
BACK_TO_BACK = 3


def doubled(target: Target) -> Target:
    """The processor with every latency doubled that is the project's own choice."""
    units = {
        name: replace(unit, latency=2 * unit.latency)
        for name, unit in target.classes()
        if target.figures.get(f"{name}.latency", (0, ""))[1].startswith("chosen")
    }
    return replace(target, **units)


def without_links(target: Target) -> Target:
    """The processor with its data there from the beginning, and its results gone as they are ready."""
    links: dict[str, Any] = {
        name: replace(getattr(target, name), bytes_per_cycle=FREE, latency=0) for name in ("link_in", "link_out")
    }
    return replace(target, **links)


def main(wanted: list[str], precision: str, run: bool) -> int:
    """Print the tables; answers the exit status."""
    target = targets.load("lpu")
    graphs = dict(_graphs(wanted or [*CASES, *LARGE], precision))
    failed = _table("as it is", target, graphs, run=run)
    failed |= _table('with "chosen" latencies doubled', doubled(target), graphs, run=False)
    if WITHOUT_LINKS in graphs:
        _table("with links of no cost", without_links(target), {WITHOUT_LINKS: graphs[WITHOUT_LINKS]}, run=False)
    return int(failed)


def _graphs(wanted: list[str], precision: str) -> Iterator[tuple[str, Graph]]:
    for name in wanted:
        data, dims = model_bytes(name)
        try:
            yield name, shape_for_units(prepare(optimise(compiler.load(data, dims=dims)), precision, None)[0])
        except ModelError as error:
            print(f"{name}: {error}", file=sys.stderr)


def _table(title: str, target: Target, graphs: dict[str, Graph], *, run: bool) -> bool:
    """One processor: a line per model, then medians and maxima; answers whether a limit is missed."""
    print(f"\n{target.name}, {title}")
    print(
        f"{'model':12} {'latency':>8} {'bound':>8} {'ratio':>6} {'interval':>9} {'bound':>8} {'ratio':>6}  limits; unit cycles"
    )
    ratios: list[tuple[float, float]] = []
    for name, graph in graphs.items():
        plan, often, both = builds(graph, target, quiet, objectives=("latency", "throughput", "balanced"))
        found = bounds(taken(graph), target)
        branches = plan.way is not None  # then one inference follows the other
        least, limit = (found.latency, found.latency_limit) if branches else (found.interval, found.interval_limit)
        ratios.append((plan.latency / found.latency, often.interval / least))
        work = ", ".join(f"{unit} {cycles}" for unit, cycles in loads(often).items())
        print(
            f"{name:12} {plan.latency:8} {found.latency:8} {ratios[-1][0]:6.2f} {often.interval:9} {least:8} "
            f"{ratios[-1][1]:6.2f}  {found.latency_limit}; {limit}; {work}; balanced {both.latency}, "
            f"{both.interval}",
            flush=True,
        )
        if run:
            _run(plan, graph)
            _run(often, graph)
    columns = [sorted(column) for column in zip(*ratios, strict=True)]
    for what, column, limits in zip(("latency", "interval"), columns, (LATENCY, INTERVAL), strict=True):
        print(
            f"{what} / bound: median {median(column):.2f} (wanted {limits[0]}), largest {column[-1]:.2f} ({limits[1]})"
        )
    return any(
        median(column) > limits[0] or column[-1] > limits[1]
        for column, limits in zip(columns, (LATENCY, INTERVAL), strict=True)
    )


def loads(plan: Plan) -> dict[str, int]:
    """Cycles of work per unit of each class in one inference, the most first."""
    work: Counter[str] = Counter()
    for tile in plan.tiles:
        work[tile.unit[0]] += tile.beats
    per_unit = {unit: -(-cycles // plan.target.unit(unit).instances) for unit, cycles in work.items()}
    return dict(sorted(per_unit.items(), key=lambda item: (-item[1], item[0])))


def _run(plan: Plan, graph: Graph) -> None:
    """Inferences back to back at the interval; the counters must say what the schedule says."""
    binary = emit(plan, notes(plan, graph, {"latency": 0, "interval": 0}, "float32"))
    feeds = [sensible_feeds(graph, seed) for seed in range(max(BACK_TO_BACK, plan.map.copies + 1))]
    counters = simulate(binary.to_bytes(), feeds)[1]
    assert (counters.cycles, counters.interval) == (plan.latency, plan.interval)
    print(f"{'':12} ran {len(feeds)} inferences in {plan.map.copies} arenas, one every {counters.interval} cycles")


if __name__ == "__main__":
    command = parser("near_bound", __doc__)
    command.add_argument("models", nargs="*", type=one_of([*CASES, *LARGE]), metavar="MODEL")
    command.add_argument("--precision", default="int8", choices=["float32", "float16", "int8"])
    command.add_argument("--run", action="store_true")
    chosen = command.parse_args()
    sys.exit(main(chosen.models, chosen.precision, chosen.run))
