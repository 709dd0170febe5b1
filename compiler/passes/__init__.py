"""Passes: pure functions from graph to graph, and the order in which the compiler runs them."""

from __future__ import annotations

from collections.abc import Callable

from compiler.ir import Graph
from compiler.passes.absorb import absorb
from compiler.passes.again import again
from compiler.passes.ahead import ahead
from compiler.passes.clean import dead_code, fold, merge_equal
from compiler.passes.combine import combine
from compiler.passes.factors import factors
from compiler.passes.folds import folds
from compiler.passes.fuse import fuse
from compiler.passes.gates import gates
from compiler.passes.gathers import behind_gathers
from compiler.passes.joins import behind_parts
from compiler.passes.known import known_places
from compiler.passes.literals import literals
from compiler.passes.multiply_add import multiply_add
from compiler.passes.one_hot import one_hots
from compiler.passes.parts import parts
from compiler.passes.reach import reach
from compiler.passes.repeats import repeats
from compiler.passes.rescale import rescale
from compiler.passes.scaled_sums import scaled_sums
from compiler.passes.shuffles import shuffles
from compiler.passes.sink import sink
from compiler.passes.split import split_reductions
from compiler.passes.views import fold_views
from compiler.passes.windows import windows

__all__ = [
    "REDUCTION_LIMIT",
    "absorb",
    "again",
    "ahead",
    "behind_gathers",
    "behind_parts",
    "combine",
    "dead_code",
    "factors",
    "fold",
    "fold_views",
    "folds",
    "fuse",
    "gates",
    "known_places",
    "literals",
    "merge_equal",
    "multiply_add",
    "one_hots",
    "optimise",
    "parts",
    "reach",
    "repeats",
    "rescale",
    "scaled_sums",
    "shape_for_units",
    "shuffles",
    "sink",
    "split_reductions",
    "windows",
]

REDUCTION_LIMIT = 4096  # points that one vector instruction reduces into one element


def optimise(
    graph: Graph, *, reduction_limit: int = REDUCTION_LIMIT, check: Callable[[Graph], Graph] | None = None
) -> Graph:
    """The graph with views folded, equal work merged and elementwise work fused; it computes the same values.

    ``check`` runs after every pass (tests give the verifier). ``reduction_limit``: larger reductions are cut into chunks.
    """
    verified = check or _trusted
    for step in (
        dead_code,
        fold,
        known_places,
        fold_views,
        merge_equal,
        literals,
        behind_parts,
        fuse,
        behind_gathers,
        sink,
        shuffles,
        fuse,
        one_hots,
        factors,
        absorb,
        gates,
        reach,
        fold_views,
        repeats,
        merge_equal,
        combine,
        fold_views,
        rescale,
        dead_code,
    ):
        graph = verified(step(graph))
    return verified(split_reductions(graph, reduction_limit))


def shape_for_units(graph: Graph) -> Graph:
    """The graph in the form that the processor's units do best, after its precision is chosen; the same values."""
    return folds(parts(ahead(multiply_add(windows(scaled_sums(graph))))))


def _trusted(graph: Graph) -> Graph:
    return graph
