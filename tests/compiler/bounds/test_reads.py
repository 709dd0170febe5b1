"""What a box of outputs surely reads is no more than any such box reads, and one machine's bound is the best over all sets."""

from itertools import combinations, product
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.bounds import bounds
from compiler.bounds.barriers import _all_pairs, one_machine
from compiler.bounds.reads import _padded, covered, readings
from compiler.bounds.times import MANY, Times
from compiler.bounds.ways import Ways
from compiler.driver import quiet
from compiler.ir.access import Access
from compiler.ir.builder import Builder
from compiler.ir.graph import Operand
from compiler.ir.terms import arg
from compiler.ir.types import DType, TensorType
from compiler.scheduling.build import build
from tests.tiers import some

F32 = DType.F32
SUMS = 64


@settings(max_examples=some(300), deadline=None)
@given(
    extent=st.integers(1, 9),
    low=st.integers(-4, 3),
    taps=st.integers(1, 3),
    step=st.sampled_from([-2, -1, 1, 2, 3]),
    positions=st.integers(1, 7),
    window=st.sampled_from([(), ((1, 3),), ((2, 2),), ((1, 2), (2, 2))]),
    data=st.data(),
)
def test_windows_at_a_border_cover_as_little_as_the_best_choice_of_positions(
    extent, low, taps, step, positions, window, data
):
    count = data.draw(st.integers(1, positions))
    offset = low - (step * (positions - 1) if step < 0 else 0)
    inner = [sum(k) for k in product(*(range(0, c * n, c) for c, n in window))]
    seen = [
        {offset + step * p + t + k for t in range(taps) for k in inner} & set(range(extent)) for p in range(positions)
    ]
    least = min(len(set().union(*chosen)) for chosen in combinations(seen, count))
    counted = _padded(extent, offset, taps, step, count, positions, window)
    assert counted <= least
    together = sorted({t + k for t in range(taps) for k in inner})
    if together[-1] - together[0] == len(together) - 1:
        assert counted == least


@settings(max_examples=some(150), deadline=None)
@given(seed=st.integers(0, 1 << 30))
def test_no_box_of_outputs_reads_less_than_is_counted(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 5, 2))
    loops = tuple(int(n) for n in rng.integers(1, 4, 4))
    b = Builder("boxes")
    x = b.input("x", TensorType(F32, shape))
    matrix = tuple(tuple(int(c) for c in rng.choice([0, 0, 1, 2, -1], 4)) for _ in shape)
    at = [int(o) for o in rng.integers(-2, 3, 2)]
    operands = [
        Operand(x, Access((at[0] + i, at[1] + j), matrix), 0.0)
        for i, j in product(*(range(n) for n in rng.integers(1, 3, 2)))
    ]
    expr = sum((arg(n, F32) for n in range(1, len(operands))), arg(0, F32))
    graph = b.finish({"y": b.compute(loops, operands, expr, parallel=2, reducer="max")}, {}, {})
    sets = [sorted(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist()) for n in loops[:2]]
    points = list(product(*sets, *(range(n) for n in loops[2:])))
    places = {_place(o.access, p) for o in operands for p in points}
    read = {place for place in places if all(0 <= c < n for c, n in zip(place, shape, strict=True))}
    for reading in readings(graph.nodes[-1], graph):
        box = reading.box(tuple(len(s) for s in sets))
        assert prod(box) <= len(read)
        assert all(n <= len({place[j] for place in read}) for j, n in enumerate(box) if all(box))


def _place(access, point):
    return tuple(
        o + sum(c * k for c, k in zip(row, point, strict=True))
        for o, row in zip(access.offset, access.matrix, strict=True)
    )


@settings(max_examples=some(200), deadline=None)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(0, 30)), min_size=1, max_size=7),
    capacity=st.integers(1, 4),
)
def test_one_machine_takes_the_largest_of_all_sets_of_jobs(jobs, capacity):
    jobs.sort()
    sets = [c for n in range(1, len(jobs) + 1) for c in combinations(jobs, n)]
    best = max(min(h for h, _, _ in s) + min(t for _, t, _ in s) + sum(w for _, _, w in s) // capacity for s in sets)
    heads, tails, works = (list(column) for column in zip(*jobs, strict=True))
    assert one_machine(heads, tails, works, capacity) == best
    at_once = _all_pairs(heads, tails, np.array([works], np.int64), np.array([capacity], np.int64))
    assert max([at_once, *map(sum, zip(heads, tails, strict=True))]) == best


def pooled(rows, columns, rounds):
    """Windows of 3 x 3, two apart, whose nine taps two maps share, then many sums of everything."""
    b = Builder("pooled")
    value = b.input("x", TensorType(F32, (4, rows, columns)))
    for _ in range(rounds):
        rows, columns = (rows - 1) // 2, (columns - 1) // 2
        taps = [
            Operand(value, Access((0, i, j), ((1, 0, 0), (0, 2, 0), (0, 0, 2)))) for i in range(3) for j in range(3)
        ]
        loops = (4, rows, columns)
        most = arg(0, F32)
        for n in range(1, 4):
            most = most.op("max", arg(n, F32))
        one = b.compute(loops, taps[:4], most)
        two = b.compute(loops, [*taps[4:7], Operand(one, Access.identity(3))], most)
        value = b.compute(
            loops,
            [*taps[7:], Operand(two, Access.identity(3))],
            arg(0, F32).op("max", arg(1, F32)).op("max", arg(2, F32)),
        )
    everything = Operand(value, Access((0, 0, 0), ((0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))))
    mean = b.compute((SUMS, 4, rows, columns), [everything], arg(0, F32), parallel=1, reducer="sum")
    return b.finish({"y": mean}, {}, {})


def test_readers_that_take_a_value_together_need_all_of_it():
    graph = pooled(31, 63, 2)
    ways = Ways(graph)
    assert covered(graph, ways.readings) == {
        "x",
        next(n.output for n in graph.nodes if n.loops == (4, 15, 31) and len(n.operands) == 3),
    }


@pytest.mark.parametrize(("rows", "columns", "rounds"), [(15, 31, 1), (31, 63, 2)])
def test_work_that_needs_all_of_what_pools_let_through_begins_behind_the_last_byte(rows, columns, rounds):
    machine = targets.load("lpu")
    graph = pooled(rows, columns, rounds)
    plan, found = build(graph, machine, quiet, objective="latency"), bounds(graph, machine)
    arrived = 4 * 4 * rows * columns // machine.link_in.bytes_per_cycle
    sums = SUMS * graph.nodes[-1].reduction // machine.vector.lanes
    assert arrived + rounds * (1 + machine.vector.latency) + sums <= found.latency <= plan.latency


def test_running_sums_are_asked_for_a_counted_number_of_boxes():
    """Each step adds what stands 2^k places before, so the elements of the last ask for as many different boxes of each."""
    b = Builder("sums")
    size, values = 3000, [b.input("x", TensorType(F32, (3000,)))]
    for k in range(12):
        read = [Operand(values[-1], Access((-(shift << k),), ((1,),)), 0.0) for shift in range(2)]
        values.append(b.compute((size,), read, arg(0, F32) + arg(1, F32)))
    times = Times(Ways(b.finish({"y": values[-1]}, {}, {})), targets.load("lpu"))
    found = [times.ready("y", (n,)) for n in range(1, size + 1)]
    assert found[0] == min(found)
    assert found[-1] == max(found)
    assert MANY <= max(times._boxes.values()) <= MANY + size.bit_length()
