"""Cycles, and counts, that are remembered are those that the instruction table gives."""

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.isa.counting import Counts, counts, dearest_counts
from compiler.isa.instruction import Instruction, Op
from compiler.isa.stream import Loop, Nest, Stream, points
from compiler.isa.table import time
from compiler.isa.tables import Pool
from compiler.isa.timings import Timings
from tests.tiers import some

LPU = targets.load("lpu")


@st.composite
def nests(draw: st.DrawFn) -> Nest:
    loops = st.tuples(st.integers(1, 9), st.sampled_from((0, 1, 2, 9, 60, 320, 640, 700, -1)))
    return tuple(Loop(*loop) for loop in draw(st.lists(loops, min_size=1, max_size=3)))


@settings(max_examples=some(150), deadline=None)
@given(a=st.tuples(nests(), nests()), out=st.tuples(nests(), nests()), data=st.data())
def test_pieces_that_a_whole_row_lies_between_take_the_same_time_and_count_alike(a, out, data):
    pool = Pool()
    references = [pool.stream(Stream("i8", 0, (), g1, g2)) for g1, g2 in (a, out)]
    timings = Timings(LPU, pool)
    most = [min(points(x), points(y)) for x, y in zip(a, out, strict=True)]
    sizes = [data.draw(st.integers(1, n)) for n in most]
    rows = []
    for _ in range(8):
        starts = [data.draw(st.integers(0, n - count)) for n, count in zip(most, sizes, strict=True)]
        i = Instruction(
            Op.MOVE,
            a=references[0],
            out=references[1],
            start1=starts[0],
            count1=sizes[0],
            start2=starts[1],
            count2=sizes[1],
        )
        assert timings.of(i) == time(LPU, pool, i)
        rows.append(i)
    each = [counts(LPU, pool, i) for i in rows]
    assert dearest_counts(LPU, pool, rows) == each
    assert Counts.total(dearest_counts(LPU, pool, rows)).read == sum(one.read for one in each)
