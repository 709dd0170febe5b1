"""The dataflow graph for drawing, with each node's share of the cycles."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

FOLD_ABOVE = 48
DRAW_AT_MOST = 400
_BLOCK = re.compile(r"^/?(.*?[A-Za-z_][\w.-]*)[/:.]")


def graph(report: Mapping[str, Any], *, fold: bool = True) -> dict[str, Any]:
    """Return the nodes and edges. In a large graph, neighbours in the same block become one node.

    With `fold` set to False, a graph of at most DRAW_AT_MOST operations is not folded. The folded graph has no cycles,
    because a block is a run of neighbours in the schedule.
    """
    operations = [row for row in report["per_operation"] if row["start"] is not None]
    must_fold = len(operations) > DRAW_AT_MOST
    folds = must_fold or (fold and len(operations) > FOLD_ABOVE)
    runs = _runs(operations) if folds else [[place] for place in range(len(operations))]
    latency = report["resources"]["cycles"] or 1
    return {
        "nodes": [_node(number, run, operations, latency) for number, run in enumerate(runs)],
        "edges": _edges(report, runs, operations),
        "folded": len(runs) < len(operations),
        "operations": len(operations),
        "can_unfold": not must_fold,
    }


def _edges(
    report: Mapping[str, Any], runs: Sequence[Sequence[int]], operations: Sequence[Mapping[str, Any]]
) -> list[list[int]]:
    node_of = {operations[place]["index"]: node for node, run in enumerate(runs) for place in run}
    edges: Counter[tuple[int, int]] = Counter()
    for source, target in _through(report["graph"]["edges"], set(node_of)):
        ends = (node_of[source], node_of[target])
        if ends[0] != ends[1]:
            edges[ends] += 1
    return [[source, target, count] for (source, target), count in sorted(edges.items())]


def _through(edges: Sequence[Sequence[int]], drawn: set[int]) -> list[tuple[int, int]]:
    # A row without cost, such as a reshape, is not drawn. The consumers of the row are connected to its sources.
    sources: dict[int, list[int]] = {}
    for source, target in edges:
        sources.setdefault(target, []).append(source)
    known: dict[int, list[int]] = {}

    def made_by(row: int) -> list[int]:
        if row in drawn:
            return [row]
        if row not in known:
            known[row] = []  # the graph has no cycle; this only keeps a damaged report from looping
            known[row] = sorted({one for before in sources.get(row, []) for one in made_by(before)})
        return known[row]

    return [(one, target) for source, target in edges if target in drawn for one in made_by(source)]


def _node(number: int, run: Sequence[int], operations: Sequence[Mapping[str, Any]], latency: int) -> dict[str, Any]:
    cycles = sum(operations[place]["cycles"] for place in run)
    first = operations[run[0]]
    kinds = Counter(operations[place]["kind"] for place in run)
    label = name_of(first) if len(run) == 1 else _label([name_of(operations[place]) for place in run])
    note = first["kind"] if len(run) == 1 else ", ".join(_counted(kind, count) for kind, count in kinds.most_common(3))
    permille = int(Fraction(cycles, latency) * 1000 + Fraction(1, 2))  # rounded as the table's shares are
    listed = [operations[place]["index"] for place in run]
    return {"id": number, "label": label, "note": note, "cycles": cycles, "permille": permille, "rows": listed}


def _counted(kind: str, count: int) -> str:
    return f"{count} {kind}" if count == 1 else f"{count} {kind}s"


def name_of(row: Mapping[str, Any]) -> str:
    """Return the row's name in the model. If there is none, return the compiler's name."""
    return str(row["source"][0] if row["source"] else row["name"])


def _block_of(name: str) -> str:
    match = _BLOCK.match(name)
    return match[1] if match else ""


def _runs(operations: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    runs: list[list[int]] = []
    last = ""
    for index, operation in enumerate(operations):
        block = _block_of(name_of(operation))
        if runs and block and block == last:
            runs[-1].append(index)
        else:
            runs.append([index])
        last = block
    while len(runs) > FOLD_ABOVE:
        place = min(range(len(runs) - 1), key=lambda one: (len(runs[one]) + len(runs[one + 1]), one))
        runs[place : place + 2] = [runs[place] + runs[place + 1]]
    return runs


def _label(names: Sequence[str]) -> str:
    blocks = {_block_of(name) for name in names}
    if len(blocks) == 1 and (block := blocks.pop()):
        return block
    return f"{names[0]} and {len(names) - 1} more"
