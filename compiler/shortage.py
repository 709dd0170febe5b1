"""What is tried when a program does not fit its processor's memory, and what would close the gap when nothing helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from compiler import targets
from compiler.errors import DoesNotFit, ModelError
from compiler.passes.bands import in_bands
from compiler.schedule import external
from compiler.schedule.branches import guarded
from compiler.schedule.build import Plan, build

if TYPE_CHECKING:
    from compiler.ir.graph import Graph
    from compiler.targets import Target

SHARES = (80, 60, 45, 30, 20)  # percent of the memory that bands are cut for, until the program fits
MEASURED = 12_000  # instructions of a program whose levers are measured by building them
LARGEST = 60_000  # and of one that is tried in turns and bands


@dataclass(frozen=True)
class Way:
    """A graph that computes the same; ``in_turns``: one operation after the other."""

    graph: Graph
    in_turns: bool


def ways(graph: Graph, target: Target) -> Iterator[Way]:
    """The graph as it is; then in turns, which are longer but keep less live; then in more and more bands."""
    yield Way(graph, in_turns=False)
    if guarded(graph) or not graph.nodes:
        return
    yield Way(_noted(graph, "operations in turns"), in_turns=True)
    room = target.memory_bytes
    known = len(graph.nodes)
    for share in SHARES:
        banded = in_bands(graph, room * share // 100)
        if banded is None:
            return
        if len(banded.nodes) != known:
            known = len(banded.nodes)
            yield Way(_noted(banded, "operations in turns and in bands"), in_turns=True)


def _noted(graph: Graph, how: str) -> Graph:
    return replace(graph, metadata={**graph.metadata, "memory": how})


def hopeless(plan: Plan) -> bool:
    """Whether the constants and states alone are more than there is, so that no order of operations helps; or the program
    is too large to try."""
    fixed = plan.map.constants + plan.map.state
    return plan.target.on_chip(fixed, 0) > plan.target.memory_bytes or len(plan.tiles) > LARGEST


def refusal(graph: Graph, tried: list[tuple[Plan, int]]) -> DoesNotFit:
    """What was asked, and the levers. ``tried``: the plans of all ways with the bytes of their instructions (0: not even
    the rest fits), as it is first."""
    (plan, instructions), *_ = tried
    least = min((p for p, _ in tried), key=lambda p: p.map.total)
    asked, available = plan.target.on_chip(plan.map.total, instructions), plan.target.memory_bytes
    levers = _levers(plan, graph, least)
    return DoesNotFit(
        f"the program needs {asked} bytes of on-chip memory, {asked - available} more than the {available} of "
        f"{plan.target.name}; " + ("; ".join(lever["text"] for lever in levers) or "split the model"),
        asked=asked, available=available, levers=levers,
    )  # fmt: skip


def _levers(plan: Plan, graph: Graph, least: Plan) -> list[dict[str, Any]]:
    levers: list[dict[str, Any]] = []
    if plan.map.constants:
        saved = plan.map.constants // 2
        levers.append({"lever": "precision", "effect": saved, "text": f"float16 weights would take {saved} bytes less"})
    if least.map.total < plan.map.total:
        saved, longer = plan.map.total - least.map.total, least.latency - plan.latency
        levers.append(
            {"lever": "bands", "effect": saved, "cycles": longer, "measured": True,
             "text": f"operations one after the other, in bands where that helps, take {saved} bytes less "
                     f"and {longer} cycles more"}
        )  # fmt: skip
    spare = plan.map.activations - plan.map.copies * plan.arena_bound
    if spare:
        levers.append(
            {"lever": "memory plan", "effect": spare, "text": f"a perfect plan of the arena would save {spare} bytes"}
        )
    for name in targets.names():
        lever = _target(name, plan, graph)
        if lever is not None:
            levers.append(lever)
    return levers


def _target(name: str, plan: Plan, graph: Graph) -> dict[str, Any] | None:
    """Another processor with more memory; a program of moderate size is built for it."""
    other = targets.load(name)
    more = other.memory_bytes - plan.target.memory_bytes
    if more <= 0:
        return None
    lever = {"lever": "target", "effect": more, "text": f"{name} has {more} bytes more"}
    if len(plan.tiles) > MEASURED:
        return lever
    try:
        found = build(graph, other, lambda _: None, external.extents(other)[0], 1)
    except ModelError:
        return None
    if found.target.on_chip(found.map.total, 0) > other.memory_bytes:
        return lever | {"text": f"{name} has {more} bytes more, which are not enough"}
    longer = found.latency - plan.latency
    return lever | {
        "cycles": longer,
        "measured": True,
        "text": f"{name} has {more} bytes more: it fits there, in {found.latency} cycles",
    }
