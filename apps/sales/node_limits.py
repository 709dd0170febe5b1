"""The quota tree: what a node may have reserved ahead, what it lends and what it borrows. Pure: no Django, no clock.

Every amount is whole microseconds of device time. A node's *demand* is what is reserved through it, or for a node with
children the sum over its own reservations and, of each child, the larger of the child's demand and of what the child does
not lend (`nominal - lending`). The rules:

- a node's demand is at most its nominal amount and what it may borrow from its parent;
- the root's demand is at most its nominal amount.

From these follows that what is reserved is never above nominal and borrowed, that what is borrowed below a parent is never
above what the siblings lend and what the parent has given to nobody, and that the sum is never above the root. Terms as in
Kueue's cohorts: nominal quota, borrowing limit, lending limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Node:
    """`lending` and `borrowing` None: no limit of their own. The root has no parent."""

    key: Hashable
    parent: Hashable | None
    nominal: int
    lending: int | None = None
    borrowing: int | None = None

    @property
    def kept(self) -> int:
        """What is not lent, whether it is used or not."""
        return 0 if self.lending is None else max(0, self.nominal - self.lending)


@dataclass(frozen=True)
class Use:
    """What a node has: `used` through it and all below it, `demand` with what its children do not lend, `borrowed`."""

    used: int
    demand: int
    nominal: int

    @property
    def borrowed(self) -> int:
        """Of the demand, what is above the nominal amount."""
        return max(0, self.demand - self.nominal)

    @property
    def free(self) -> int:
        """Of the nominal amount, what nobody uses."""
        return max(0, self.nominal - self.demand)


@dataclass(frozen=True)
class Excess:
    """The node that does not allow an addition. `over`: what would have to be given back there."""

    node: Node
    use: Use
    asked: int
    over: int
    is_borrowing: bool  # its borrowing limit, not the sum of the root


def uses(nodes: Sequence[Node], reserved: Mapping[Any, int]) -> dict[Hashable, Use]:
    """Every node's use; `reserved` is what is reserved through each node itself, not through those below it."""
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
    """What speaks against adding, on the nodes whose demand grows by it; None where nothing does.

    A node that was above its limit before is no reason by itself: only what would make it worse is refused.
    """
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
    """Why these nodes are no tree that adds up, in a sentence; empty where they are."""
    known = {node.key: node for node in nodes}
    given: defaultdict[Hashable, int] = defaultdict(int)
    for node in nodes:
        if node.parent is not None:
            if node.parent not in known:
                return "Set the quota of the organisation, then of the project, then of the API token."
            given[node.parent] += node.nominal
    if any(total > known[key].nominal for key, total in given.items()):
        return "The parts would be more than the whole: lower another part, or raise what stands above them."
    return ""
