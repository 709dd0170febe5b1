"""Maps computed by their readers, and sums apart from contractions that have no operand left for them."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.expr import FREE
from compiler.ir.graph import Compute, Operand
from compiler.ir.interpreter import run
from compiler.ir.terms import Term, arg
from compiler.ir.types import DType, TensorType
from compiler.ir.verifier import verify
from compiler.passes import ahead
from tests.compiler.checks import check_program, same
from tests.tiers import some

F32 = DType.F32
MAPS = ("neg", "abs", "exp", "mul", "sub", "div", "erf")


def whole(value):
    return Operand(value, Access.identity(2))


def chain(steps, reduced, rows=6):
    """Maps after each other over a matrix, each the input of the next; some of them are also reduced, row by row."""
    b = Builder("chain")
    x = b.input("x", TensorType(F32, (rows, 40)))
    b.source = ("chain",)
    row = Operand(b.input("row", TensorType(F32, (rows,))), Access((0,), ((1, 0),)))
    outputs = {}
    for number, op in enumerate(steps):
        binary = op in ("mul", "sub", "div")
        term = Term(op, (arg(0, F32), arg(1, F32)) if binary else (arg(0, F32),), F32)
        x = b.compute((rows, 40), [whole(x), row] if binary else [whole(x)], term)
        if number in reduced:
            largest = b.compute((rows, 40), [whole(x)], arg(0, F32), parallel=1, reducer="max")
            outputs[f"max{number}"] = largest
            row = Operand(largest, Access((0,), ((1, 0),)))
    return b.finish({**outputs, "y": x}, {}, {})


def feed(seed, rows=6):
    rng = np.random.default_rng(seed)
    return {n: rng.normal(0, 2, s).astype(np.float32) for n, s in (("x", (rows, 40)), ("row", (rows,)))}


@settings(max_examples=some(60), deadline=None)
@given(st.lists(st.sampled_from(MAPS), min_size=2, max_size=6), st.sets(st.integers(0, 5)), st.sampled_from([6, 60]))
def test_values_stay_the_same_and_no_reader_takes_more_than_a_lane_has(steps, reduced, rows):
    """Of many points; few may take some cycles more."""
    before = chain(steps, reduced, rows)
    after = ahead(before)
    verify(after)
    want, got = (run(g, feed(1, rows)) for g in (before, after))
    assert all(same(got[name], want[name]) for name in want)
    largest = {n.output: sum(s.op not in FREE for s in n.expr.steps) for n in before.nodes}
    for node in after.nodes:
        steps_now = sum(s.op not in FREE for s in node.expr.steps) + bool(node.reducer)
        assert steps_now <= max(4 if rows == 60 else 12, largest[node.output] + bool(node.reducer))


def test_a_largest_element_does_not_wait_for_the_map_that_it_is_taken_of():
    after = ahead(chain(["sub", "exp"], {1}))
    top = next(n for n in after.nodes if n.reducer == "max")
    assert [s.op for s in top.expr.steps if s.op not in FREE] == ["sub", "exp"]
    assert len(after.nodes) == 2  # the difference is gone: both readers do it


def test_a_map_of_few_points_is_computed_by_its_readers_though_that_takes_cycles_more():
    steps = ["mul", "sub", "abs", "exp", "neg"]
    assert [len(ahead(chain(steps, set(), rows)).nodes) for rows in (6, 60)] == [1, 2]


def crowded():
    """A product whose epilogue scales by row and column, adds a bias and a residual, and the residual's rows' sums."""
    b = Builder("crowded")
    x, w = (b.input(n, TensorType(DType.I8, s)) for n, s in (("x", (6, 40)), ("w", (40, 8))))
    by_row, by_column, bias = (b.input(n, TensorType(F32, (s,))) for n, s in (("r", 6), ("c", 8), ("b", 8)))
    rest = b.input("rest", TensorType(F32, (6, 8)))
    b.source = ("crowded",)
    operands = [
        Operand(x, Access((0, 0), ((1, 0, 0), (0, 0, 1)))),
        Operand(w, Access((0, 0), ((0, 0, 1), (0, 1, 0)))),
        Operand(by_row, Access((0,), ((1, 0, 0),))),
        Operand(by_column, Access((0,), ((0, 1, 0),))),
        Operand(bias, Access((0,), ((0, 1, 0),))),
        Operand(rest, Access((0, 0), ((1, 0, 0), (0, 1, 0)))),
    ]
    term = arg(0, DType.I8).widen("mul", arg(1, DType.I8), DType.I32)
    post = arg(-1, DType.I32).scaled(arg(2, F32)) * arg(3, F32) + arg(4, F32) + arg(5, F32)
    y = b.compute((6, 8, 40), operands, term, parallel=2, reducer="sum", post=post)
    total = b.compute((6, 8), [whole(y)], arg(0, F32), parallel=1, reducer="sum")
    return b.finish({"total": total}, {}, {})


def test_a_residual_that_no_epilogue_has_room_for_is_added_by_who_reads_the_sum():
    before = crowded()
    after = ahead(before)
    verify(after)
    assert next(n.output for n in after.nodes if isinstance(n, Compute) and n.is_contraction).endswith("~sum")
    rng = np.random.default_rng(3)
    feeds = {
        name: rng.integers(-99, 99, t.shape).astype(np.int8)
        if t.dtype == DType.I8
        else rng.normal(0, 1, t.shape).astype("f4")
        for name, t in ((n, before.types[n]) for n in before.inputs)
    }
    assert same(run(after, feeds)["total"], run(before, feeds)["total"])
    check_program(after, "lpu", [feeds])
