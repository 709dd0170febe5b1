"""What accesses say of themselves, against counting every point."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from tests.tiers import some

SMALL = st.integers(-2, 2)


@st.composite
def accesses(draw, coefficients=SMALL):
    """An access of up to three coordinates over up to three loops of two steps or more, and the loops' extents."""
    extents = draw(st.lists(st.integers(2, 4), min_size=1, max_size=3))
    rank = draw(st.integers(1, 3))
    rows = draw(st.lists(st.tuples(*(coefficients for _ in extents)), min_size=rank, max_size=rank))
    return Access(draw(st.tuples(*(st.integers(-1, 2) for _ in range(rank)))), tuple(rows)), tuple(extents)


mostly_plain = accesses(st.sampled_from([0, 0, 0, 1, 1, -1, 2]))


def at(access, point):
    """The coordinates of one point, by definition."""
    return tuple(
        o + sum(c * x for c, x in zip(row, point, strict=True))
        for o, row in zip(access.offset, access.matrix, strict=True)
    )


def points(extents):
    return list(product(*map(range, extents)))


def moves(access, extents, loop, j):
    """Whether some step along a loop changes a coordinate."""
    first = (0,) * len(extents)
    return at(access, first)[j] != at(access, (*first[:loop], 1, *first[loop + 1 :]))[j]


@settings(max_examples=some(200), deadline=None)
@given(accesses())
def test_which_loops_move_which_coordinates(given_):
    access, extents = given_
    loops, dims = range(len(extents)), range(len(access.offset))
    moved = {(i, j) for i in loops for j in dims if moves(access, extents, i, j)}
    for j in dims:
        assert access.loops(j) == tuple(i for i in loops if (i, j) in moved)
    for i in loops:
        assert access.dims(i) == tuple(j for j in dims if (i, j) in moved)
        assert access.uses(i) == bool(access.dims(i)) == (i in access.moving)
    for parallel in range(len(extents) + 1):
        sides = [{j for i, j in moved if i < parallel}, {j for i, j in moved if i >= parallel}]
        assert set(access.windows(parallel)) == sides[0] & sides[1]
        assert access.uses(range(parallel)) == bool(sides[0])


@settings(max_examples=some(200), deadline=None)
@given(mostly_plain, st.integers(1, 4))
def test_which_loop_a_coordinate_is_and_walks(given_, size):
    access, extents = given_
    shape = (size,) * len(access.offset)
    for j in range(len(shape)):
        same = [i for i in range(len(extents)) if all(at(access, p)[j] == p[i] for p in points(extents))]
        assert access.plain(j) == (same[0] if same else None)
    for i in range(len(extents)):
        mine = [j for j in range(len(shape)) if access.plain(j) == i]
        alone = mine if len(access.dims(i)) == 1 else []
        assert access.along(i) == (alone[0] if alone else None)
        assert access.walked(i, extents, shape) == (alone[0] if alone and extents[i] == size else None)


@settings(max_examples=some(200), deadline=None)
@given(accesses(), st.integers(1, 5))
def test_how_far_it_reaches(given_, size):
    access, extents = given_
    read = [at(access, p) for p in points(extents)]
    for j, values in enumerate(zip(*read, strict=True)):
        assert access.range(j, extents) == (min(values), max(values))
        assert access.inside(j, size, extents) == all(0 <= v < size for v in values)
    assert access.stays_inside((size,) * len(access.offset), extents) == all(0 <= v < size for c in read for v in c)


@settings(max_examples=some(200), deadline=None)
@given(mostly_plain, st.lists(st.integers(1, 3), min_size=3, max_size=3))
def test_a_permutation_reads_each_element_once(given_, sizes):
    access, extents = given_
    shape = tuple(sizes[: len(access.offset)])
    if access.is_permutation(extents, shape):
        assert sorted(at(access, p) for p in points(extents)) == points(shape)


@given(
    st.permutations(range(3)),
    st.tuples(*(st.booleans() for _ in range(3))),
    st.tuples(*(st.integers(1, 4) for _ in range(3))),
)
def test_turned_and_reversed_loops_are_a_permutation(order, backwards, extents):
    shape = tuple(extents[i] for i in order)
    access = Access.of_loops(order, 3)
    for i, back in enumerate(backwards):
        access = access.shifted(i, extents[i] - 1, -1) if back else access
    assert access.is_permutation(extents, shape)
    assert not access.is_permutation((*extents[:2], extents[2] + 1), shape)
    assert not access.shifted(0, extents[0]).is_permutation(extents, shape)


@settings(max_examples=some(200), deadline=None)
@given(accesses(), st.data())
def test_accesses_made_of_another_read_what_they_say(given_, data):
    access, extents = given_
    loops, dims = len(extents), len(access.offset)
    loop, start, step = data.draw(st.integers(0, loops - 1)), data.draw(SMALL), data.draw(SMALL)
    order = data.draw(st.permutations([*range(loops), None]))
    chosen = data.draw(st.lists(st.integers(0, dims - 1), max_size=3))
    row = data.draw(st.tuples(*(SMALL for _ in range(loops))))
    split = access.split(loop, (2, 3))
    for p in points(extents):
        here = at(access, p)
        moved = (*p[:loop], start + step * p[loop], *p[loop + 1 :])
        assert at(access.shifted(loop, start, step), p) == at(access, moved)
        assert at(access.keep(order), tuple(7 if i is None else p[i] for i in order)) == here
        assert at(access.project(chosen), p) == tuple(here[j] for j in chosen)
        assert at(access.stacked(access), p) == here + here
        assert at(access.replaced(0, start, row), p) == (at(Access((start,), (row,)), p)[0], *here[1:])
        place = divmod(p[loop], 3)
        assert at(split, (*p[:loop], *place, *p[loop + 1 :])) == here
        assert at(Access.linear([row]).compose(Access.identity(loops), loops), p) == at(Access((0,), (row,)), p)


@settings(max_examples=some(100), deadline=None)
@given(accesses(), st.data())
def test_one_access_behind_another(given_, data):
    inner, extents = given_
    rows = data.draw(st.lists(st.tuples(*(SMALL for _ in inner.offset)), min_size=1, max_size=2))
    outer = Access((1,) * len(rows), tuple(rows))
    made = outer.compose(inner, len(extents))
    assert all(at(made, p) == at(outer, at(inner, p)) for p in points(extents))
