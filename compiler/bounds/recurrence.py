"""The interval that recurrences force: a state's next value cannot exist before what it is made of.

Let m(i) be the first moment at which an element of a state is there for inference i. If every element of its next value
depends on some element of a state, over operations that take d cycles at least from beat to readable result, then
m(i + 1) >= m(i) + d, so the interval is d or more; over a circle of several states, the mean of theirs.
"""

from __future__ import annotations

from fractions import Fraction

from compiler.bounds.pace import Pace
from compiler.bounds.ways import Ways
from compiler.ir import Graph, Join, Scatter

STATES = 64  # more are not looked at


def recurrence(graph: Graph, ways: Ways, pace: Pace) -> int:
    """The largest mean over circles of states, rounded up; 0 without states. Source: Karp's maximum cycle mean."""
    states = graph.states[:STATES]
    edges: dict[tuple[int, int], int] = {}
    for j, state in enumerate(states):
        paths = _paths(graph, ways, pace, state.input)
        for i, other in enumerate(states):
            if other.update in paths:
                edges[j, i] = paths[other.update]
    best = max((_mean(edges, len(states), source) for source in range(len(states))), default=Fraction(0))
    return -(-best.numerator // best.denominator)


def _paths(graph: Graph, ways: Ways, pace: Pace, state: str) -> dict[str, int]:
    """By value all of whose elements depend on the state: cycles from the state's first element to its first."""
    found = {state: 0}
    for node in graph.nodes:
        if isinstance(node, Join):
            parts = [found[p] for p in node.parts if p in found]
            if len(parts) == len(node.parts):
                found[node.output] = min(parts)
            continue
        if isinstance(node, Scatter):
            continue  # an element may come from its data or from its update
        before = [found[value] for value, always in ways.sure[node.output] if always and value in found]
        if before:
            found[node.output] = max(before) + pace.step(node)
    return found


def _mean(edges: dict[tuple[int, int], int], count: int, source: int) -> Fraction:
    """The largest mean of a circle that can be reached from ``source``."""
    longest: list[dict[int, int]] = [{source: 0}]
    for _ in range(count):
        ways: dict[int, int] = {}
        for (a, b), length in edges.items():
            if a in longest[-1]:
                ways[b] = max(ways.get(b, 0), longest[-1][a] + length)
        longest.append(ways)
    means = []
    for end, total in longest[count].items():
        shorter = [Fraction(total - at[end], count - k) for k, at in enumerate(longest[:count]) if end in at]
        means.append(min(shorter, default=Fraction(0)))
    return max(means, default=Fraction(0))
