"""Reductions are the declared tree, contractions the declared order, bit by bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from compiler.isa.meaning import Factors, joined, summed
from compiler.numerics import contract as contraction
from compiler.numerics.contract import contract, in_order
from compiler.numerics.reduce import REDUCERS, identity, reduce
from tests.tiers import some

FINITE = st.floats(-1e6, 1e6, width=32)


def tree(values, op, neutral):
    """The definition, literally."""
    values = list(values)
    while len(values) & (len(values) - 1):
        values.append(neutral)
    while len(values) > 1:
        values = [op(values[i], values[i + 1]) for i in range(0, len(values), 2)]
    return values[0]


@settings(max_examples=some(100))
@given(x=hnp.arrays(np.float32, st.integers(1, 70), elements=FINITE))
def test_a_float_sum_is_the_tree_over_adjacent_pairs(x):
    assert reduce("sum", x).tobytes() == np.float32(tree(x, np.add, np.float32(0))).tobytes()


@settings(max_examples=some(100))
@given(x=hnp.arrays(np.float32, st.integers(1, 70), elements=FINITE), m=st.integers(0, 5))
def test_chunks_of_a_power_of_two_are_subtrees(x, m):
    chunks = [reduce("sum", x[i : i + 2**m]) for i in range(0, len(x), 2**m)]
    assert reduce("sum", np.array(chunks)) == reduce("sum", x)


@settings(max_examples=some(100))
@given(x=hnp.arrays(np.int32, hnp.array_shapes(min_dims=2, max_dims=3, max_side=9)), data=st.data())
def test_integer_reductions_equal_numpys_on_any_axis(x, data):
    axis = data.draw(st.integers(0, x.ndim - 1))
    assert np.array_equal(reduce("sum", x, axis), x.sum(axis, dtype=np.int32))
    assert np.array_equal(reduce("max", x, axis), x.max(axis))
    assert np.array_equal(reduce("min", x, axis), x.min(axis))
    assert np.array_equal(reduce("prod", x, axis), x.prod(axis, dtype=np.int32))
    assert np.array_equal(reduce("any", x > 0, axis), (x > 0).any(axis))
    assert np.array_equal(reduce("all", x > 0, axis), (x > 0).all(axis))


@pytest.mark.parametrize("op", REDUCERS)
def test_an_empty_reduction_gives_the_identity(op):
    dtype = np.dtype("?") if op in ("any", "all") else np.dtype("f4")
    assert list(reduce(op, np.zeros((2, 0), dtype))) == [identity(op, dtype)] * 2


def matrices(dtype, elements):
    return st.tuples(st.integers(1, 40), st.integers(1, 20), st.integers(1, 40)).flatmap(
        lambda s: st.tuples(
            hnp.arrays(dtype, (s[0], s[1]), elements=elements), hnp.arrays(dtype, (s[1], s[2]), elements=elements)
        )
    )


@settings(max_examples=some(100))
@given(pair=matrices(np.float32, FINITE), started=st.booleans())
def test_a_float_contraction_adds_products_in_ascending_order(pair, started):
    a, b = pair
    acc = np.full((len(a), b.shape[1]), np.float32(0.1)) if started else None
    expected = np.zeros((len(a), b.shape[1]), np.float32) if acc is None else acc.copy()
    for k in range(len(b)):
        expected = expected + a[:, k][:, None] * b[k][None, :]
    assert contract(acc, a, b).tobytes() == expected.tobytes()
    assert acc is None or (acc == np.float32(0.1)).all()


@settings(max_examples=some(100))
@given(pair=matrices(np.float32, FINITE), cut=st.integers(0, 20))
def test_a_contraction_continues_where_another_stopped(pair, cut):
    a, b = pair
    first = contract(None, a[:, :cut], b[:cut])
    assert contract(first, a[:, cut:], b[cut:]).tobytes() == contract(None, a, b).tobytes()


@pytest.mark.parametrize(("left", "right"), [("i1", "i1"), ("u1", "i1"), ("i1", "u1"), ("u1", "u1")])
def test_byte_contractions_are_exact_at_their_extremes(left, right):
    for k in (1, 255, 256, 511, 512, 513, 2000):
        a = np.full((3, k), np.iinfo(left).min or 255, left)
        b = np.full((k, 2), np.iinfo(right).min or 255, right)
        expected = a.astype("i8") @ b.astype("i8")
        got = contract(None, a, b, np.dtype("i4"))
        assert got.dtype == np.int32
        assert np.array_equal(got, expected)


@settings(max_examples=some(100))
@given(pair=matrices(np.int8, st.integers(-128, 127)))
def test_byte_contractions_equal_integer_arithmetic(pair):
    a, b = pair
    start = np.arange(len(a) * b.shape[1], dtype="i4").reshape(len(a), b.shape[1])
    assert np.array_equal(contract(start, a, b), start + a.astype("i8") @ b.astype("i8"))


def test_batches_narrow_and_wide_and_other_integers():
    rng = np.random.default_rng(5)
    for n in (3, 40):
        a, b = rng.standard_normal((2, 3, 5, 7)).astype("f4"), rng.standard_normal((3, 7, n)).astype("f4")
        got = contract(None, a, b)
        for i in range(2):
            for j in range(3):
                assert np.array_equal(got[i, j], contract(None, a[i, j], b[j]))
    a, b = rng.integers(-(2**40), 2**40, (2, 4, 5))
    assert np.array_equal(contract(None, a, b.T), a @ b.T)


def test_a_big_matrix_is_cut_into_blocks_without_a_trace():
    rng = np.random.default_rng(6)
    a, b = rng.standard_normal((700, 9)).astype("f4"), rng.standard_normal((9, 300)).astype("f4")
    whole = contract(None, a, b)
    assert np.array_equal(whole[431], contract(None, a[431:432], b)[0])
    assert np.array_equal(whole[:, 7], contract(None, a, b[:, 7:8])[:, 0])


@settings(max_examples=some(100))
@given(data=st.data(), started=st.booleans())
def test_products_by_the_same_factor_are_each_as_alone(data, started):
    batch = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=3))
    rows, inner, columns = (data.draw(st.sampled_from(sizes)) for sizes in ((1, 5, 130), (1, 7), (1, 6, 140, 300)))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    factors = []
    for shape in ((rows, inner), (inner, columns)):
        own = tuple(n if data.draw(st.booleans()) else 1 for n in batch)
        array = rng.normal(size=(*own, *shape)).astype(np.float32)
        factors.append(np.broadcast_to(array, (*batch, *shape)))
    a, b = factors
    acc = rng.normal(size=(*batch, rows, columns)).astype(np.float32) if started else None
    got = contract(acc, a, b)
    for place in np.ndindex(*batch):
        expected = np.zeros((rows, columns), np.float32) if acc is None else acc[place]
        for k in range(inner):
            expected = expected + a[place][:, k, None] * b[place][k]
        assert got[place].tobytes() == expected.tobytes()


def same(x, y):
    """Bit by bit, but for what is no number."""
    there = ~np.isnan(x)
    return np.array_equal(there, ~np.isnan(y)) and x[there].tobytes() == y[there].tobytes()


ODD = st.one_of(FINITE, st.sampled_from([0.0, -0.0, np.inf, -np.inf, np.nan, 1e38, -1e-45]))


@settings(max_examples=some(100))
@given(pair=matrices(np.float32, ODD), started=st.booleans(), data=st.data())
def test_products_that_are_not_there_leave_no_trace(pair, started, data):
    """Whatever is multiplied by the 0 of a cell that is off: infinity and what is no number too."""
    a, b = pair
    on = data.draw(hnp.arrays(np.bool_, b.shape))
    b = np.where(on, b, np.float32(0))
    times = data.draw(st.integers(1, 3))
    a = np.stack([a] * times)
    acc = contract(None, a[..., ::-1], b[::-1], on=on[::-1]) if started else None
    expected = np.zeros((times, a.shape[1], b.shape[1]), np.float32) if acc is None else acc.copy()
    with np.errstate(all="ignore"):
        for k in range(len(b)):
            expected = np.where(on[k], expected + a[..., k][..., None] * b[k], expected)
    assert same(contract(acc, a, b, on=on), expected)
    by_block = contract(None, a[:, None], b[None], on=np.stack([on]))
    assert same(by_block[:, 0], contract(None, a, b, on=on))


@settings(max_examples=some(100))
@given(pair=matrices(np.float32, ODD | st.just(-np.float32(np.nan))), cut=st.integers(0, 20), data=st.data())
def test_what_is_no_number_has_one_form(pair, cut, data):
    """All at once, in parts and with cells off: whose sign it would have is the loop's choice."""
    a, b = pair
    on = data.draw(st.sampled_from([None, np.ones(b.shape, np.bool_), np.arange(b.size).reshape(b.shape) % 3 == 0]))
    b = b if on is None else np.where(on, b, np.float32(0))
    parts = None
    for half in (slice(0, cut), slice(cut, None)):
        parts = contract(parts, a[:, half], b[half], on=None if on is None else on[half])
    at_once = contract(None, a, b, on=on)
    assert at_once.tobytes() == parts.tobytes()
    assert not np.signbit(at_once[np.isnan(at_once)]).any()


