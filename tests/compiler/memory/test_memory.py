"""The memory plan: nothing live overlaps, the bound holds, a period wraps lifetimes around."""

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory import least
from compiler.memory.offsets import search
from compiler.memory.plan import LiveRange, live_bound, plan, sections
from tests.tiers import some

LINE = 320


@st.composite
def live_ranges(draw, longest=40):
    found = []
    for n in range(draw(st.integers(1, 14))):
        start = draw(st.integers(0, 100))
        size = draw(st.integers(0, 6)) * LINE
        found.append(LiveRange(f"b{n}", size, start, start + draw(st.integers(1, longest))))
    return found


def live(b, cycle, period):
    return (cycle - b.start) % period < b.end - b.start if period else b.start <= cycle < b.end


@settings(max_examples=some(150), deadline=None)
@given(live_ranges(), st.sampled_from([None, 40, 61, 200]))
def test_no_two_live_buffers_overlap_and_the_bound_is_the_largest_live_sum(buffers, period):
    result = plan(buffers, period)
    full = [b for b in buffers if b.size]
    cycles = range(period or 150)
    sums = [sum(b.size for b in full if live(b, c, period)) for c in cycles]
    assert result.bound == max(sums) == live_bound(full, period)
    assert result.bound <= result.arena <= sum(b.size for b in full)
    assert result.smallest or result.arena > result.bound
    for i, a in enumerate(full):
        for b in full[:i]:
            if any(live(a, c, period) and live(b, c, period) for c in cycles):
                low, high = result.offsets[a.name], result.offsets[b.name]
                assert low + a.size <= high or high + b.size <= low


def test_buffers_that_follow_each_other_share_their_bytes():
    chain = [LiveRange(f"b{n}", LINE * (n % 3 + 1), 10 * n, 10 * n + 15) for n in range(9)]
    result = plan(chain)
    assert result.arena == result.bound == 5 * LINE


def test_an_empty_program_needs_no_arena():
    assert plan([]).arena == 0


# Every greedy order and every improvement of one leaves a hole of two lines here.
TIGHT = [
    LiveRange(name, size * LINE, start, end)
    for name, size, start, end in (
        ("a", 5, 11, 14),
        ("b", 2, 5, 10),
        ("c", 3, 7, 12),
        ("d", 4, 10, 15),
        ("e", 6, 12, 21),
        ("f", 4, 9, 12),
        ("g", 6, 0, 3),
        ("h", 4, 6, 15),
    )
]


@settings(max_examples=25, deadline=None)
@given(live_ranges(), st.sampled_from([None, 40]))
def test_the_search_finds_offsets_exactly_where_there_are_any(buffers, period):
    """Against trying every order of first fit, which reaches every solution that can be pushed down."""
    full = [b for b in buffers if b.size][:5]
    if not full:
        return
    live, lengths = sections(full, period)
    smallest = min(_first_fit(order, live, [b.size for b in full]) for order in permutations(range(len(full))))
    sizes = [b.size for b in full]
    found = search(sizes, live, lengths, smallest, 100_000).offsets
    assert found is not None
    assert max(o + size for o, size in zip(found, sizes, strict=True)) <= smallest
    for i, j in combinations(range(len(full)), 2):
        if (live[:, i] & live[:, j]).any():
            assert found[i] + sizes[i] <= found[j] or found[j] + sizes[j] <= found[i]
    assert search(sizes, live, lengths, smallest - LINE, 100_000)[::2] == (None, True)


def _first_fit(order, live, sizes):
    placed = {}
    for i in order:
        at = 0
        for low, high in sorted((placed[j], placed[j] + sizes[j]) for j in placed if (live[:, i] & live[:, j]).any()):
            if at + sizes[i] <= low:
                break
            at = max(at, high)
        placed[i] = at
    return max(placed[i] + sizes[i] for i in placed)


def test_a_search_stops_when_its_steps_are_spent():
    live, lengths = sections(TIGHT, None)
    sizes = [b.size for b in TIGHT]
    assert search(sizes, live, lengths, live_bound(TIGHT), 2) == (None, 2, False)
    assert plan(TIGHT).arena == live_bound(TIGHT) == 20 * LINE


def test_lifetimes_that_wrap_around_may_need_more_than_ever_is_live_and_that_is_proved():
    arcs = [LiveRange("a", LINE, 0, 7), LiveRange("b", LINE, 4, 11), LiveRange("c", LINE, 8, 15)]
    result = plan(arcs, 12)  # each meets the others, never all three at once
    assert (result.arena, result.bound, result.smallest) == (3 * LINE, 2 * LINE, True)
    assert plan(arcs, 20).arena == 2 * LINE


def test_a_search_is_as_deep_as_there_are_buffers():
    long = [LiveRange(f"b{n}", LINE, 0, 10) for n in range(600)]
    live, lengths = sections(long, None)
    found = search([b.size for b in long], live, lengths, 600 * LINE, 600)
    assert found.offsets is not None
    assert sorted(found.offsets) == [n * LINE for n in range(600)]


@settings(max_examples=some(40), deadline=None)
@given(live_ranges(longest=30), st.sampled_from([40, 61]))
def test_an_integer_program_agrees_with_what_the_search_proves(buffers, period):
    result = plan(buffers[:8], period)
    found = least(buffers[:8], period, result.arena, 10.0) if result.arena else 0
    assert result.bound <= found <= result.arena
    assert not result.smallest or found == result.arena
