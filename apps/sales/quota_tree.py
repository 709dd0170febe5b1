"""The rules of the quota tree: how much a node may reserve, lend and borrow.

Pure functions: no Django, no clock. Amounts are whole microseconds of device time. The terms are those of Kueue
cohorts: nominal quota, borrowing limit, lending limit.

A node's *demand* is the sum of its own reservations and, for each child, the larger of the child's demand and the
amount that the child does not lend (`nominal - lending`). The rules:

- A node's demand is at most its nominal amount plus its borrowing limit.
- The root's demand is at most its nominal amount.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """A node of the tree. `lending` and `borrowing` are None if unlimited. The root has no parent."""

    key: Hashable
    parent: Hashable | None
    nominal: int
    lending: int | None = None
    borrowing: int | None = None

    @property
    def kept(self) -> int:
        return 0 if self.lending is None else max(0, self.nominal - self.lending)


@dataclass(frozen=True)
class Use:
    """The use of a node and all nodes below. `demand` also includes the amounts that children do not lend."""

    used: int
    demand: int
    nominal: int

    @property
    def borrowed(self) -> int:
        return max(0, self.demand - self.nominal)

    @property
    def free(self) -> int:
        return max(0, self.nominal - self.demand)


@dataclass(frozen=True)
class Excess:
    """The node that refuses an addition. `over`: the amount that must be released at this node to allow the addition."""

    node: Node
    use: Use
    asked: int
    over: int
    is_borrowing: bool  # its borrowing limit, not the sum of the root


def uses(nodes: Sequence[Node], reserved: Mapping[Any, int]) -> dict[Hashable, Use]:
    """Return the use of every node. `reserved`: the amounts reserved at each node itself, excluding the nodes below."""
    children: defaultdict[Hashable | None, list[Node]] = defaultdict(list)
    for node in nodes:
        children[node.parent].append(node)
    found: dict[Hashable, Use] = {}

    def visit(node: Node) -> Use:
        own = reserved.get(node.key, 0)
        below = [(child, visit(child)) for child in children[node.key]]
        demand = own + sum(max(use.demand, child.kept) for child, use in below)
        found[node.key] = Use(own + sum(use.used for _, use in below), demand, node.nominal)
        return found[node.key]

    for root in children[None]:
        visit(root)
    return found


def excess(nodes: Sequence[Node], reserved: Mapping[Any, int], added: Mapping[Any, int]) -> Excess | None:
    """Return the node that refuses the addition; None if all nodes allow the addition."""
    before = uses(nodes, reserved)
    after = uses(nodes, {key: reserved.get(key, 0) + added.get(key, 0) for key in {*reserved, *added}})
    for node in _bottom_up(nodes):
        use, was = after[node.key], before[node.key]
        most = _most(node)
        if use.demand > was.demand and most is not None and use.demand > most:
            return Excess(node, was, use.demand - was.demand, use.demand - most, node.parent is not None)
    return None


def _most(node: Node) -> int | None:
    if node.parent is None:
        return node.nominal
    return None if node.borrowing is None else node.nominal + node.borrowing


def _bottom_up(nodes: Sequence[Node]) -> list[Node]:
    parents = {node.key: node.parent for node in nodes}

    def depth(node: Node) -> int:
        count, at = 0, node.parent
        while at is not None:
            count, at = count + 1, parents[at]
        return count

    return sorted(nodes, key=lambda node: -depth(node))


def set_fault(nodes: Sequence[Node]) -> str:
    """Return the reason why the nodes are not a valid tree; empty if the tree is valid."""
    known = {node.key: node for node in nodes}
    given: defaultdict[Hashable, int] = defaultdict(int)
    for node in nodes:
        if node.parent is not None:
            if node.parent not in known:
                return "Set the organisation's quota first, then the project's, then the API token's."
            given[node.parent] += node.nominal
    if any(total > known[key].nominal for key, total in given.items()):
        return (
            "The quotas at one level add up to more than the quota above them. Lower one of these quotas, or raise the "
            "quota above them."
        )
    return ""
