"""From a graph to a program: passes, schedule, memory, bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

from compiler import targets
from compiler.bundle import Buckets, Bundle
from compiler.codegen.emit import emit, noted
from compiler.codegen.notes import notes
from compiler.codegen.pace import shortest_interval
from compiler.collecting import uncollected
from compiler.errors import ModelError
from compiler.ir import Graph
from compiler.ir.guards import taken
from compiler.precision import PRECISIONS, Calibration, offered, prepare
from compiler.precision.feeds import fitting
from compiler.program import Program
from compiler.scheduling.build import Plan, Tiled, plans, tiled
from compiler.scheduling.initiation_interval import OBJECTIVES
from compiler.scheduling.modulo_scheduler import NEVER
from compiler.sharing import Emitted, together
from compiler.shortage import Attempt, Way, floor, hopeless, in_vain, refusal, ways
from compiler.targets import Target
from compiler.tiling import external
from compiler.tiling.budget import TooLong, room

if TYPE_CHECKING:
    from compiler.bounds import Bounds

LONGEST = 4  # the latency of an interval program is at most so many times its bound
Stage = Callable[[str], None]
Examples = Calibration | Sequence[Mapping[str, Any]] | None


def quiet(name: str) -> None:
    """Progress that nobody watches."""


@overload
def compile(
    graph: Graph,
    target: str | Target = ...,
    precision: str = ...,
    calibration: Examples = ...,
    *,
    objective: str = ...,
    on_stage: Stage = ...,
) -> Program: ...
@overload
def compile(
    graph: Buckets,
    target: str | Target = ...,
    precision: str = ...,
    calibration: Examples = ...,
    *,
    objective: str = ...,
    on_stage: Stage = ...,
) -> Bundle: ...


def compile(
    graph: Graph | Buckets,
    target: str | Target = "lpu",
    precision: str = "float32",
    calibration: Examples = None,
    *,
    objective: str = "balanced",
    on_stage: Stage = quiet,
) -> Program | Bundle:
    """Compile a loaded model for a processor version.

    ``target``: a name, the path of a processor's file, or its description (``targets.read``). ``calibration``: feeds from
    which narrow precisions take their ranges, or what ``calibrate`` made of them; seeded feeds without. ``objective``: whether
    the "latency" of one inference or the "interval" between inferences is to be short, at the cost of the other, or both
    are ("balanced"). The latency of "interval" stays within ``LONGEST`` times its bound; "throughput" lets it
    grow. ``on_stage`` hears the name of every stage when it begins. ``ModelError`` names the operation that cannot be compiled,
    ``DoesNotFit`` says what is asked, what there is, and what would close the gap.
    """
    _check_arguments(graph, precision, calibration, objective)
    machine = targets.resolve(target)
    with uncollected():
        if not isinstance(graph, Buckets):
            return Program(_compile(graph, machine, precision, calibration, objective, on_stage).binary, machine)
        if isinstance(calibration, Calibration):
            raise ModelError(
                "one calibration does not serve several buckets; give its feeds, or compile bucket by bucket"
            )
        each = (_compile(g, machine, precision, fitting(g, calibration), objective, on_stage) for g in graph.graphs)
        sequence = all("context" in g.metadata for g in graph.graphs)
        binaries = together(list(each)) if sequence else [one.binary for one in each]
    return Bundle(graph.dims, tuple(Program(binary, machine) for binary in binaries))


def _check_arguments(graph: Any, precision: str, calibration: Any, objective: str) -> None:
    """``ModelError`` for an argument of ``compile`` that is of another kind, or is none of those offered."""
    if precision not in PRECISIONS:
        raise ModelError(f"precision {precision!r} is not offered yet; choose one of: {', '.join(PRECISIONS)}")
    if objective not in OBJECTIVES:
        raise ModelError(f"objective {objective!r} is not known; choose one of: {', '.join(OBJECTIVES)}")
    if not isinstance(graph, Graph | Buckets):
        raise ModelError(f"compile takes what load gives, not {type(graph).__name__}: compile(load(model))")
    if isinstance(calibration, str | bytes | Mapping) or not isinstance(calibration, Calibration | Sequence | None):
        raise ModelError(
            f"calibration takes a list of feeds, each {{input: array}}, or what calibrate gives, not {type(calibration).__name__}"
        )


def _compile(
    graph: Graph, target: Target, precision: str, calibration: Examples, objective: str, on_stage: Stage
) -> Emitted:
    from compiler.passes import optimise, shape_for_units

    if precision not in offered(target.matrix.tiles):
        others = ", ".join(offered(target.matrix.tiles))
        raise ModelError(
            f"{target.name} has no planes for {precision}; choose one of {others}, or a processor whose [matrix.tiles] names it"
        )
    on_stage("fuse")
    optimised = optimise(graph)
    _require_room(optimised)
    fused, accuracy = prepare(optimised, precision, calibration)
    fused = shape_for_units(fused)
    job = _Job(fused, target, precision, objective, accuracy | {"objective": objective}, on_stage)
    tried: list[Attempt] = []
    for way in ways(fused, target):
        if job.unused is not None and way.graph.nodes is job.unused.source.nodes:
            continue  # in vain in any order
        try:
            found = job.tried(way)
        except TooLong:
            if not tried:
                tried = [floor(fused, target)]
                if tried[0].total <= target.memory_bytes:
                    raise
            break  # memory is what is missing, and whatever fits is too long
        if isinstance(found, Emitted):
            return found
        tried.append(found)
        if hopeless(found):
            break
    raise refusal(fused, tried)


@dataclass
class _Job:
    """What is compiled, and for what. ``facts``: that the program states; ``unused``: tiles that were not scheduled."""

    fused: Graph
    target: Target
    precision: str
    objective: str
    facts: dict[str, Any]
    on_stage: Stage
    unused: Tiled | None = None

    @cached_property
    def proven(self) -> Bounds:
        """Cycles below which no program of the graph goes."""
        from compiler.bounds import bounds

        return bounds(taken(self.fused), self.target)

    @property
    def longest(self) -> int:
        """Cycles of latency that the objective "interval" may cost."""
        return LONGEST * self.proven.latency if self.objective == "interval" else NEVER

    def tried(self, way: Way) -> Emitted | Attempt:
        """A program that fits, or what the last one asks for: with fewer arenas, then with constants in external memory."""
        target, extents = self.target, external.extents(self.target)
        for extent in extents[-1:] if way.in_turns else extents:
            for copies in (1,) if way.in_turns else (0, 1):  # one arena before anything else leaves the chip
                made = tiled(
                    way.graph,
                    target,
                    self.on_stage,
                    extent,
                    in_turns=way.in_turns,
                    unused=self.unused,
                    objective=self.objective,
                )
                self.unused = made if in_vain(made) else None
                if self.unused is not None:
                    attempt = Attempt.unplanned(made)
                    break
                (plan,) = plans(made, self.on_stage, copies, (self.objective,), self.longest)
                attempt = Attempt.planned(plan)
                if _fits(plan, 0):
                    self.on_stage("binary")
                    found = self._emitted(plan, way.graph)
                    if _fits(plan, found.binary.instruction_bytes):
                        return found
                    attempt = Attempt.planned(plan, found.binary.instruction_bytes)
                if plan.map.copies == 1:
                    break
        return attempt

    def _least(self, plan: Plan) -> dict[str, Any]:
        """The proven bounds of latency and interval, and what limits them."""
        proven = self.proven
        least = {
            "latency": proven.latency,
            "latency_limit": proven.latency_limit,
            "interval": proven.interval,
            "interval_limit": proven.interval_limit,
        }
        if plan.way is not None:  # a machine that branches has nothing else under way
            least |= {"interval": proven.latency, "interval_limit": proven.latency_limit}
        return least

    def _emitted(self, plan: Plan, graph: Graph) -> Emitted:
        """The program of a plan, with the shortest interval that its instructions allow."""
        least = self._least(plan)
        said = notes(plan, graph, least, self.precision) | self.facts
        binary = emit(plan, said)
        interval = shortest_interval(plan, binary)
        if interval < plan.interval:
            plan = replace(plan, interval=interval)
            said = notes(plan, graph, least, self.precision) | self.facts
            binary = replace(binary, interval=interval, notes=noted(said))
        return Emitted(plan, said, replace(binary, derived=True))


def _require_room(graph: Graph) -> None:
    """``TooLong`` before anything is calibrated; passes to come may merge what is still too much."""
    from compiler.passes import shape_for_units

    try:
        room(graph)
    except TooLong:
        room(shape_for_units(graph))


def _fits(plan: Plan, instructions: int) -> bool:
    return plan.target.on_chip(plan.map.total, instructions) <= plan.target.memory_bytes
