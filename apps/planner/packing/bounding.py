"""Lower bounds in exact arithmetic from the dual values of a floating-point solver.

Let p be the duals of the programs, q the dual of the power limit per milliwatt, and m the duals of the group limits.
Every packing costs at least sum(p * count) - q * watts_limit - sum(m * limit), provided that every pattern satisfies
sum((p - q * draw) * pattern) <= cost + q * watts + m. For each device type, a knapsack in whole numbers checks this
condition. If a pattern violates the condition, p and q are scaled down (Farley, 1990), or m is raised.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor, gcd, log2

from apps.planner.packing.instances import Bound, Instance
from apps.planner.packing.pricing import WORTH_MAX, Knapsack


@dataclass(frozen=True)
class Duals:
    """Exact dual values of the programs and of the power limit (per milliwatt), in units of cost."""

    programs: tuple[Fraction, ...]
    watts: Fraction
    unit: Fraction

    @classmethod
    def rounded(cls, instance: Instance, programs: Sequence[float], watts: float, unit: Fraction) -> Duals:
        exact = [
            min(max(floor(Fraction(value) * unit), 0) / unit, Fraction(instance.penalty(program)))
            for value, program in zip(programs, instance.programs, strict=True)
        ]
        return cls(tuple(exact), Fraction(max(watts, 0.0)), unit)

    def values(self, instance: Instance, device: str) -> list[int]:
        """Return the value of each program on a device, in multiples of 1/`unit`, rounded up."""
        return [
            ceil((value - self.watts * program.watts.get(device, 0)) * self.unit)
            for value, program in zip(self.programs, instance.programs, strict=True)
        ]


def knapsacks(instance: Instance) -> dict[str, Knapsack]:
    """Return the knapsack of each device type."""
    nothing = (0,) * len(instance.devices[0].capacity) if instance.devices else ()
    return {
        device.name: Knapsack(
            device.capacity,
            tuple(program.demands.get(device.name, nothing) for program in instance.programs),
            tuple(
                _most(program.count, program.demands.get(device.name), device.capacity) for program in instance.programs
            ),
        )
        for device in instance.devices
    }


def _most(count: int, demand: Sequence[int] | None, capacity: Sequence[int]) -> int:
    if demand is None:
        return 0
    return min([count, *(room // one for one, room in zip(demand, capacity, strict=True) if one)])


def unit_of(sacks: Mapping[str, Knapsack], programs: Sequence[float]) -> Fraction:
    """Return the finest unit, a power of two, at which the sums of these values fit in 63 bits."""
    largest = max(
        (
            sum(max(value, 0.0) * most for value, most in zip(programs, sack.most, strict=True))
            for sack in sacks.values()
        ),
        default=0.0,
    )
    return Fraction(2) ** floor(log2((WORTH_MAX / 4) / max(largest, 1e-9)))


def bound_of(instance: Instance, duals: Duals, worth: Mapping[str, int]) -> Bound:
    """Scale the duals in two ways, and return the better bound.

    `worth[device]` is the highest value of a pattern on the device, in multiples of 1/`unit`.
    """
    values = {name: value / duals.unit for name, value in worth.items()}
    programs = watts = Fraction(1)
    for device in instance.devices:
        value, draw = values[device.name], duals.watts * device.watts
        if device.owner not in instance.limits and value > device.cost + draw:
            programs = min(programs, (device.cost + draw) / value)
            watts = min(watts, Fraction(device.cost) / (value - draw))
    scalings = ((programs, Fraction(1)), (watts, watts))
    return rounded_up(instance, max(Fraction(0), *(_scaled(instance, duals, values, *one) for one in scalings)))


def _scaled(
    instance: Instance, duals: Duals, values: Mapping[str, Fraction], programs: Fraction, watts: Fraction
) -> Fraction:
    # The factors must keep every pattern of an unlimited device at or below its cost.
    price = duals.watts * watts
    total = sum((p * program.count for p, program in zip(duals.programs, instance.programs, strict=True)), Fraction(0))
    made_up: dict[str, Fraction] = {}
    for device in instance.devices:
        over = programs * values[device.name] - price * device.watts - device.cost
        made_up[device.owner] = max(made_up.get(device.owner, Fraction(0)), over)
    limited = (made_up[group] * most for group, most in instance.limits.items() if group in made_up)
    return programs * total - price * (instance.watts_limit or 0) - sum(limited, Fraction(0))


def rounded_up(instance: Instance, value: Fraction) -> Bound:
    """Round a bound up to a possible cost: a multiple of the greatest common divisor of all costs and penalties."""
    step = gcd(*(device.cost for device in instance.devices), *(instance.penalty(p) for p in instance.programs)) or 1
    return Bound(ceil(value / step) * step, value)
