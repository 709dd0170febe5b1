"""From a graph to a program: passes, schedule, memory, bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from compiler import targets
from compiler.bundle import Buckets, Bundle
from compiler.codegen.emit import emit
from compiler.codegen.notes import notes
from compiler.errors import DoesNotFit, ModelError
from compiler.ir.graph import Graph
from compiler.program import Program
from compiler.schedule.build import Plan, build
from compiler.targets import Target

PRECISIONS = ("float32",)
Stage = Callable[[str], None]


def quiet(name: str) -> None:
    """Progress that nobody watches."""


@overload
def compile(graph: Graph, target: str | Target = ..., precision: str = ..., *, on_stage: Stage = ...) -> Program: ...
@overload
def compile(graph: Buckets, target: str | Target = ..., precision: str = ..., *, on_stage: Stage = ...) -> Bundle: ...


def compile(
    graph: Graph | Buckets, target: str | Target = "lpu", precision: str = "float32", *, on_stage: Stage = quiet
) -> Program | Bundle:
    """Compile a loaded model for a processor version (G2, G3, G4).

    ``target``: a name, the path of a processor's file, or its description (``targets.read``). ``on_stage`` hears the name
    of every stage when it begins. ``ModelError`` names the operation that cannot be compiled, ``DoesNotFit`` says what is
    asked, what there is, and what would close the gap.
    """
    if precision not in PRECISIONS:
        raise ModelError(f"precision {precision!r} is not offered yet; choose one of: {', '.join(PRECISIONS)}")
    machine = targets.resolve(target)
    if isinstance(graph, Buckets):
        programs = tuple(_compile(g, machine, precision, on_stage) for g in graph.graphs)
        return Bundle(graph.dims, programs)
    return _compile(graph, machine, precision, on_stage)


def _compile(graph: Graph, target: Target, precision: str, on_stage: Stage) -> Program:
    from compiler.bounds import bounds
    from compiler.passes import optimise

    on_stage("fuse")
    fused = optimise(graph)
    proven = bounds(fused, target)
    plan = build(fused, target, on_stage)
    _check_size(plan, 0)
    on_stage("binary")
    least = {
        "latency": proven.latency, "latency_limit": proven.latency_limit,
        "interval": proven.interval, "interval_limit": proven.interval_limit,
    }  # fmt: skip
    binary = emit(plan, notes(plan, fused, least, precision))
    _check_size(plan, binary.instruction_bytes)
    return Program(binary, target)


def _check_size(plan: Plan, instructions: int) -> None:
    """Refuse what is larger than the memory, with the levers that would close the gap."""
    asked = plan.target.on_chip(plan.map.total, instructions)
    available = plan.target.memory_bytes
    if asked <= available:
        return
    levers: list[dict[str, Any]] = []
    if plan.map.constants:
        saved = plan.map.constants // 2
        levers.append({"lever": "precision", "effect": saved, "text": f"float16 weights would take {saved} bytes less"})
    spare = plan.map.activations - plan.arena_bound
    if spare:
        levers.append(
            {"lever": "memory plan", "effect": spare, "text": f"a perfect plan of the arena would save {spare} bytes"}
        )
    for name in targets.names():
        other = targets.load(name)
        if other.memory_bytes > available:
            more = other.memory_bytes - available
            levers.append({"lever": "target", "effect": more, "text": f"{name} has {more} bytes more"})
    raise DoesNotFit(
        f"the program needs {asked} bytes of on-chip memory, {asked - available} more than the {available} of "
        f"{plan.target.name}; " + ("; ".join(lever["text"] for lever in levers) or "split the model"),
        asked=asked, available=available, levers=levers,
    )  # fmt: skip
