"""Products that continue each other are told apart, and counted, by all of those before them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.simulator.sequence import chained, terms
from tests.tiers import some


@st.composite
def chains(draw):
    """By instruction its sort and the one that it continues, and by instruction the whole way that it continues."""
    before, ways = [], []
    for number in range(draw(st.integers(1, 40))):
        ends = sorted({-1, *range(number)} - set(before) | {-1})
        before.append(draw(st.sampled_from(ends[-2:])))
        sort = draw(st.integers(0, 1))
        ways.append((sort, *(ways[before[-1]] if before[-1] >= 0 else ())))
    return np.array(before), ways


@settings(max_examples=some(100))
@given(chains())
def test_two_have_one_number_where_their_chains_are_alike_all_the_way(made):
    before, ways = made
    found = chained(np.array([way[0] for way in ways]), before)
    assert len(set(zip(found.tolist(), ways, strict=True))) == len(set(found.tolist())) == len(set(ways))


@settings(max_examples=some(100))
@given(chains())
def test_the_terms_of_a_sum_are_those_of_all_its_products(made):
    before, ways = made
    assert terms(np.array([way[0] for way in ways]), before).tolist() == [sum(way) for way in ways]
