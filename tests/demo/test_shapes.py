"""Demand by days, as rules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from apps.demo.shapes import FULL, WEEK, pieces

START = datetime(2026, 11, 2, tzinfo=UTC)
WINDOWS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=8)


def windows_of(gaps: list[tuple[int, int]]) -> list[tuple[datetime, datetime]]:
    found, at = [], START
    for pause, length in gaps:
        at += timedelta(hours=pause)
        found.append((at, at + timedelta(hours=length)))
        at = found[-1][1]
    return found


@given(WINDOWS, st.integers(1, 10**6), st.integers(0, 100))
def test_a_full_week_uses_the_whole_volume_and_no_piece_is_empty(
    gaps: list[tuple[int, int]], micro: int, seed: int
) -> None:
    each, windows = Fraction(micro, 10**6), windows_of(gaps)
    volume = sum(int(Fraction((end - start) // timedelta(seconds=1)) / each) for start, end in windows)
    found = pieces(windows, volume=volume, each=each, week=FULL, seed=str(seed))
    assert sum(one.executions for one in found) == volume
    assert all(one.executions > 0 for one in found)


@given(WINDOWS, st.integers(1, 10**6), st.integers(0, 100))
def test_a_week_with_a_shape_stays_within_the_volume_and_is_the_same_again(
    gaps: list[tuple[int, int]], micro: int, seed: int
) -> None:
    each, windows = Fraction(micro, 10**6), windows_of(gaps)
    volume = sum(int(Fraction((end - start) // timedelta(seconds=1)) / each) for start, end in windows)
    found = pieces(windows, volume=volume, each=each, week=WEEK, seed=str(seed))
    assert sum(one.executions for one in found) <= volume
    assert found == pieces(windows, volume=volume, each=each, week=WEEK, seed=str(seed))
