"""Seats of chains in a period: nothing is taken twice, planes wait as little as any order lets them, programs keep their bits."""

from itertools import pairwise, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from compiler import targets
from compiler.driver import quiet
from compiler.passes.epilogue_offload import planes_are_busiest
from compiler.scheduling.build import build, builds
from compiler.scheduling.planes import Block, Plane
from compiler.scheduling.reserved_slots import Spent, _circle, reserved_slots
from tests.compiler.checks import check_program
from tests.compiler.passes.test_epilogue_offload import products
from tests.compiler.scheduling.test_reservation import masked
from tests.compiler.tiling.test_narrow import feeds
from tests.tiers import some

LATENCY = 5
CYCLES = st.tuples(st.integers(1, 9), st.integers(1, 9))
CHAINS = st.lists(st.lists(CYCLES, min_size=1, max_size=3), max_size=12)


def blocks(chains):
    return [[Block((n, k), beats, load, LATENCY) for k, (beats, load) in enumerate(c)] for n, c in enumerate(chains)]


def waits(chains, order):
    """Cycles of the array round the period, where loads of one chain go on while the one before works."""
    round_ = [*order, order[0]]
    return sum(max(chains[a][-1].beats, chains[b][0].load) for a, b in pairwise(round_))


@given(st.lists(st.lists(CYCLES, min_size=1, max_size=1), min_size=1, max_size=6))
def test_no_order_round_the_period_waits_less(chains):
    made = blocks(chains)
    found = _circle(made)
    assert sorted(found) == list(range(len(made)))
    assert waits(made, found) == min(waits(made, [0, *rest]) for rest in permutations(range(1, len(made))))


@settings(max_examples=some(100))
@given(CHAINS, st.integers(1, 3), st.integers(1, 3), st.integers(20, 120))
def test_nothing_is_taken_twice(chains, planes, slots, ii):
    made, wanted = blocks(chains), [1 + n % 2 for n in range(len(chains))]
    tables = [Plane(slots, 4, ii) for _ in range(planes)]
    found = reserved_slots(made, wanted, tables)
    if found is None:
        return
    taken = set()

    def take(what, start, end):
        for cycle in range(start, end):
            assert (what, cycle % ii) not in taken
            taken.add((what, cycle % ii))

    for chain, count, seat in zip(made, wanted, found, strict=True):
        end = 0
        for block, place in zip(chain, seat.places, strict=True):
            assert place.start >= max(end, place.load + block.load + block.latency)
            end = place.start + block.beats
            take((seat.plane, "array"), place.start, end)
            take((seat.plane, "port"), place.load, place.load + block.load)
            take((seat.plane, "slot", place.slot), place.load + block.latency, end)
        for bank in range(seat.bank, seat.bank + count):
            take((seat.plane, "bank", bank), seat.places[0].start, end)


@settings(max_examples=some(100))
@given(CHAINS, st.integers(1, 3))
def test_all_find_seats_in_a_period_as_long_as_all_their_cycles(chains, planes):
    made = blocks(chains)
    cycles = sum(beats + load for chain in chains for beats, load in chain)
    tables = [Plane(2, 1, cycles + 2 * LATENCY + 20) for _ in range(planes)]
    assert reserved_slots(made, [1] * len(made), tables) is not None


@settings(max_examples=some(6), deadline=None)
@given(rows=st.integers(40, 160), columns=st.integers(24, 160), layers=st.integers(2, 4))
def test_programs_with_seats_keep_their_bits(rows, columns, layers):
    graph = products(rows, columns, layers)
    check_program(graph, "lpu", [feeds(graph, seed) for seed in range(4)], objective="interval")


def test_seats_that_let_values_live_too_long_are_tried_once(monkeypatch):
    tried = []

    def spent(self):
        tried.append(self.ii)
        raise Spent(self.ii + 1)

    monkeypatch.setattr("compiler.scheduling.reserved_slots.SlotScheduler.run", spent)
    build(masked(3), targets.load("lpu"), quiet, objective="interval")
    assert len(tried) == 1


def test_a_program_for_the_interval_is_the_same_alone_and_with_others():
    graph, target = products(160, 160, 24), targets.load("lpu")
    assert planes_are_busiest(graph, target)
    (alone,) = builds(graph, target, quiet, objectives=("interval",))
    _, best_fit, _ = builds(graph, target, quiet, objectives=("latency", "interval", "balanced"))
    assert (alone.interval, alone.start) == (best_fit.interval, best_fit.start)
    assert [t.instruction for t in alone.tiles] == [t.instruction for t in best_fit.tiles]


def test_planes_that_wait_for_the_links_are_not_pressed():
    assert not planes_are_busiest(products(1600, 24, 1), targets.load("lpu"))
