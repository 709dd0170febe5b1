"""When an instruction works on a line: against a walk over every element."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.isa import flow
from compiler.isa.lines import Pieces
from compiler.isa.stream import Guard, Loop, Stream
from tests.compiler.oracle.footprint import elements
from tests.tiers import some

Range = tuple[int, int]
LINE = 40


@st.composite
def pieces(draw: st.DrawFn) -> tuple[Stream, Range, Range]:
    def nest(most: int) -> tuple[Loop, ...]:
        loops = st.tuples(st.integers(1, 5), st.sampled_from((0, 2, 2, 4, 6, 10, 36, 40, 44, 120, -2, -46)))
        return tuple(Loop(*loop) for loop in draw(st.lists(loops, max_size=most)))

    def part(total: int) -> Range:
        start = draw(st.integers(0, total - 1))
        return draw(st.sampled_from(((0, total), (start, draw(st.integers(1, total - start))))))

    g1, g2 = nest(3), nest(3)
    guards = tuple(
        Guard(
            draw(st.integers(1, 6)),
            draw(st.integers(-2, 2)),
            tuple(draw(st.sampled_from((0, 0, 1, 2))) for _ in g1 + g2),
        )
        for _ in range(draw(st.integers(0, 2)))
    )
    sizes = [1, 1]
    for at, group in enumerate((g1, g2)):
        for loop in group:
            sizes[at] *= loop.extent
    # without loops an operand is repeated along the range, whatever its length
    rows = part(sizes[0]) if g1 else (0, draw(st.integers(1, 4)))
    inner = part(sizes[1]) if g2 else (0, draw(st.integers(1, 4)))
    return Stream("i16", 2 * draw(st.integers(0, 400)), (), g1, g2, guards), rows, inner


def visits(stream: Stream, rows: Range, inner: Range, kind: str) -> dict[int, tuple[int, int]]:
    """First and last row (or point) by line, element by element."""
    table = elements(stream, 0, rows, inner)
    wide = inner[1] if stream.g2 or kind == flow.POINTS else 1
    found: dict[int, list[int]] = {}
    for r in range(rows[1]):
        for c in range(wide):
            place = table[r if stream.g1 else 0][c if stream.g2 else 0][0]
            if place is not None:
                number = r * inner[1] + c if kind == flow.POINTS else r
                for line in (place // LINE, (place + 1) // LINE):
                    found.setdefault(line, []).append(number)
    return {line: (min(numbers), max(numbers)) for line, numbers in found.items()}


@pytest.mark.parametrize("kind", [flow.ROWS, flow.POINTS])
@settings(max_examples=some(100), deadline=None)
@given(pieces())
def test_every_line_is_worked_on_from_its_first_item_to_its_last(kind: str, piece: tuple[Stream, Range, Range]) -> None:
    stream, rows, inner = piece
    found = flow.touched(flow.runs(stream, 0, rows, inner, LINE, kind), LINE)
    wanted = visits(stream, rows, inner, kind)
    numbers = zip(found.first.tolist(), found.last.tolist(), strict=True)
    assert dict(zip(found.lines.tolist(), numbers, strict=True)) == wanted
    assert found.lines.tolist() == sorted(wanted)
    again = Pieces(stream, LINE).lines(0, rows, inner, kind)
    assert [column.tolist() for column in again] == [column.tolist() for column in found]


@settings(max_examples=some(100), deadline=None)
@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 200))
def test_items_follow_each_other_evenly(rows: int, group: int, beats: int) -> None:
    pace = flow.Pace(-(-rows // group), group, beats)
    begins, ends = ([int(f(n)) for n in range(rows)] for f in (pace.begin, pace.end))  # type: ignore[arg-type, operator]
    assert (begins[0], ends[-1]) == (0, beats)
    assert all(b < e for b, e in zip(begins, ends, strict=True))
    for n in range(rows - group):  # an item begins when the one before has ended, or in its last cycle
        assert ends[n] - 1 <= begins[n + group] <= ends[n]
    share = -(-beats // pace.items)
    assert all(e - b <= share + 1 for b, e in zip(begins, ends, strict=True))
