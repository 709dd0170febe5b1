"""Work on both sides of a barrier is counted one after the other, and no program of such a graph beats that."""

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.tiers import some

F32 = DType.F32
STEPS = ("map", "rows", "columns", "whole", "product", "part", "beside", "join", "folded")


def chain(rows, columns, steps):
    """Maps, reductions whose result every element of the next map reads, products, slices, and ways around all of them."""
    b = Builder("barriers")
    value = first = b.input("x", TensorType(F32, (rows, columns)))
    here = Access.identity(2)
    loops = (rows, columns)
    for step in steps:
        if step == "map":
            value = b.compute(loops, [Operand(value, here)], arg(0, F32).op("erf").op("exp"))
        elif step == "product":
            value = _product(b, value, columns)
        elif step == "join":  # a sum over what is made and what was there at first
            value = _product(b, b.join([value, first], 1), columns)
        elif step == "folded":
            value = b.reshape(_reduced(b, b.reshape(value, (columns, rows)), columns, rows, "rows"), (rows, columns))
        elif step == "part":
            shown = b.view(value, (rows, columns), Access((-1, 0), ((1, 0), (0, 1))), fill=0.0)
            value = b.compute(loops, [Operand(shown, here)], arg(0, F32) + 1.0)
        elif step == "beside":
            value = b.compute(loops, [Operand(value, here), Operand(first, here)], arg(0, F32) + arg(1, F32))
        else:
            value = _reduced(b, value, rows, columns, step)
    return b.finish({"y": value}, {}, {})


def _product(b, value, columns):
    """The value times a matrix of as many columns as the chain has."""
    rows, inner = b.shape(value)
    weights = b.constant(np.ones((inner, columns), np.float32))
    sides = [Access((0, 0), ((1, 0, 0), (0, 0, 1))), Access((0, 0), ((0, 0, 1), (0, 1, 0)))]
    operands = [Operand(v, a) for v, a in zip((value, weights), sides, strict=True)]
    return b.compute((rows, columns, inner), operands, arg(0, F32) * arg(1, F32), parallel=2, reducer="sum")


REDUCED = {  # loops, how they read the value, and how the map behind reads the result
    "whole": (lambda rows, columns: (1, rows, columns), ((0, 1, 0), (0, 0, 1)), (0, 0)),
    "rows": (lambda rows, columns: (rows, columns), ((1, 0), (0, 1)), (1, 0)),
    "columns": (lambda rows, columns: (columns, rows), ((0, 1), (1, 0)), (0, 1)),
}


def _reduced(b, value, rows, columns, kind):
    """The value less the largest of its rows, its columns, or everything."""
    loops, access, back = REDUCED[kind]
    whole = [Operand(value, Access((0, 0), access))]
    most = b.compute(loops(rows, columns), whole, arg(0, F32), parallel=1, reducer="max")
    both = [Operand(value, Access.identity(2)), Operand(most, Access((0,), (back,)))]
    return b.compute((rows, columns), both, arg(0, F32) - arg(1, F32))


@settings(max_examples=some(64), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.sampled_from([1, 3, 40, 160]),
    columns=st.sampled_from([1, 7, 64, 320]),
    steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=8),
)
def test_no_program_with_barriers_beats_its_bound(rows, columns, steps):
    machine = targets.load("lpu")
    graph = chain(rows, columns, steps)
    plan, found = build(graph, machine, quiet, objective="latency"), bounds(graph, machine)
    assert found.latency <= plan.latency
    assert found.interval <= plan.interval


def test_bodies_on_both_sides_of_a_barrier_follow_each_other():
    machine = targets.load("lpu")

    def cycles(*steps):
        return bounds(chain(320, 320, steps), machine).latency

    body = cycles("map", "map") - cycles("map")
    assert cycles("map", "whole", "map", "whole", "map") >= cycles("map", "whole", "map") + body


def test_what_goes_around_a_barrier_does_not_wait_for_it():
    machine = targets.load("lpu")
    wide = (160, 320)

    def beside(steps):
        b = Builder("beside")
        x, y = (b.input(name, TensorType(F32, wide)) for name in "xy")
        one = _reduced(b, x, *wide, "whole")
        for _ in range(steps):
            y = b.compute(wide, [Operand(y, Access.identity(2))], arg(0, F32).op("erf"))
        return b.finish({"one": one, "two": y}, {}, {})

    graph = beside(4)
    assert bounds(graph, machine).latency <= build(graph, machine, quiet, objective="latency").latency


def test_what_needs_all_of_a_join_comes_behind_its_last_part():
    machine = targets.load("lpu")

    def cycles(*steps):
        return bounds(chain(40, 64, steps), machine).latency

    late = ["map", "whole"] * 4
    assert cycles(*late, "join") > cycles(*late) + machine.vector.latency
    assert cycles(*late, "join", *late) > cycles(*late, "join") + (cycles(*late) - cycles("map")) // 2


def test_what_needs_all_of_a_reshaped_row_waits_for_the_row():
    machine = targets.load("lpu")

    def cycles(*steps):
        return bounds(chain(160, 320, steps), machine).latency

    assert cycles("whole", "folded", "whole") >= cycles("whole", "rows", "whole")
