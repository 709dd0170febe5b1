"""No form of a contraction and no compiled program, however it is cut, takes fewer beats than the bound says."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.bounds import bounds
from compiler.bounds.planes import Grid, beats
from compiler.driver import quiet
from compiler.ir.types import DType
from compiler.passes import optimise
from compiler.scheduling.build import build
from compiler.tiling import contraction, loop_nests
from compiler.tiling.stationary import DataflowSelector
from tests.compiler.contractions import contractions, small
from tests.tiers import some


class Cutter:
    """A form drawn at random: boxes of rows, columns and inner points, each on either side and with any blocks."""

    def __init__(self, rng, depth, width):
        self.rng, self.depth, self.width = rng, depth, width

    def beats(self, *extents):
        """Beats of a random cut of a box of rows, columns and inner points; what blocks leave of a beat, others may take."""
        ways = [(side, blocks) for side in (0, 1) for blocks in range(1, 5) if self.fit(extents, side, blocks)]
        long = [a for a in range(3) if extents[a] > 1]
        if ways and (not long or self.rng.random() < 0.8):
            side, blocks = ways[int(self.rng.integers(len(ways)))]
            return Fraction(extents[side], blocks)
        axis = int(self.rng.choice(long))
        at = int(self.rng.integers(1, extents[axis]))
        halves = [[n if a == axis else e for a, e in enumerate(extents)] for n in (at, extents[axis] - at)]
        return sum(self.beats(*half) for half in halves)

    def fit(self, extents, side, blocks):
        return extents[1 - side] <= self.width // blocks and extents[2] <= self.depth // blocks


@settings(max_examples=some(400), deadline=None)
@given(
    extents=st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    tile=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 1 << 30),
)
def test_no_form_drawn_at_random_takes_fewer_beats(extents, tile, seed):
    rows, columns, inner = extents
    counted = beats(Grid(1, {inner: rows}, columns, Fraction(inner * rows)), *tile)
    assert counted <= Cutter(np.random.default_rng(seed), *tile).beats(rows, columns, inner)


@pytest.mark.parametrize(
    ("grid", "tile", "expected"),
    [
        ((640, 320, 640), (320, 320), 1280),  # whole tiles only
        ((49, 2048, 320), (320, 320), 343),  # 49 rows: six passes of 320 columns and one of 128
        ((1, 1000, 320), (320, 320), 4),
        ((64, 64, 320), (320, 320), 64),  # one row or one column a beat: 64 of 320 columns are used
        ((64, 64, 64), (320, 320), Fraction(64, 5)),  # five products share a pass
        ((7, 5, 3), (1, 1), 105),
    ],
)
def test_passes_that_were_counted_by_hand(grid, tile, expected):
    rows, columns, inner = grid
    assert beats(Grid(1, {inner: rows}, columns, Fraction(inner * rows)), *tile) == expected


def test_rows_that_padding_makes_shorter_count_as_short_as_they_are():
    grid = Grid(1, {4: 2, 6: 4, 9: 25}, 16, Fraction(4 * 2 + 6 * 4 + 9 * 25))
    assert beats(grid, 4, 16) == 2 * 1 + 4 * 2 + 25 * 3


class Anyhow:
    """Makes the compiler choose sides, tiles and shared passes at random instead of by cost."""

    def __init__(self, monkeypatch, seed):
        self.rng = np.random.default_rng(seed)
        monkeypatch.setattr(DataflowSelector, "choose", lambda selector, node: self.one(selector._sides(node)))
        monkeypatch.setattr(contraction, "choose", self.cut)
        blocked = loop_nests.packed_batch
        monkeypatch.setattr(loop_nests, "packed_batch", lambda *a: blocked(*a) if self.rng.random() < 0.8 else [])

    def one(self, found):
        return found[int(self.rng.integers(len(found)))]

    def cut(self, form, tiler):
        columns = self.one(contraction._widths(form, tiler))
        rows = self.one(contraction._heights(form, tiler, columns))
        return self.one(contraction._cuts(form, tiler, rows, columns))


@settings(max_examples=some(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 1 << 30),
    tile=st.tuples(st.integers(2, 12), st.integers(2, 12)),
    lanes=st.sampled_from([1, 4, 320]),
    alus=st.integers(1, 3),
    dtype=st.sampled_from([DType.F32, DType.I8]),
)
def test_no_program_beats_its_bound_whatever_sides_and_cuts_it_has(seed, tile, lanes, alus, dtype):
    graph = optimise(contractions(np.random.default_rng(seed), 3, dtype))
    machine = small(*tile, lanes=lanes, alus=alus)
    with pytest.MonkeyPatch.context() as patch:
        Anyhow(patch, seed)
        plan = build(graph, machine, quiet)
    found = bounds(graph, machine)
    assert found.latency <= plan.latency
    assert found.interval <= plan.interval
