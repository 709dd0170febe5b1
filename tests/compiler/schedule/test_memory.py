"""The memory plan: nothing live overlaps, the bound holds, a period wraps lifetimes around."""

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.schedule.memory import Lifetime, live_bound, plan

LINE = 320


@st.composite
def lifetimes(draw, longest=40):
    found = []
    for n in range(draw(st.integers(1, 14))):
        start = draw(st.integers(0, 100))
        size = draw(st.integers(0, 6)) * LINE
        found.append(Lifetime(f"b{n}", size, start, start + draw(st.integers(1, longest))))
    return found


def live(b, cycle, period):
    return (cycle - b.start) % period < b.end - b.start if period else b.start <= cycle < b.end


@settings(max_examples=150, deadline=None)
@given(lifetimes(), st.sampled_from([None, 40, 61, 200]))
def test_no_two_live_buffers_overlap_and_the_bound_is_the_largest_live_sum(buffers, period):
    result = plan(buffers, period)
    full = [b for b in buffers if b.size]
    cycles = range(period or 150)
    sums = [sum(b.size for b in full if live(b, c, period)) for c in cycles]
    assert result.bound == max(sums) == live_bound(full, period)
    assert result.bound <= result.arena <= sum(b.size for b in full)
    for i, a in enumerate(full):
        for b in full[:i]:
            if any(live(a, c, period) and live(b, c, period) for c in cycles):
                low, high = result.offsets[a.name], result.offsets[b.name]
                assert low + a.size <= high or high + b.size <= low


def test_buffers_that_follow_each_other_share_their_bytes():
    chain = [Lifetime(f"b{n}", LINE * (n % 3 + 1), 10 * n, 10 * n + 15) for n in range(9)]
    result = plan(chain)
    assert result.arena == result.bound == 5 * LINE


def test_an_empty_program_needs_no_arena():
    assert plan([]).arena == 0
