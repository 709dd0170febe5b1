"""Lines touched by a piece of a stream: never fewer than the elements lie on; reshapes without copies as NumPy does them."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.ir.access import Access
from compiler.ir.types import DType
from compiler.isa.flow import ROWS
from compiler.tiling.place import Place, ordered_strides, reshape_strides, stream
from compiler.tiling.space import Space
from tests.tiers import some

LINE = 64
MACHINE = replace(targets.load("lpu"), line_bytes=LINE)


@st.composite
def pieces(draw):
    rank, loops = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 6)) for _ in range(rank))
    order = tuple(draw(st.permutations(range(rank))))
    place = Place("x", DType.F32, shape, 4 * draw(st.integers(0, 20)), ordered_strides(shape, order, 4))
    extents = tuple(draw(st.integers(1, 4)) for _ in range(loops))
    matrix = tuple(tuple(draw(st.integers(-2, 2)) for _ in range(loops)) for _ in range(rank))
    access = Access(tuple(draw(st.integers(-3, 6)) for _ in range(rank)), matrix)
    cut = draw(st.integers(0, loops))
    s = stream(place, access, extents, ((), tuple(range(cut)), tuple(range(cut, loops))), 0)
    ranges = [(0, 1)]
    for group in s.groups[1:]:
        total = int(np.prod(group, dtype=int))
        start = draw(st.integers(0, total - 1))
        ranges.append((start, draw(st.integers(1, total - start))))
    return place, access, extents, cut, s, tuple(ranges)


@settings(max_examples=some(300), deadline=None)
@given(pieces())
def test_every_element_inside_the_tensor_lies_on_a_named_line(case):
    place, access, extents, cut, s, ranges = case
    space = Space(MACHINE)
    space.buffer("x", "arena", place.offset + 4 * int(np.prod(place.shape)))
    named = set(space.touched(space.stream(s), ranges, ROWS).lines.tolist())
    rows = range(ranges[1][0], sum(ranges[1]))
    columns = range(ranges[2][0], sum(ranges[2]))
    for row in rows:
        for column in columns:
            loop = [*_point(row, extents[:cut]), *_point(column, extents[cut:])]
            at = [
                o + sum(c * i for c, i in zip(m, loop, strict=True))
                for o, m in zip(access.offset, access.matrix, strict=True)
            ]
            if all(0 <= a < n for a, n in zip(at, place.shape, strict=True)):
                byte = place.offset + sum(a * step for a, step in zip(at, place.strides, strict=True))
                assert byte // LINE in named
                assert (byte + 3) // LINE in named


def _point(index, extents):
    return [int(i) for i in np.unravel_index(index, extents)] if extents else []


SHAPES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


@settings(max_examples=some(300), deadline=None)
@given(SHAPES, st.data())
def test_a_reshape_without_a_copy_names_the_same_elements(shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    array = np.arange(np.prod(shape)).reshape([shape[i] for i in order]).transpose(np.argsort(order))
    total = array.size
    first = data.draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
    target = (first, total // first)
    found = reshape_strides(array.shape, tuple(s // array.itemsize for s in array.strides), target)
    flat = np.arange(total)
    if found is not None:
        view = np.lib.stride_tricks.as_strided(flat, target, [s * flat.itemsize for s in found])
        np.testing.assert_array_equal(view, array.reshape(target))
    else:
        assert not np.shares_memory(array, array.reshape(target))