@settings(max_examples=some(100))
@given(pair=matrices(np.uint16, st.integers(0, 0xFFFF)), times=st.integers(1, 40))
def test_short_floats_widen_without_loss(pair, times):
    """Of any bits: `st.floats(width=16)` throws away most of what it draws."""
    a, b = (np.broadcast_to(array.view(np.float16), (times, *array.shape)) for array in pair)
    wide = contract(None, a.astype("f4"), b.astype("f4"))
    assert same(contract(None, a, b, np.dtype("f4")), wide)


def astray(array):
    """A copy that begins between two of its numbers, as numbers lie that are no multiple of their size from the first byte."""
    found = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


LAYOUTS = {
    "as it is": lambda x: x,
    "astray": astray,
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1])[..., ::-1, ::-1],
    "apart": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
}


@settings(max_examples=some(100))
@given(data=st.data(), dtype=st.sampled_from(["f4", "f8", "i4"]))
def test_products_at_once_are_products_one_by_one(data, dtype):
    """However the factors lie in memory, and however wide they are."""
    rows, inner, columns = (
        data.draw(st.sampled_from(sizes)) for sizes in ((1, 2, 7, 40), (1, 2, 9, 33), (1, 2, 3, 8, 41, 70))
    )
    batch = data.draw(st.sampled_from([(), (1,), (4,), (2, 3)]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    factors = []
    for shape in ((rows, inner), (inner, columns)):
        array = (rng.normal(size=(*batch, *shape)) * 1000).astype(dtype)
        if batch and data.draw(st.booleans()):
            array = np.broadcast_to(array[:1], array.shape)
        factors.append(LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))](array))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contraction, "_ACROSS", data.draw(st.sampled_from([8, 1 << 12])))
        at_once = contract(None, *factors)
        patch.setattr(contraction, "in_order", lambda _: False)
        assert at_once.tobytes() == contract(None, *factors).tobytes()


