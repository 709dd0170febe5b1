"""What a guard lies inside of, and the proof that nobody reads what a branch not taken would have computed.

The path of a guard is the chain of guards from the outermost: the guards of the node that computes its condition, then the
guard itself. A node's path is that of its guard; without one it is empty, and the node is always executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.graph import Graph, Guard, Merge, Node, Operand, View, reads_of
from compiler.ir.types import DType, TensorType

Path = tuple[Guard, ...]


class Paths:
    """Paths of all guards and values of a graph, worked out in the order of its nodes."""

    def __init__(self, graph: Graph) -> None:
        self._made: dict[str, Path] = {}
        for node in graph.nodes:
            self._made[node.output] = self.of(node.guard)

    def of(self, guard: Guard | None) -> Path:
        """The guards inside which something under ``guard`` lies, itself last."""
        return () if guard is None else (*self._made.get(guard.value, ()), guard)

    def value(self, name: str) -> Path:
        """The guards that hold whenever a value has been computed."""
        return self._made.get(name, ())


def inside(path: Path, outer: Path) -> bool:
    """Whether ``outer`` holds whenever ``path`` does."""
    return path[: len(outer)] == outer


def taken(graph: Graph) -> Graph:
    """The graph of one way: every ``when`` is executed and no ``unless``. What it takes, the dearest way takes at least."""
    paths = Paths(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        if not all(g.holds for g in paths.of(node.guard)):
            continue
        if isinstance(node, Merge):
            held = [v for g, v in node.parts if all(each.holds for each in paths.of(g))]
            shape = graph.types[node.output].shape
            node = View(node.name, node.output, node.source, Operand(held[-1], Access.identity(len(shape))))
        nodes.append(replace(node, guard=None))
    return graph.with_nodes(tuple(nodes))


def problems(graph: Graph) -> Iterator[str]:
    """Conditions that are none, reads of what may not have been computed, merges of which no part need hold."""
    guards = dict.fromkeys(g for node in graph.nodes for g in (node.guard, *_parts(node)) if g)
    for guard in guards:
        if not _is_condition(graph.types.get(guard.value)):
            yield f"the guard {guard.value!r} is {graph.types.get(guard.value)}, not one bool"
    if guards:
        paths = Paths(graph)
        yield from (f"{node.name!r}: {problem}" for node in graph.nodes for problem in _node(node, paths))
        yield from (f"{name!r} leaves the graph from a branch" for name in sorted(filter(paths.value, graph.kept)))


def _is_condition(kind: TensorType | None) -> bool:
    return kind is not None and kind.dtype == DType.BOOL and kind.elements == 1


def _parts(node: Node) -> tuple[Guard | None, ...]:
    return tuple(g for g, _ in node.parts) if isinstance(node, Merge) else ()


def _node(node: Node, paths: Paths) -> Iterator[str]:
    here = paths.of(node.guard)
    if not isinstance(node, Merge):
        yield from (f"reads {v!r} from a branch" for v in reads_of(node) if not inside(here, paths.value(v)))
        return
    outer: dict[Guard | None, Path] = {}
    for guard, value in node.parts:
        path = paths.of(guard) if guard else here
        outer[guard] = path
        if not inside(path, here) or not inside(path, paths.value(value)):
            yield f"merges {value!r} under a guard that it does not lie in"
    if not _covered(outer, here):
        yield "none of its parts need hold"


def _covered(outer: dict[Guard | None, Path], here: Path) -> bool:
    """Whether one part always holds, or two hold on opposite sides of one condition."""
    sides = {(g.value, g.holds) for g, path in outer.items() if g and path[:-1] == here}
    return here in outer.values() or any((value, not holds) in sides for value, holds in sides)
