"""Sums of scaled bytes add up the bytes first, which is exact."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import arg, const
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes.scaled_sums import EXACT, LARGEST_CODE, scaled_sums

F32 = DType.F32


def summed(rows, terms, kind, factor, behind=False, reducer="sum"):
    """Each row of codes times ``factor``, reduced; ``behind``: and something done with the result."""
    b = Builder("sums")
    b.source = ("sums",)
    x = b.input("x", TensorType(kind, (rows, terms)))
    post = arg(-1, F32) + 1.5 if behind else None
    term = arg(0, kind).widen("mul", const(factor, F32), F32)
    y = b.compute((rows, terms), [Operand(x, Access.identity(2))], term, parallel=1, reducer=reducer, post=post)
    return b.finish({"y": y}, {}, {})


@given(
    st.integers(1, 4),
    st.integers(1, 90),
    st.sampled_from([DType.U8, DType.I8]),
    st.floats(2.0**-12, 4, width=32),
    st.booleans(),
)
def test_the_sum_is_that_of_the_codes_scaled_once(rows, terms, kind, factor, behind):
    graph = summed(rows, terms, kind, factor, behind)
    made = verify(scaled_sums(graph))
    low, high = np.iinfo(kind.numpy).min, np.iinfo(kind.numpy).max
    x = np.random.default_rng(terms).integers(low, high + 1, (rows, terms)).astype(kind.numpy)
    want = x.sum(1, dtype=np.int64).astype(np.float32) * np.float32(factor) + np.float32(1.5 * behind)
    np.testing.assert_array_equal(run(made, {"x": x})["y"], want)
    np.testing.assert_allclose(run(graph, {"x": x})["y"], want, rtol=1e-4, atol=1e-3 * factor)


@pytest.mark.parametrize(
    ("kind", "terms", "reducer"),
    [(DType.I32, 9, "sum"), (DType.U8, 9, "max"), (DType.U8, EXACT // LARGEST_CODE + 1, "sum")],
)
def test_what_is_not_exact_stays(kind, terms, reducer):
    graph = summed(2, terms, kind, 0.5, reducer=reducer)
    assert scaled_sums(graph).nodes == graph.nodes
