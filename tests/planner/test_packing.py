"""Programs on devices: every packing is legal, and bound <= best <= ours, by an enumeration that shares no code."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from apps.planner.packing import (
    DeviceType,
    Draw,
    Instance,
    Packing,
    Pattern,
    ProgramType,
    Setting,
    dot_product_fit,
    effect,
    faults,
    first_fit,
    first_fit_decreasing,
    most_served,
    plan,
    with_settings,
)
from apps.planner.packing.bounding import Duals, bound_of, knapsacks, unit_of
from apps.planner.packing.pricing import Knapsack
from tests.tiers import some

VECTORS = st.tuples(*[st.integers(0, 9)] * 4)
HUGE = 10**13  # bytes: sums must not leave 63 bits, and shares must not be lost


@st.composite
def instances(draw: st.DrawFn, *, limited: bool = True) -> Instance:
    names = ["a", "b"][: draw(st.integers(1, 2))]
    unit = draw(st.sampled_from([1, HUGE]))
    devices = tuple(
        DeviceType(
            name,
            tuple(unit * c for c in draw(st.tuples(*[st.integers(5, 15)] * 4))),
            draw(st.integers(1, 7)),
            draw(st.integers(0, 5)),
        )
        for name in names
    )
    programs = tuple(
        ProgramType(
            f"p{index}",
            draw(st.integers(0, 2)),
            {
                name: tuple(unit * d for d in draw(VECTORS))
                for name in names
                if draw(st.integers(0, 4)) or name == names[0]
            },
            {name: draw(st.integers(0, 3)) for name in names},
            draw(st.none() | st.integers(0, 5)),
        )
        for index in range(draw(st.integers(1, 3)))
    )
    limits = {name: draw(st.integers(0, 3)) for name in names if limited and draw(st.booleans())}
    return Instance(devices, programs, limits, draw(st.none() | st.integers(0, 30)) if limited else None)


def least_cost(instance: Instance) -> int:
    """By trying every assignment of every program, device by device; small instances only."""
    groups = sorted({device.owner for device in instance.devices})
    some = 10**9

    @cache
    def best(left: tuple[int, ...], devices: tuple[int, ...], watts: int) -> int:
        cost = sum(instance.penalty(p) * count for p, count in zip(instance.programs, left, strict=True))
        for device in instance.devices:
            at = groups.index(device.owner)
            if devices[at] == 0:
                continue
            fewer = (*devices[:at], devices[at] - 1, *devices[at + 1 :])
            for counts in fillings(instance, device, left):
                drawn = device.watts + sum(
                    c * p.watts.get(device.name, 0) for c, p in zip(counts, instance.programs, strict=True)
                )
                if drawn <= watts:
                    rest = tuple(b - a for a, b in zip(counts, left, strict=True))
                    cost = min(cost, device.cost + best(rest, fewer, watts - drawn if watts < some else some))
        return cost

    total = tuple(p.count for p in instance.programs)
    most = tuple(instance.limits.get(group, sum(total)) for group in groups)
    return best(total, most, some if instance.watts_limit is None else instance.watts_limit)


def fillings(instance: Instance, device: DeviceType, left: tuple[int, ...]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for program, count in zip(instance.programs, left, strict=True):
        most = count if device.name in program.demands else 0
        found = [(*one, more) for one in found for more in range(most + 1)]
    return [one for one in found if any(one) and fits(instance, device, one)]


def fits(instance: Instance, device: DeviceType, counts: tuple[int, ...]) -> bool:
    return all(
        sum(c * p.demands[device.name][i] for c, p in zip(counts, instance.programs, strict=True) if c) <= room
        for i, room in enumerate(device.capacity)
    )


@settings(deadline=None, max_examples=some(80))
@given(instances())
def test_every_packing_is_legal_and_the_best_lies_between_bound_and_plan(instance: Instance) -> None:
    made = plan(instance)
    packings = [made.packing, dot_product_fit(instance), first_fit(instance), first_fit_decreasing(instance)]
    assert [faults(instance, packing) for packing in packings] == [[], [], [], []]
    assert made.cost == made.packing.cost(instance)
    best = least_cost(instance)
    assert made.bound.value <= best <= made.cost <= packings[1].cost(instance)
    assert made.bound.fraction <= made.bound.value


TIGHT = Instance(
    (DeviceType("a", (10,) * 4, 10),), (ProgramType("p", 4, {"a": (5,) * 4}, {"a": 5}),), watts_limit=20
)  # costs 20, which duals of 15 and 1 prove when they are halved


@example(TIGHT, [15.0], 1.0)
@settings(deadline=None, max_examples=some(150))
@given(instances(), st.lists(st.floats(0, 12), min_size=3, max_size=3), st.floats(0, 2))
def test_whatever_the_solver_says_the_bound_is_one(instance: Instance, programs: list[float], watts: float) -> None:
    """The linear program's answer only decides how tight the bound is: any numbers in its place give a bound too."""
    sacks, given_values = knapsacks(instance), programs[: len(instance.programs)]
    duals = Duals.rounded(
        instance, given_values, watts if instance.watts_limit is not None else 0.0, unit_of(sacks, given_values)
    )
    worth = {name: sack.search(duals.values(instance, name), above=0).bound for name, sack in sacks.items()}
    assert bound_of(instance, duals, worth).value <= least_cost(instance)


