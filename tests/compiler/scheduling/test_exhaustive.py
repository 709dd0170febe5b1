"""Bound <= best of all orders <= ours, on a few small graphs (`benchmarks/exhaustive.py` runs two hundred)."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.exhaustive import Search, _partitions, compare, contended, packed
from compiler import targets
from compiler.driver import quiet
from compiler.passes import optimise
from compiler.scheduling.build import build
from tests.compiler.graphs import graphs


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs())
def test_no_order_beats_the_bound_and_ours_is_one_of_the_orders(graph):
    bound, best, ours = compare(graph)
    assert bound <= best <= ours


@pytest.mark.parametrize("target", ["lpu", "lpu2"])
def test_the_same_holds_where_tiles_compete_for_units(target):
    rng = np.random.default_rng(3)
    for _ in range(5):
        bound, best, ours = compare(contended(rng), target)
        assert bound <= best <= ours


def test_the_same_holds_where_contractions_share_passes_or_need_several():
    rng = np.random.default_rng(5)
    for _ in range(8):
        bound, best, ours = compare(*packed(rng))
        assert bound <= best <= ours


def test_the_search_finds_the_better_order_when_ours_is_made_worse():
    graph = optimise(contended(np.random.default_rng(1)))
    plan = build(graph, targets.load("lpu"), quiet)
    best = Search(plan, plan.latency).run()
    worse = replace(plan, latency=plan.latency * 2)
    assert Search(worse, worse.latency).run() == best


def test_equal_planes_are_not_told_apart():
    assert list(_partitions(3, 2)) == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]]
