"""Concats without a copy: a piece is written where it belongs in the concatenated value.

Likewise parts of a merge are written where the merged value lies, and a state's next value where the state lies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import accumulate
from typing import NamedTuple

from compiler.ir import Compute, Gather, Graph, Join, Merge, Node, Reshape, Scatter, Sort, View, reads_of
from compiler.tiling.place import Place


class Home(NamedTuple):
    """Where a piece lies: the value whose buffer holds it, its position along the axis, and the views and reshapes that make a
    part of that value out of the piece. ``beside``: what it is made of lies there too, so they may share no line. ``read``:
    others read it too, under another shape: they would wait for the parts with which it shares lines."""

    value: str
    at: int
    path: tuple[Reshape | View, ...] = ()
    beside: bool = False
    read: bool = False


Homes = dict[str, Home]  # by piece


def homes(graph: Graph, copies: Collection[str], roots: Mapping[str, tuple[str, ...]]) -> Homes:
    """Pieces that can be written straight into the buffer of a concat or a merge. ``copies``: nodes that need a copy, by output;
    ``roots``: by value those whose writers it is made of."""
    maker = {n.output: n for n in graph.nodes}
    made = {name for name, node in maker.items() if _is_written(node, copies)} - {s.input for s in graph.states}
    found = _merge_homes(graph, made, maker)
    made |= {name for name, node in maker.items() if isinstance(node, Join)}
    sources = _sources(graph, made, roots)
    readers = Counter(value for node in graph.nodes for value in reads_of(node))
    for node in graph.nodes:
        if isinstance(node, Join):
            _place_parts(node, graph, made, maker, sources, readers, found)
    return found


def _sources(graph: Graph, made: Collection[str], roots: Mapping[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """By value, the written values that its writers read: of a concat, those of its parts."""
    found: dict[str, set[str]] = {}
    for node in graph.nodes:
        read = {root for value in reads_of(node) for root in roots[value] if root in made}
        if isinstance(node, Join):
            read = {source for root in read for source in found.get(root, ())}
        found[node.output] = read
    return found


def _place_parts(
    node: Join,
    graph: Graph,
    made: Collection[str],
    maker: Mapping[str, Node],
    sources: Mapping[str, set[str]],
    readers: Mapping[str, int],
    found: Homes,
) -> None:
    """Homes in a concat for those of its parts that have none yet and are no part of it twice."""
    starts = accumulate((graph.types[piece].shape[node.axis] for piece in node.parts), initial=0)
    pieces = [_renamed(part, made, maker) for part in node.parts]
    names = Counter(piece for piece, _ in pieces)
    inside = {node.output, *names}
    for (piece, path), at in zip(pieces, starts, strict=False):
        if piece in made and piece not in found and names[piece] == 1:
            beside = any(not inside.isdisjoint(_around(source, found)) for source in sources[piece])
            found[piece] = Home(node.output, at, path, beside, read=bool(path) and readers[piece] > 1)


def _around(root: str, found: Homes) -> Iterator[str]:
    """A written value, and those in whose buffers it may lie."""
    value: str | None = root
    while value is not None:
        yield value
        value = found[value].value if value in found else None


def _renamed(part: str, made: Collection[str], maker: Mapping[str, Node]) -> tuple[str, tuple[Reshape | View, ...]]:
    """The written value that a part of a concat is, in another shape or order, and what says so; the part where it is none."""
    value, path = part, list[Reshape | View]()
    while value not in made:
        node = maker.get(value)
        if isinstance(node, Reshape):
            value = node.input
        elif isinstance(node, View) and is_permutation(node):
            value = node.operand.value
        else:
            return part, ()
        path.insert(0, node)
    return value, tuple(path)


def is_permutation(node: View) -> bool:
    """Whether a view shows every element once, dimensions in another order."""
    rank = len(node.operand.access.offset)
    walked = [node.operand.access.plain(j) for j in range(rank)]
    return sorted(-1 if i is None else i for i in walked) == list(range(rank)) and not any(node.operand.access.offset)


def unnamed(place: Place, path: tuple[Reshape | View, ...], graph: Graph) -> Place | None:
    """Where a value lies whose views and reshapes ``path`` end at ``place``; None where no strides say that."""
    found: Place | None = place
    for node in reversed(path):
        if found is None:
            return None
        if isinstance(node, Reshape):
            found = found.reshaped(graph.types[node.input].shape)
        else:
            shape, rows = graph.types[node.operand.value].shape, node.operand.access.matrix
            strides = tuple(found.strides[row.index(1)] for row in rows)
            found = Place(found.buffer, found.dtype, shape, found.offset, strides)
    return found


def _is_written(node: Node, copies: Collection[str]) -> bool:
    """Whether a unit writes the node's output, which is no concat itself."""
    return isinstance(node, Compute | Gather | Scatter | Sort) or (node.output in copies and not isinstance(node, Join))


def _merge_homes(graph: Graph, made: set[str], maker: dict[str, Node]) -> Homes:
    """Parts of merges that nobody else reads and that are computed exactly when they count: part -> (merge, 0)."""
    uses = Counter(v for node in graph.nodes for v in reads_of(node))
    return {
        value: Home(node.output, 0)
        for node in graph.nodes
        if isinstance(node, Merge)
        for guard, value in node.parts
        if guard is not None and value in made and uses[value] == 1 and maker[value].guard == guard
    }


def written_in_place(graph: Graph) -> dict[str, str]:
    """Next values of states that are made by writing into the state itself, which nobody else reads: value -> state.

    So a cache grows by a row without being copied.
    """
    uses = Counter(v for node in graph.nodes for v in reads_of(node))
    uses.update([*graph.outputs, *(s.update for s in graph.states)])
    maker = {node.output: node for node in graph.nodes if isinstance(node, Scatter) and node.guard is None}
    return {
        s.update: s.input
        for s in graph.states
        if s.update in maker and maker[s.update].data == s.input and uses[s.input] == 1
    }
