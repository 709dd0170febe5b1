"""Concats without a copy: a piece is written where it belongs in the concatenated value.

Likewise parts of a merge are written where the merged value lies, and a state's next value where the state lies.
"""

from __future__ import annotations

from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from compiler.ir.graph import Compute, Gather, Join, Merge, Scatter, Sort, reads_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from compiler.ir.graph import Graph, Node

Homes = dict[str, tuple[str, int]]  # piece -> the value whose buffer holds it, and its position along the axis


def homes(graph: Graph, copies: Collection[str], roots: Mapping[str, tuple[str, ...]]) -> Homes:
    """Pieces that can be written straight into the buffer of a concat or a merge. ``copies``: nodes that need a copy, by output;
    ``roots``: by value those whose writers it is made of."""
    maker = {n.output: n for n in graph.nodes}
    made = {name for name, node in maker.items() if _is_written(node, copies)} - {s.input for s in graph.states}
    found = _merge_homes(graph, made, maker)
    for node in graph.nodes:
        if not isinstance(node, Join):
            continue
        starts = accumulate((graph.types[piece].shape[node.axis] for piece in node.parts), initial=0)
        for piece, at in zip(node.parts, starts, strict=False):
            if piece in made and piece not in found and _may_lie_in(piece, node, maker[piece], roots, found):
                found[piece] = (node.output, at)
    return found


def _may_lie_in(piece: str, node: Join, maker: Node, roots: Mapping[str, tuple[str, ...]], found: Homes) -> bool:
    """Whether a piece can be written in the concat's buffer: it may not share lines with its operands."""
    read = {root for value in reads_of(maker) for root in roots[value]}
    shared = any(root in node.parts or found.get(root, ("",))[0] == node.output for root in read)
    return node.parts.count(piece) == 1 and not shared


def _is_written(node: Node, copies: Collection[str]) -> bool:
    """Whether a unit writes the node's output, which is no concat itself."""
    return isinstance(node, Compute | Gather | Scatter | Sort) or (node.output in copies and not isinstance(node, Join))


def _merge_homes(graph: Graph, made: set[str], maker: dict[str, Node]) -> Homes:
    """Parts of merges that nobody else reads and that are computed exactly when they count: part -> (merge, 0)."""
    uses = Counter(v for node in graph.nodes for v in reads_of(node))
    return {
        value: (node.output, 0)
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
