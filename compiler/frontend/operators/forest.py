"""Tree ensembles as tables: nodes one after the other, leaves that lead to themselves, and what every leaf adds.

Sources: the operators TreeEnsemble (5), TreeEnsembleRegressor and TreeEnsembleClassifier of ``ai.onnx.ml``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compiler.frontend.op import Array, Op

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
COMPARISONS = ("le", "lt", "ge", "gt", "eq", "ne")
MEMBER, LEAF = 6, -1
LARGEST = 1 << 22  # nodes of all trees
DEEPEST = 256  # comparisons one after the other


@dataclass(frozen=True)
class Forest:
    """Per node: feature, split, mode (LEAF for leaves), where a true and a false comparison lead, where nothing (NaN) leads;
    ``roots``: the first node per tree; ``weights`` [nodes, targets]; ``steps``: comparisons on the longest path."""

    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    lost: Array
    roots: Array
    weights: Array
    steps: int


def classic(op: Op, prefix: str, targets: int) -> Forest:
    """The form of TreeEnsembleRegressor (``prefix`` "target") and TreeEnsembleClassifier ("class")."""
    trees, ids = op.wholes("nodes_treeids"), op.wholes("nodes_nodeids")
    count = len(ids)
    op.need(0 < count <= LARGEST, f"has {count} nodes.")
    names = op.texts("nodes_modes")
    place = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    op.need(len(place) == count == len(names), "has nodes without a mode, or two with one number.")
    mode = np.array([_mode(op, name) for name in names], np.int64)
    yes, no = (_children(op, name, trees, mode, place) for name in ("nodes_truenodeids", "nodes_falsenodeids"))
    leaves = mode == LEAF
    yes, no = (np.where(leaves, np.arange(count), side) for side in (yes, no))
    tracks = np.array(op.wholes("nodes_missing_value_tracks_true", []) or [0] * count, bool)
    op.reals("nodes_hitrates"), op.tensor("nodes_hitrates_as_tensor")  # statistics of training
    weights = np.zeros((count, targets), np.float64)
    given = _reals(op, f"{prefix}_weights")
    owners = zip(op.wholes(f"{prefix}_treeids"), op.wholes(f"{prefix}_nodeids"), strict=True)
    for owner, target, weight in zip(owners, op.wholes(f"{prefix}_ids"), given, strict=True):
        op.need(owner in place and 0 <= target < targets, "has a weight for a leaf or a result that does not exist.")
        weights[place[owner], target] += weight
    weights[~leaves] = 0
    first: dict[int, int] = {}
    inner = set(np.concatenate([yes[~leaves], no[~leaves]]).tolist())
    for i, tree in enumerate(trees):
        if i not in inner:
            op.need(tree not in first, f"has two roots in its tree {tree}.")
            first[tree] = i
    op.need(len(first) == len(set(trees)), "has a tree whose nodes lead round in a circle.")
    split = np.asarray(_reals(op, "nodes_values"), np.float64)
    feature = np.array(op.wholes("nodes_featureids"), np.int64)
    op.need(len(split) == len(feature) == len(tracks) == count, "has nodes without a value or a feature.")
    tables = _Tables(feature, split, mode, yes, no, tracks)
    return _finished(op, tables, np.array(list(first.values()), np.int64), weights, whole=True)


def _mode(op: Op, name: str) -> int:
    op.need(name == "LEAF" or name in MODES[:6], f"has the mode {name!r}; offered are {', '.join(MODES[:6])}.")
    return LEAF if name == "LEAF" else MODES.index(name)


def _children(op: Op, name: str, trees: Sequence[int], mode: Array, place: dict[tuple[int, int], int]) -> Array:
    given = op.wholes(name)
    op.need(len(given) == len(trees), "has nodes without children.")
    found = np.zeros(len(trees), np.int64)
    for i, (tree, child) in enumerate(zip(trees, given, strict=True)):
        if mode[i] != LEAF:
            op.need((tree, child) in place, f"leads to the node {child}, which its tree {tree} does not have.")
            found[i] = place[tree, child]
    return found


def _reals(op: Op, name: str) -> Sequence[float]:
    tensor = op.tensor(f"{name}_as_tensor")
    return tensor.reshape(-1).astype(np.float64).tolist() if tensor is not None else op.reals(name)


def modern(op: Op, targets: int) -> Forest:
    """The form of TreeEnsemble: inner nodes first, then leaves; a set of values becomes a chain of comparisons."""
    mode = op.tensor("nodes_modes")
    split, leaf_weights = op.tensor("nodes_splits"), op.tensor("leaf_weights")
    op.need(mode is not None and split is not None and leaf_weights is not None, "lacks modes, splits or weights.")
    assert mode is not None
    assert split is not None
    assert leaf_weights is not None
    count, leaves = mode.size, leaf_weights.size
    op.need(0 < count + leaves <= LARGEST and int(mode.max(initial=0)) <= MEMBER, "has nodes of an unknown mode.")
    yes, no = (_links(op, side, count, leaves) for side in ("true", "false"))
    tracks = np.array(op.wholes("nodes_missing_value_tracks_true", []) or [0] * count, bool)
    feature = np.array(op.wholes("nodes_featureids"), np.int64)
    op.tensor("nodes_hitrates")
    op.need(len(feature) == len(tracks) == split.size == count, "has nodes without a value or a feature.")
    ids = np.array(op.wholes("leaf_targetids"), np.int64)
    op.need(
        ids.size == leaves and bool(((ids >= 0) & (ids < targets)).all()), "has a leaf for a result that is not there."
    )
    inner = _Tables(feature, split.reshape(-1).astype(np.float64), mode.reshape(-1).astype(np.int64), yes, no, tracks)
    chained = _chained(op, inner, leaves)
    total = len(chained.mode)
    weights = np.zeros((total, targets), np.float64)
    weights[count + np.arange(leaves), ids] = leaf_weights.reshape(-1)
    roots = np.array(op.wholes("tree_roots"), np.int64)
    op.need(roots.size and bool(((roots >= 0) & (roots < count)).all()), "has a root that is no node.")
    return _finished(op, chained, roots, weights)


def _links(op: Op, side: str, count: int, leaves: int) -> Array:
    """Where a comparison leads: nodes keep their numbers, leaves come behind them."""
    ids = np.array(op.wholes(f"nodes_{side}nodeids"), np.int64)
    leaf = np.array(op.wholes(f"nodes_{side}leafs"), bool)
    op.need(ids.size == leaf.size == count, "has nodes without children.")
    op.need(bool(((ids >= 0) & (ids < np.where(leaf, leaves, count))).all()), "leads to a node that is not there.")
    return np.where(leaf, ids + count, ids)


@dataclass(frozen=True)
class _Tables:
    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    tracks: Array


def _chained(op: Op, t: _Tables, leaves: int) -> _Tables:
    """With leaves behind the nodes, and behind those one further comparison for every further value of a set."""
    count = len(t.mode)
    own = np.arange(count, count + leaves)
    feature, split, mode = (
        list(np.concatenate([a, np.full(leaves, f)])) for a, f in ((t.feature, 0), (t.split, 0.0), (t.mode, LEAF))
    )
    yes, no, tracks = (
        list(np.concatenate(pair)) for pair in ((t.yes, own), (t.no, own), (t.tracks, np.zeros(leaves, bool)))
    )
    members = op.tensor("membership_values")
    values = iter([] if members is None else members.reshape(-1).tolist())
    for node in np.flatnonzero(t.mode == MEMBER).tolist():
        wanted = []
        for value in values:
            if value != value:  # NaN ends a set
                break
            wanted.append(value)
        op.need(wanted, "compares with a set that has no values.")
        last = no[node]
        mode[node], split[node] = MODES.index("BRANCH_EQ"), wanted[0]
        here = node
        for value in wanted[1:]:
            no[here] = len(mode)
            here = len(mode)
            for table, entry in (
                (feature, feature[node]),
                (split, value),
                (mode, mode[node]),
                (yes, yes[node]),
                (no, last),
                (tracks, tracks[node]),
            ):
                table.append(entry)
    return _Tables(
        np.array(feature), np.array(split), np.array(mode), np.array(yes), np.array(no), np.array(tracks, bool)
    )


def _finished(op: Op, t: _Tables, roots: Array, weights: Array, *, whole: bool = False) -> Forest:
    """The forest with what its paths say; ``whole``: every node must lie on one."""
    width = op.shape()[-1]
    inner = t.mode != LEAF
    op.need(
        bool(((t.feature[inner] >= 0) & (t.feature[inner] < width)).all()), f"asks for a feature beyond its {width}."
    )
    here, steps = np.unique(roots), 0
    seen = np.zeros(len(t.mode), bool)
    seen[here] = True
    while inner[here].any():
        here = np.unique(np.concatenate([t.yes[here], t.no[here]]))
        seen[here] = True
        steps += 1
        op.need(steps <= len(t.mode), "has nodes that lead round in a circle.")
        op.need(steps <= DEEPEST, f"has a path of more than {DEEPEST} comparisons. Train it with a limit on the depth.")
    op.need(seen.all() or not whole, "has nodes that lead round in a circle, apart from the others.")
    feature = np.where(inner, t.feature, 0)
    lost = np.where(t.tracks | (t.mode == MODES.index("BRANCH_NEQ")), t.yes, t.no)
    return Forest(feature, t.split, t.mode, t.yes, t.no, lost, roots, weights, steps)
