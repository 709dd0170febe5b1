"""Any graph of primitives, on both processors: exact results, exact counters, sound memory, rows that sum."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compiler.checks import check_program
from tests.compiler.graphs import feeds_for, graphs
from tests.tiers import some


@pytest.mark.parametrize("target", ["lpu", "lpu2"])
@settings(max_examples=some(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(graph=graphs(), seed=st.integers(0, 99))
def test_what_was_compiled_is_what_runs(target, graph, seed):
    check_program(graph, target, [feeds_for(graph, seed), feeds_for(graph, seed + 1)])