@pytest.mark.parametrize("columns", [16, 17, 24, 25, 33])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_wide_factor_is_never_cut_down_to_one_column(columns, layout, monkeypatch):
    """Of which the loop over products would be the innermost one, and that is cut in parts."""
    monkeypatch.setattr(contraction, "_ACROSS", 8)
    rng = np.random.default_rng(columns)
    a, b = (LAYOUTS[layout](rng.normal(size=shape).astype("f4")) for shape in ((9, 400), (400, columns)))
    at_once = contract(None, a, b)
    monkeypatch.setattr(contraction, "in_order", lambda _: False)
    assert at_once.tobytes() == contract(None, a, b).tobytes()


def fused(text, a, b, out=None):
    """As a machine would that fuses a product and a sum."""
    if text == "kn,kn->n":
        return fused("", a.T[:, None], b.T[..., None])[:, 0, 0]
    total = np.zeros((*a.shape[:-1], b.shape[-1]))
    for k in range(a.shape[-1]):
        total = (total + a[..., k, None].astype("f8") * b[..., k, None, :]).astype(a.dtype).astype("f8")
    return total.astype(a.dtype)


def cut(text, a, b, out=None):
    """As a loop over products would that adds up parts."""
    if text == "kn,kn->n":
        return cut("", a.T[:, None], b.T[..., None])[:, 0, 0]
    return a[..., ::2] @ b[..., ::2, :] + a[..., 1::2] @ b[..., 1::2, :]


EINSUM = np.einsum


def dots(text, a, b, out=None):
    """As a machine would that fuses these where two long operands meet."""
    return fused(text, a, b) if text == "kn,kn->n" else EINSUM(text, a, b, out=out)


@pytest.mark.parametrize("other", [fused, cut, dots])
def test_a_machine_that_rounds_otherwise_is_noticed(other, monkeypatch):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(30, 50)).astype("f4"), rng.normal(size=(50, 40)).astype("f4")
    expected = contract(None, a, b)
    in_order.cache_clear()
    monkeypatch.setattr(np, "einsum", other)
    try:
        assert not in_order(np.dtype("f4"))
        assert contract(None, a, b).tobytes() == expected.tobytes()
    finally:
        in_order.cache_clear()


@settings(max_examples=some(100))
@given(data=st.data(), pair=matrices(np.float32, ODD), kind=st.sampled_from(["f4", "f2", "i1"]))
def test_products_joined_are_products_that_continue(data, pair, kind):
    """Cut anywhere, with some cells off in some of them."""
    with np.errstate(all="ignore"):
        a, b = (np.broadcast_to(array, (2, *array.shape)).astype(kind) for array in pair)
    cuts = sorted(data.draw(st.sets(st.integers(1, a.shape[-1] - 1), max_size=4))) if a.shape[-1] > 1 else []
    parts = []
    for low, high in zip([0, *cuts], [*cuts, a.shape[-1]], strict=True):
        on = data.draw(hnp.arrays(np.bool_, (high - low, b.shape[-1]))) if data.draw(st.booleans()) else None
        right = b[:, low:high] if on is None else np.where(on, b[:, low:high], b.dtype.type(0))
        parts.append(Factors(a[..., low:high], right, on))
    one_by_one = together = None
    for part in parts:
        one_by_one = summed(one_by_one, part)
    for part in joined(parts):
        together = summed(together, part)
    assert same(together, one_by_one)
    assert len(joined([p for p in parts if p.on is None])) <= 1
