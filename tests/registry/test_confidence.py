"""The confidence bound is exact, one-sided, and never better than the truth."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.registry import confidence
from apps.registry.confidence import GRID, lower_bound, successes_needed, upper_bound
from tests.tiers import some

counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(deadline=None)
@given(counts, st.sampled_from([Fraction(1, 20), Fraction(1, 60), Fraction(1, 100)]))
def test_it_is_clopper_and_pearsons_bound_rounded_down(count: tuple[int, int], error: Fraction) -> None:
    from scipy.stats import (
        beta,
    )  # here, since every worker of the tests imports this file, and SciPy's statistics take seconds

    successes, trials = count
    expected = beta.ppf(float(error), successes, trials - successes + 1) if successes else 0.0
    bound = lower_bound(successes, trials, error)
    assert -1e-9 <= expected - float(bound) <= 1 / GRID + 1e-9


@settings(deadline=None)
@given(counts)
def test_the_two_bounds_enclose_what_was_seen(count: tuple[int, int]) -> None:
    successes, trials = count
    assert lower_bound(successes, trials) <= Fraction(successes, trials) <= upper_bound(successes, trials)


@settings(deadline=None)
@given(st.integers(1, 25), st.integers(1, 99))
def test_it_is_wrong_at_most_as_often_as_it_says(trials: int, percent: int) -> None:
    """Summed exactly over every outcome: the bound exceeds the true share with probability at most five percent."""
    share = Fraction(percent, 100)
    wrong = sum(
        comb(trials, k) * share**k * (1 - share) ** (trials - k)
        for k in range(trials + 1)
        if lower_bound(k, trials) > share
    )
    assert wrong <= Fraction(1, 20)


@pytest.mark.parametrize(("successes", "trials"), [(-1, 5), (6, 5), (0, 0)])
def test_it_refuses_counts_that_are_no_share(successes: int, trials: int) -> None:
    with pytest.raises(ValueError, match="not a share"):
        lower_bound(successes, trials)


@settings(deadline=None)
@given(counts, st.sampled_from([Fraction(1, 20), Fraction(1, 60), Fraction(1, 100)]))
def test_it_is_the_bound_that_whole_numbers_give(count: tuple[int, int], error: Fraction) -> None:
    successes, trials = count
    found = int(lower_bound(successes, trials, error) * GRID)
    assert found == 0 or confidence._tail_at_most(successes, trials, found, error)
    assert successes == 0 or not confidence._tail_at_most(successes, trials, found + 1, error)


@pytest.mark.parametrize(("successes", "trials"), [(2_500, 5_000), (4_900, 5_000), (19_990, 20_000)])
def test_many_trials_give_the_bound_of_whole_numbers_too(successes: int, trials: int) -> None:
    found = int(lower_bound(successes, trials) * GRID)
    assert confidence._tail_at_most(successes, trials, found, Fraction(1, 20))
    assert not confidence._tail_at_most(successes, trials, found + 1, Fraction(1, 20))


def test_a_tail_that_is_the_error_itself_is_decided_by_whole_numbers() -> None:
    """One success of one trial: the tail is the share, and 5 % lies on the grid."""
    assert lower_bound(1, 1) == Fraction(1, 20)
    assert lower_bound(1, 1, Fraction(50_001, GRID) - Fraction(1, 10**30)) == Fraction(1, 20)


@settings(max_examples=some(100), deadline=None)
@given(st.integers(1, 300), st.fractions(Fraction(1, 100), Fraction(99, 100)))
def test_fewer_successes_than_needed_are_too_few(trials: int, share: Fraction) -> None:
    needed = successes_needed(share, trials)
    enough = [k for k in range(trials + 1) if lower_bound(k, trials) >= share]
    assert needed == min(enough, default=None)
