"""What is tried when a program does not fit its processor's memory, and what would close the gap when nothing helps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from compiler import targets
from compiler.errors import DoesNotFit, ModelError
from compiler.ir import Graph, Join, Reshape, Scatter, View, reads_of
from compiler.passes.bands import in_bands
from compiler.precision.plan import is_float_contraction
from compiler.scheduling.branches import guarded
from compiler.scheduling.build import Plan, Tiled, build
from compiler.targets import Target
from compiler.tiling import external

SHARES = (80, 60, 45, 30, 20)  # percent of the memory that bands are cut for, until the program fits
MEASURED = 12_000  # instructions of a program whose levers are measured by building them
LINES = 1_000_000  # that they read of what is fetched for them, at most
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


@dataclass(frozen=True)
class Attempt:
    """What one way asks for. ``total``: bytes on the chip, at least so many where there is no ``latency`` because nothing was
    scheduled; ``constants`` and ``fixed`` of them are constants, and these and states; ``spare``: what a perfect plan of
    the arena would save."""

    target: Target
    tiles: int
    total: int
    constants: int
    fixed: int
    latency: int | None = None
    spare: int = 0

    @classmethod
    def planned(cls, plan: Plan, instructions: int = 0) -> Attempt:
        """``instructions``: their bytes; 0 where not even the rest fits."""
        target, places = plan.target, plan.map
        total = target.on_chip(places.total, instructions)
        spare = places.activations - places.copies * plan.arena_bound
        fixed = target.on_chip(places.constants + places.state, 0)
        return cls(target, len(plan.tiles), total, places.constants, fixed, plan.latency, spare)

    @classmethod
    def unplanned(cls, made: Tiled) -> Attempt:
        """Of tiles that no order makes fit."""
        return cls(made.tiler.target, len(made.tiler.tiles), made.least, made.constants, made.constants)


def floor(graph: Graph, target: Target) -> Attempt:
    """Of a program too long to be made: one operation's operands and result, and constants that can lie nowhere else."""
    resident = sum(graph.types[state.input].bytes for state in graph.states)
    weights = 0 if len(external.extents(target)) > 1 else sum(a.nbytes for a in graph.constants.values())
    fixed = {*graph.constants, *(s.input for s in graph.states)}
    root: dict[str, str] = {}
    most = 0
    for node in graph.nodes:
        reads = reads_of(node)
        if isinstance(node, View | Reshape):  # other names of the same bytes, perhaps
            root[node.output] = root.get(reads[0], reads[0])
            continue
        sizes: dict[str, int] = {}
        for value in (*reads, *(() if isinstance(node, Join) else (node.output,))):
            home = root.get(value, value)
            if home not in fixed and not isinstance(node, Scatter):  # which may write where its data lies
                sizes[home] = max(sizes.get(home, 0), graph.types[value].bytes)
        most = max(most, sum(sizes.values()))
    total = target.on_chip(weights + resident + most, 0)
    return Attempt(target, LARGEST + 1, total, weights, target.on_chip(weights + resident, 0))


def in_vain(made: Tiled) -> bool:
    """Whether scheduling is not worth its time: a large program of which one tile alone works with more than there is."""
    room = made.tiler.target.memory_bytes
    if made.most <= room or made.least <= room:
        return False
    return len(made.tiler.tiles) > MEASURED or made.demand.lines > LINES


def hopeless(attempt: Attempt) -> bool:
    """Whether the constants and states alone are more than there is, so that no order of operations helps; or the program
    is too large to try."""
    return attempt.fixed > attempt.target.memory_bytes or attempt.tiles > LARGEST


def refusal(graph: Graph, tried: list[Attempt]) -> DoesNotFit:
    """What was asked, and the levers. ``tried``: all ways, as it is first."""
    first, *_ = tried
    least = min(tried, key=lambda a: a.total)
    asked, available = first.total, first.target.memory_bytes
    levers = _levers(first, graph, least)
    needs = "needs" if first.latency is not None else "needs at least"
    return DoesNotFit(
        f"the program {needs} {asked} bytes of on-chip memory, {asked - available} more than the {available} of "
        f"{first.target.name}; " + ("; ".join(lever["text"] for lever in levers) or "split the model"),
        asked=asked,
        available=available,
        levers=levers,
    )


def _levers(first: Attempt, graph: Graph, least: Attempt) -> list[dict[str, Any]]:
    levers: list[dict[str, Any]] = []
    if saved := _halved(first, graph):
        text = f"float16 weights would take {saved} bytes less, int8 ones up to {saved + saved // 2}"
        levers.append({"lever": "precision", "effect": saved, "text": text})
    if least.total < first.total:
        levers.append(_bands(first, least))
    if first.spare:
        levers.append(
            {
                "lever": "memory plan",
                "effect": first.spare,
                "text": f"a perfect plan of the arena would save {first.spare} bytes",
            }
        )
    for name in targets.names():
        lever = _target(name, first, graph)
        if lever is not None:
            levers.append(lever)
    return levers


def _halved(first: Attempt, graph: Graph) -> int:
    """Half the bytes of the float32 weights; 0 where these may lie outside, so that fewer of their bytes say nothing of the
    chip's memory."""
    if len(external.extents(first.target)) > 1:
        return 0
    weights = {v for n in graph.nodes if is_float_contraction(n) for v in reads_of(n)[:2] if v in graph.constants}
    return sum(graph.types[v].bytes for v in weights) // 2


def _bands(first: Attempt, least: Attempt) -> dict[str, Any]:
    """What the way that takes the least memory saves, and its price where both were scheduled."""
    saved = first.total - least.total
    text = f"operations one after the other, in bands where that helps, take {saved} bytes less"
    lever = {"lever": "bands", "effect": saved, "text": text}
    if first.latency is None or least.latency is None:
        return lever
    longer = least.latency - first.latency
    return lever | {"cycles": longer, "measured": True, "text": f"{text} and {longer} cycles more"}


def _target(name: str, first: Attempt, graph: Graph) -> dict[str, Any] | None:
    """Another processor with more memory; a program of moderate size is built for it."""
    other = targets.load(name)
    more = other.memory_bytes - first.target.memory_bytes
    if more <= 0:
        return None
    lever = {"lever": "target", "effect": more, "text": f"{name} has {more} bytes more"}
    if first.tiles > MEASURED or first.latency is None:
        return lever
    try:
        found = build(graph, other, lambda _: None, external.extents(other)[0], 1)
    except ModelError:
        return None
    if found.target.on_chip(found.map.total, 0) > other.memory_bytes:
        return lever | {"text": f"{name} has {more} bytes more, which are not enough"}
    longer = found.latency - first.latency
    return lever | {
        "cycles": longer,
        "measured": True,
        "text": f"{name} has {more} bytes more: it fits there, in {found.latency} cycles",
    }
