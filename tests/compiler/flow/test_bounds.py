"""No input costs more than its program's bound."""

from dataclasses import replace

import pytest

import compiler
from tests.compiler.flow.bounded import MODELS
from tests.compiler.flow.search import search


def program_of(name):
    data, bounds = MODELS[name]
    return compiler.compile(compiler.load(data, bounds=bounds))


@pytest.mark.parametrize(
    "name", ["nested", "early exit", "if in loop", "count then choose", "non zero", "non max suppression"]
)
def test_no_input_that_a_search_finds_costs_more_than_the_bound(name):
    found = search(program_of(name), 15)
    assert not found.exceeded
    assert sum(found.cycles.values()) + found.refused >= 12
    assert max(found.cycles) <= found.bound


@pytest.mark.parametrize("name", ["nested", "count then choose"])
def test_the_search_finds_inputs_above_a_bound_that_is_one_cycle_too_low(name):
    program = program_of(name)
    low = replace(program.resources, cycles=program.resources.cycles - 1)
    assert search(program, 60, bound=low).exceeded
