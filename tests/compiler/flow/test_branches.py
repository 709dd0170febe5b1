"""The BRANCH instruction: what a processor refuses, what a valid program is, and the ways through one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import compiler
from compiler.errors import ModelError
from compiler.ir.graph import Compute, Guard, Merge
from compiler.ir.guards import taken
from compiler.ir.verifier import VerifyError, verify
from compiler.isa.assembly import disassemble
from compiler.isa.binary import Binary
from compiler.isa.instruction import Flag, Instruction, Op, pack
from compiler.isa.paths import dearest, longest
from compiler.scheduling.segments import arrange
from compiler.simulator import SimulationError, simulate
from tests.compiler.assembler import assemble
from tests.compiler.flow.models import feeds, if_model, loop_model, nested_model
from tests.tiers import some


@pytest.fixture(scope="module")
def binary():
    return compiler.compile(compiler.load(if_model())).binary


def branches(binary):
    return [n for n, i in enumerate(binary.rows) if i.opcode == Op.BRANCH]


def changed(binary, number, **fields):
    rows = list(binary.rows)
    rows[number] = rows[number]._replace(**fields)
    return replace(binary, instructions=pack(rows))


FEED = {"c": np.ones((), bool), "x": np.ones((4, 8), np.float32)}


def test_both_sides_of_an_if_lie_behind_one_condition(binary):
    first, jump = branches(binary)
    rows = binary.rows
    assert rows[first].a
    assert not rows[jump].a, "the end of the first side jumps over the second"
    assert first + 1 + rows[first].count3 == jump + 1
    assert assemble(disassemble(binary), binary.constants) == binary


@pytest.mark.parametrize("by", [-1, 1])
def test_a_branch_that_skips_another_number_of_cycles_is_refused(binary, by):
    first, _ = branches(binary)
    wrong = changed(binary, first, start3=binary.rows[first].start3 + by)
    with pytest.raises(SimulationError, match="under way where it lands"):
        simulate(wrong.to_bytes(), FEED)


def test_a_branch_while_something_is_under_way_is_refused(binary):
    first, _ = branches(binary)
    rows = list(binary.rows)
    early = rows[first]._replace(cycle=rows[first].cycle - 1)
    rows = sorted([*rows[:first], early, *rows[first + 1 :]], key=lambda i: i.cycle)
    with pytest.raises(SimulationError, match=r"BRANCH: something is under way|arrives at cycle"):
        simulate(replace(binary, instructions=pack(rows)).to_bytes(), FEED)


def test_inferences_of_a_program_with_branches_may_not_overlap(binary):
    with pytest.raises(SimulationError, match="next inference begins before"):
        simulate(replace(binary, interval=binary.latency - 1).to_bytes(), FEED)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"count3": 1 << 20}, "beyond the last instruction"),
        ({"count1": 2}, "more than one condition|beyond its"),
        ({"flags": int(Flag.FIRST)}, "a branch with a flag of another instruction"),
        ({"a": 0, "flags": int(Flag.UNLESS)}, "has no condition"),
    ],
)
def test_a_branch_that_makes_no_sense_is_no_program(binary, fields, why):
    wrong = changed(binary, branches(binary)[0], **fields)
    with pytest.raises(ModelError, match=why):
        Binary.from_bytes(wrong.to_bytes())


def test_a_condition_is_a_truth_value(binary):
    first, _ = branches(binary)
    other = next(n for n, s in enumerate(binary.streams, 1) if s.dtype != "bool")
    with pytest.raises(ModelError, match=r"no truth value|beyond its"):
        Binary.from_bytes(changed(binary, first, a=other).to_bytes())


def test_a_program_that_branches_on_data_does_not_call_its_cost_exact(binary):
    with pytest.raises(ModelError, match="cost is exact"):
        Binary.from_bytes(replace(binary, exact=True, reason="").to_bytes())


def test_the_other_flag_takes_the_other_side(binary):
    first, _ = branches(binary)
    inverted = changed(binary, first, flags=int(Flag.UNLESS))
    ours, _ = simulate(binary.to_bytes(), FEED)
    theirs, _ = simulate(inverted.to_bytes(), FEED | {"c": np.zeros((), bool)})
    np.testing.assert_array_equal(ours["z"], theirs["z"])


# -- ways ---------------------------------------------------------------------------------------------------------------


def ways(rows, n=0, skipped=0):
    """Every way through a program, one by one: positions with the cycles skipped before."""
    if n >= len(rows):
        return [[]]
    i = rows[n]
    nexts = [(n + 1, skipped)]
    if i.opcode == Op.BRANCH:
        jump = (n + 1 + i.count3, skipped + i.start3)
        nexts = [*nexts, jump] if i.a else [jump]
    return [[(n, skipped), *rest] for following in nexts for rest in ways(rows, *following)]


@st.composite
def programs(draw):
    count = draw(st.integers(1, 9))
    rows, cycle = [], 0
    for n in range(count):
        cycle += draw(st.integers(0, 5))
        if draw(st.booleans()):
            asks, cycles, skip = draw(st.tuples(st.integers(0, 1), st.integers(0, 9), st.integers(0, count - n - 1)))
            rows.append(Instruction(Op.BRANCH, cycle=cycle, a=asks, start3=cycles, count3=skip))
        else:
            rows.append(Instruction(Op.MOVE, cycle=cycle))
    costs = draw(st.lists(st.integers(0, 50), min_size=count, max_size=count))
    return rows, costs


@given(programs())
def test_the_dearest_and_the_longest_way_are_those_of_all_ways(program):
    rows, costs = program
    ends = [i.cycle + c for i, c in zip(rows, costs, strict=True)]
    every = ways(rows)
    total, kept = dearest(rows, costs)
    assert total == max(sum(costs[n] for n, _ in way) for way in every) == sum(costs[n] for n in kept)
    end, way = longest(rows, ends)
    assert end == max(max(ends[n] - s for n, s in each) for each in every)
    assert way in every
    assert end == max(ends[n] - s for n, s in way)


# -- segments -----------------------------------------------------------------------------------------------------------


@st.composite
def guarded_work(draw):
    """Sources with nested guards and needs on earlier sources that are always there."""
    paths, needs = [], []
    for n in range(draw(st.integers(1, 12))):
        known = [()] + [p for p in paths if len(p) < 3]
        outer = draw(st.sampled_from(known))
        guards = [Guard(f"c{draw(st.integers(0, 1))}{len(outer)}", draw(st.booleans()))] if draw(st.booleans()) else []
        path = (*outer, *guards)
        paths.append(path)
        visible = [m for m in range(n) if path[: len(paths[m])] == paths[m]]
        needs.append(set(draw(st.lists(st.sampled_from(visible), max_size=3))) if visible else set())
    return paths, needs


@settings(max_examples=some(100))
@given(guarded_work())
def test_stretches_nest_as_guards_do_and_come_behind_what_they_need(work):
    paths, needs = work
    here, done = [], []
    for event in arrange(paths, needs):
        if event.kind == "run":
            for n in event.sources:
                assert paths[n] == tuple(here)
                assert needs[n] <= set(done)
                done.append(n)
        elif event.kind == "when":
            here.append(event.guard)
        elif event.kind == "else":
            assert event.guard == Guard(here[-1].value, not here[-1].holds)
            here[-1] = event.guard
        else:
            here.pop()
    assert not here
    assert sorted(done) == list(range(len(paths)))


# -- the proof in the representation ------------------------------------------------------------------------------------


def test_nobody_reads_what_a_branch_not_taken_would_have_computed():
    graph = compiler.load(nested_model())
    merge = next(n for n in graph.nodes if isinstance(n, Merge) and n.guard is None)
    inner = merge.parts[0][1]
    within = {n.output for n in graph.nodes if n.guard}
    reader = next(n for n in graph.nodes if n.guard and isinstance(n, Compute) and n.operands[0].value in within)
    broken = [
        ("reads .* from a branch", tuple(replace(n, guard=None) if n is reader else n for n in graph.nodes)),
        ("none of its parts need hold", tuple(replace(n, parts=n.parts[:1]) if n is merge else n for n in graph.nodes)),
        (
            "under a guard that it does not lie in",
            tuple(
                replace(n, parts=((merge.parts[1][0], inner), merge.parts[1])) if n is merge else n for n in graph.nodes
            ),
        ),
    ]
    for message, nodes in broken:
        with pytest.raises(VerifyError, match=message):
            verify(graph.with_nodes(nodes))
    with pytest.raises(VerifyError, match="leaves the graph from a branch"):
        verify(graph.with_nodes(graph.nodes, outputs=(inner,)))


def test_the_way_that_takes_every_branch_is_a_graph_without_branches():
    graph = taken(compiler.load(nested_model()))
    verify(graph)
    assert not any(n.guard or isinstance(n, Merge) for n in graph.nodes)


def test_bounds_are_those_of_a_way_and_never_above_the_dearest():
    for data, bounds in ((if_model(), {}), (nested_model(), {}), (loop_model(6), {})):
        program = compiler.compile(compiler.load(data, bounds=bounds))
        shown = program.bounds
        assert 0 < shown["latency"]["bound"] <= program.resources.cycles
        assert 0 < shown["interval"]["bound"] <= program.resources.interval
        outcome = [simulate(program.to_bytes(), feeds(data, seed))[1] for seed in range(3)]
        assert all(c.interval == program.resources.interval for c in outcome)
