"""Reshapes that join dimensions go behind the maps that read them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Compute, Operand, Reshape, View
from compiler.ir.interpreter import run
from compiler.ir.terms import arg, index
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import dead_code, fold_views, fuse, sink

F32 = DType.F32


def repeated(b, value, axis, times):
    """Every index along an axis ``times`` times in a row: a view and a reshape."""
    shape = list(b.shape(value))
    wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
    rows = tuple(tuple(int(i == j + (j > axis)) for i in range(len(wide))) for j in range(len(shape)))
    shape[axis] *= times
    return b.reshape(b.view(value, wide, Access((0,) * len(rows), rows)), tuple(shape))


def images(channels, rows, columns, times, other, kept):
    """An image made larger along both axes, and what is added to it; ``kept``: somebody else needs the larger one."""
    b = Builder("images")
    b.source = ("images",)
    x = b.input("x", TensorType(F32, (channels, rows, columns)))
    large = repeated(b, repeated(b, x, 1, times), 2, times)
    shape = b.shape(large)
    y = b.input("y", TensorType(F32, shape))
    access = {
        "same": Access.identity(3),
        "turned": Access((0, shape[1] - 1, 0), ((1, 0, 0), (0, -1, 0), (0, 0, 1))),
        "channel": Access((0, 0, 0), ((1, 0, 0), (0, 0, 0), (0, 0, 0))),
    }[other]
    out = b.compute(shape, [Operand(large, Access.identity(3)), Operand(y, access)], arg(0, F32) + arg(1, F32) * 2.0)
    return b.finish({"out": out, "large": large} if kept else {"out": out}, {}, {})


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
    times=st.integers(2, 3),
    other=st.sampled_from(("same", "turned", "channel")),
    kept=st.booleans(),
)
def test_an_image_is_read_as_it_was_before_it_was_repeated(sizes, times, other, kept):
    graph = images(*sizes, times, other, kept)
    made = verify(dead_code(sink(fold_views(graph))))
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal(graph.types[name].shape).astype("f4") for name in graph.inputs}
    before, after = run(graph, feeds), run(made, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert any(isinstance(n, View) for n in made.nodes) == kept
    assert sum(n.points for n in made.nodes if isinstance(n, Compute)) == graph.types["out"].elements


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), min_size=2, max_size=5), cut=st.integers(1, 4), counts=st.booleans())
def test_what_follows_a_sum_ends_it_whatever_shape_it_goes_over(sizes, cut, counts):
    b = Builder("sums")
    b.source = ("sums",)
    x = b.input("x", TensorType(F32, (*sizes, 3)))
    rank = len(sizes)
    rows = tuple(tuple(int(i == j) for i in range(rank + 1)) for j in range(rank + 1))
    total = b.compute(
        (*sizes, 3), [Operand(x, Access((0,) * (rank + 1), rows))], arg(0, F32), parallel=rank, reducer="sum"
    )
    at = min(cut, rank - 1)
    shape = (int(np.prod(sizes[:at])), int(np.prod(sizes[at:])))
    flat = b.reshape(total, shape)
    term = arg(0, F32) * 3.0
    if counts:  # a map that asks for its place goes over what it did
        term = term + index(1, DType.I64).cast(F32)
    out = b.compute(shape, [Operand(flat, Access.identity(2))], term)
    graph = b.finish({"out": out}, {}, {})
    made = verify(fuse(sink(graph)))
    feeds = {"x": np.random.default_rng(1).standard_normal((*sizes, 3)).astype("f4")}
    assert np.array_equal(run(graph, feeds)["out"], run(made, feeds)["out"])
    joined = any(sum(n > 1 for n in some) > 1 for some in (sizes[:at], sizes[at:]))
    if joined and not counts:
        assert [type(n) for n in made.nodes] == [Compute, Reshape]


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)),
    times=st.tuples(st.integers(2, 3), st.integers(2, 3)),
    kept=st.booleans(),
)
def test_an_image_repeated_along_two_axes_is_stored_once(sizes, times, kept):
    b = Builder("larger")
    b.source = ("larger",)
    x = b.input("x", TensorType(F32, sizes))
    once = repeated(b, x, 1, times[0])
    large = repeated(b, once, 2, times[1])
    graph = b.finish({"once": once, "large": large} if kept else {"large": large}, {}, {})
    made = verify(dead_code(sink(fold_views(graph))))
    feeds = {"x": np.random.default_rng(0).standard_normal(sizes).astype("f4")}
    before, after = run(graph, feeds), run(made, feeds)
    assert all(np.array_equal(before[name], after[name]) for name in before)
    assert sum(isinstance(n, View) for n in made.nodes) <= 1 + kept
