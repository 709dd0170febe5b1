"""One model of the corpus beside its bounds, in a process of its own: `python -m benchmarks.corpus.measure NAME PRECISION
TARGET PROGRAMS SECONDS BYTES`. Prints a line of JSON whenever more is known, so that what came before a limit is not lost.
Seconds are those of the processor, so that what else a machine does changes nothing.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import compiler
from benchmarks.corpus.listed import models
from benchmarks.corpus.sources import NotMade, data_of
from bin.models import FetchError
from compiler import targets
from compiler.bounds import bounds
from compiler.collecting import uncollected
from compiler.driver import LONGEST, quiet
from compiler.errors import ModelError
from compiler.ir.graph import Graph
from compiler.ir.guards import taken
from compiler.passes import optimise, shape_for_units
from compiler.precision import prepare
from compiler.scheduling.build import Plan, builds
from compiler.scheduling.initiation_interval import FREQUENT
from compiler.targets import Target

# What a run measures: the programs made for one objective each, the balanced program, or all three.
PROGRAMS = {
    "separate": ("latency", "interval", "throughput"),
    "balanced": ("balanced",),
    "all": ("latency", "balanced", "interval", "throughput"),
}


def main(name: str, precision: str, target: str, programs: str, seconds: int, memory: int) -> int:
    """Print what is found; answers the exit status. Refusals of the compiler are findings."""
    try:
        data, dims = data_of(models()[name])
        begun = time.process_time()
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        resource.setrlimit(resource.RLIMIT_CPU, (int(begun) + seconds + 1,) * 2)
        with uncollected():
            _Job(data, dims, precision, targets.resolve(target), begun).run(PROGRAMS[programs])
    except ModelError as error:
        _say(reason=f"refused: {str(error).splitlines()[0]}")
    except (NotMade, FetchError) as error:
        _say(reason=f"missing: {error}")
    except MemoryError:
        _say(reason="memory: more than the limit")
    return 0


def _say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


@dataclass
class _Job:
    data: bytes
    dims: dict[str, int]
    precision: str
    target: Target
    begun: float  # seconds of the processor

    def run(self, objectives: tuple[str, ...]) -> None:
        """Bounds, then the programs. In one call of ``builds`` that for the interval would come last too; apart from the
        others, what is known is said earlier."""
        self.loaded = compiler.load(self.data, dims=self.dims)
        self.ranges = None if self.precision == "float32" else compiler.calibrate(self.loaded, None, self.precision)
        graph = shape_for_units(prepare(optimise(self.loaded), self.precision, self.ranges)[0])
        self.say(stage="prepared", prepared=round(self.seconds, 2))
        found = bounds(taken(graph), self.target)
        self.say(latency_bound=found.latency, latency_limit=found.latency_limit)
        self.say(interval_bound=found.interval, interval_limit=found.interval_limit)
        for some in ([o for o in objectives if o not in FREQUENT], [o for o in objectives if o in FREQUENT]):
            for objective, plan in self._plans(graph, some, LONGEST * found.latency):
                if plan.way is not None:  # a machine that branches has nothing else under way
                    self.say(interval_bound=found.latency, interval_limit=found.latency_limit)
                self.say(**self._figures(objective, plan))

    @property
    def seconds(self) -> float:
        """Of the processor, since the model was read."""
        return time.process_time() - self.begun

    def say(self, **found: Any) -> None:
        """What is known now, with what it took so far."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        _say(**found, seconds=round(self.seconds, 2), megabytes=peak)

    def _plans(self, graph: Graph, objectives: list[str], longest: int) -> list[tuple[str, Plan]]:
        made = builds(graph, self.target, quiet, objectives=objectives, longest=longest) if objectives else []
        return list(zip(objectives, made, strict=True))

    def _figures(self, objective: str, plan: Plan) -> dict[str, Any]:
        """Cycles of a program. One that does not lie on the chip whole is compiled as the command does it: with fewer
        arenas, then with constants in external memory; the compiler refuses what still does not fit."""
        latency, interval, whole = plan.latency, plan.interval, self._fits(plan)
        if not whole:
            program = compiler.compile(self.loaded, self.target, self.precision, self.ranges, objective=objective)
            latency, interval = program.resources.cycles, program.resources.interval
        if objective == "balanced":
            return {"balanced_latency": latency, "balanced_interval": interval, "balanced_whole": whole}
        if objective == "interval":
            return {"interval": interval, "interval_latency": latency, "interval_whole": whole}
        return {objective: latency if objective == "latency" else interval, f"{objective}_whole": whole}

    def _fits(self, plan: Plan) -> bool:
        return self.target.on_chip(plan.map.total, 0) <= self.target.memory_bytes


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(given[0], given[1], given[2], given[3], int(given[4]), int(given[5])))