@settings(deadline=None, max_examples=some(60))
@given(st.lists(st.tuples(VECTORS, st.integers(-3, 20), st.integers(0, 3)), min_size=1, max_size=4), st.integers(0, 40))
def test_the_knapsack_never_understates_what_a_device_can_be_worth(
    types: list[tuple[tuple[int, ...], int, int]], above: int
) -> None:
    """The whole search, and one that may keep a single state at a time: its bound is weaker, and still a bound."""
    capacity = (12, 12, 12, 12)
    most = tuple(min([count, *(12 // d for d in demand if d)]) for demand, _, count in types)
    sack = Knapsack(capacity, tuple(demand for demand, _, _ in types), most)
    program = tuple(ProgramType(f"p{i}", m, {"d": d}) for i, ((d, _, _), m) in enumerate(zip(types, most, strict=True)))
    device = DeviceType("d", capacity)
    values = [value for _, value, _ in types]
    all_of_them = fillings(Instance((device,), program), device, most)
    best = max((sum(c * v for c, v in zip(one, values, strict=True)) for one in all_of_them), default=0)
    whole, narrow = sack.search(values, above=above), sack.search(values, above=above, beam=1)
    assert whole.bound == max(above, best)
    assert narrow.bound >= best
    for found, counts in (*whole.found, *narrow.found):
        assert (sum(c * v for c, v in zip(counts, values, strict=True)), counts in all_of_them) == (found, True)


def test_the_checker_sees_each_kind_of_fault() -> None:
    devices = (DeviceType("a", (10,) * 4, watts=5), DeviceType("b", (10,) * 4))
    programs = (ProgramType("p", 4, {"a": (4, 1, 1, 1)}, {"a": 1}),)
    instance = Instance(devices, programs, {"a": 2}, 14)

    def said(*patterns: tuple[Pattern, int], left: int = 0) -> str:
        return " ".join(faults(instance, Packing(patterns, (left,))))

    two, three = Pattern("a", (2,)), Pattern("a", (3,))
    assert said((two, 2)) == ""
    assert "12 are used" in said((three, 1), left=1)
    assert "2 placed" in said((two, 1))
    assert "cannot run on b" in said((Pattern("b", (2,)), 1), (two, 1))
    assert "3 devices are used; there are 2" in said((two, 1), (Pattern("a", (1,)), 2))
    assert "19 mW are drawn; 14 mW are allowed" in said((two, 1), (Pattern("a", (1,)), 2))


def test_a_plan_is_a_function_of_its_instance_and_says_how_far_it_is() -> None:
    programs = tuple(
        ProgramType(f"p{i}", 9 + i, {"d": (211 + 37 * i, 120 + 13 * i, 90 + 91 * (i % 3), 60 + 7 * i * i)})
        for i in range(6)
    )
    instance = Instance((DeviceType("d", (1000,) * 4),), programs)
    seen: list[str] = []
    one, two = plan(instance, progress=lambda stage, _: seen.append(stage)), plan(instance)
    assert (one.packing, one.bound) == (two.packing, two.bound)
    assert one.cost == one.bound.value
    assert one.gap == 0
    assert seen[0] == "generating patterns"

    def stop(stage: str, share: float) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        plan(instance, progress=stop)


@pytest.mark.parametrize("share", [Fraction(1), Fraction(3, 4), Fraction(1, 2), Fraction(1, 10)])
def test_a_power_setting_changes_capacity_latency_and_energy_by_the_stated_arithmetic(share: Fraction) -> None:
    draw, static = Draw(100_000, 300_000), 80_000
    stated = {"latency": 3_000, "interval": 1_000, "clock": 10**9, "draw": draw}
    full = effect(**stated, setting=Setting(Fraction(1)))
    less = effect(**stated, setting=Setting(share, static))
    assert full.latency == Fraction(3, 10**6)
    assert (less.latency * share, less.rate) == (full.latency, full.rate * share)
    assert less.dynamic == full.dynamic == Fraction(200, 10**6), "200 W for a microsecond"
    assert less.static * share == full.static * static / draw.static
    device = DeviceType("d", (10**9, 5, 6, 7), 10, 100_000)
    programs = (ProgramType("p", 2, {"d": (5 * 10**8, 1, 1, 1)}),)
    made = with_settings(
        Instance((device,), programs, {"d": 2}), {"d": draw}, {"d": [Setting(share, static)]}, watts_limit=None
    )
    assert made.devices[0].capacity == (share * 10**9, 5, 6, 7)
    assert (made.devices[0].watts, made.devices[0].owner) == (static, "d")
    assert list(made.programs[0].watts.values()) == [100_000], "half its cycles at full, whatever the setting"


def test_within_a_power_budget_as_many_run_as_the_bound_allows() -> None:
    device = DeviceType("d", (100, 100, 100, 100), 10)
    draws, at = {"d": Draw(40, 140)}, {"d": [Setting(Fraction(1), 40), Setting(Fraction(1, 2), 15)]}
    for count, budget, served in (
        (12, 390, 12),
        (12, 389, 11),
        (12, 65, 2),
        (12, 64, 1),
        (12, 39, 0),
        (1000, 6500, 200),
    ):
        programs = (ProgramType("p", count, {"d": (25, 10, 10, 10)}),)
        asked = most_served(with_settings(Instance((device,), programs), draws, at, watts_limit=budget))
        made = plan(asked)
        assert not faults(asked, made.packing)
        assert (count - made.cost, count - made.bound.value >= served) == (served, True), budget


def test_what_cannot_run_anywhere_is_left_out_and_named() -> None:
    device = DeviceType("d", (10,) * 4)
    programs = (ProgramType("small", 3, {"d": (5, 1, 1, 1)}), ProgramType("large", 2, {"d": (11, 1, 1, 1)}))
    made = plan(Instance((device,), programs))
    assert made.packing.unserved == (0, 2)
    assert made.packing.devices(instance=Instance((device,), programs)) == 2
    assert made.cost == made.bound.value
    with pytest.raises(ValueError, match="whole numbers"):
        replace(Instance((device,), programs), limits={"d": -1})
