"""The quota tree: nobody has more than nominal and borrowed, nothing is borrowed that is not lent, the root is never passed."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from apps.sales.quota_tree import Node, excess, set_fault, uses

LIMIT = st.none() | st.integers(0, 40)
PROJECTS = st.lists(st.tuples(st.integers(0, 40), LIMIT, LIMIT), min_size=1, max_size=3)
KEYS = st.lists(st.tuples(st.integers(0, 10), LIMIT, LIMIT), max_size=2)
STEPS = st.lists(st.tuples(st.integers(0, 6), st.integers(1, 30), st.booleans()), max_size=25)


@settings(max_examples=300, deadline=None)
@given(projects=PROJECTS, keys=KEYS, spare=st.integers(0, 30), steps=STEPS)
def test_whatever_is_reserved_and_given_back_the_tree_holds(
    projects: list[tuple[int, int | None, int | None]],
    keys: list[tuple[int, int | None, int | None]],
    spare: int,
    steps: list[tuple[int, int, bool]],
) -> None:
    nodes = [Node("root", None, sum(one[0] for one in projects) + spare)]
    nodes += [Node(f"p{n}", "root", *one) for n, one in enumerate(projects)]
    keys = keys if sum(one[0] for one in keys) <= projects[0][0] else []
    nodes += [Node(f"k{n}", "p0", *one) for n, one in enumerate(keys)]
    assert set_fault(nodes) == ""
    reserved: dict[object, int] = {}
    for where, amount, gives_back in steps:
        key = nodes[where % len(nodes)].key
        if gives_back:
            reserved[key] = max(0, reserved.get(key, 0) - amount)
        elif excess(nodes, reserved, {key: amount}) is None:
            reserved[key] = reserved.get(key, 0) + amount
        _holds(nodes, reserved)


def _holds(nodes: list[Node], reserved: dict[object, int]) -> None:
    found = uses(nodes, reserved)
    assert found["root"].used <= sum(reserved.values()) <= nodes[0].nominal
    for parent in nodes:
        below = [node for node in nodes if node.parent == parent.key]
        # What siblings lend: of what each does not use, at most its lending limit; and what nobody was given.
        lent = (
            sum(max(0, node.nominal - max(found[node.key].demand, node.kept)) for node in below)
            + parent.nominal
            - sum(node.nominal for node in below)
            + found[parent.key].borrowed
        )
        borrowed = sum(found[node.key].borrowed for node in below) + reserved.get(parent.key, 0)
        assert borrowed <= max(lent, 0) or not reserved
        for node in below:
            assert found[node.key].used <= node.nominal + found[node.key].borrowed
            if node.borrowing is not None and found[node.key].used:
                assert found[node.key].borrowed <= node.borrowing


def test_a_node_that_lends_nothing_keeps_its_nominal_amount() -> None:
    nodes = [Node("root", None, 10), Node("a", "root", 6, lending=0), Node("b", "root", 4)]
    found = excess(nodes, {"b": 4}, {"b": 1})
    assert found is not None
    assert (found.node.key, found.asked, found.over) == ("root", 1, 1)
    assert excess(nodes, {"b": 4}, {"a": 6}) is None
