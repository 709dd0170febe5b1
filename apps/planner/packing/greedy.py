"""Heuristics for quick packings, which also serve as a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from apps.planner.packing.instances import Instance, Packing, Pattern


@dataclass
class Supply:
    """The devices and the power that are still available."""

    instance: Instance
    limits: dict[str, int] = field(init=False)
    watts: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.limits, self.watts = dict(self.instance.limits), self.instance.watts_limit

    def times(self, pattern: Pattern, wanted: int) -> int:
        """Return how often the pattern can still be used; at most `wanted` times."""
        left = self.limits.get(self.instance.by_name[pattern.device].owner, wanted)
        draw = self.instance.draw(pattern)
        return min(wanted, left, self.watts // draw if self.watts is not None and draw else wanted)

    def take(self, pattern: Pattern, times: int) -> None:
        owner = self.instance.by_name[pattern.device].owner
        if owner in self.limits:
            self.limits[owner] -= times
        if self.watts is not None:
            self.watts -= self.instance.draw(pattern) * times


def packed(instance: Instance, patterns: Iterable[tuple[Pattern, int]]) -> Packing:
    """Return the packing of these patterns, without surplus programs or empty devices."""
    left = [program.count for program in instance.programs]
    result: dict[Pattern, int] = {}
    for pattern, times in patterns:
        while times > 0:
            counts = tuple(min(a, b) for a, b in zip(pattern.counts, left, strict=True))
            if not any(counts):
                break
            same = min(times, *(b // a for a, b in zip(counts, left, strict=True) if a))
            trimmed = Pattern(pattern.device, counts)
            result[trimmed] = result.get(trimmed, 0) + same
            left = [b - a * same for a, b in zip(counts, left, strict=True)]
            times -= same
    return Packing(tuple(result.items()), tuple(left))


def dot_product_fit(instance: Instance, *, left: Sequence[int] | None = None) -> Packing:
    """Fill one device after another with the programs whose demand best matches the remaining capacity.

    This is the bin-centric dot-product heuristic (Panigrahy and others, 2011). `left` is the number of programs of each
    type to place; by default, all programs are placed.
    """
    counts = list(left) if left is not None else [program.count for program in instance.programs]
    wanted = tuple(counts)
    worth = _worth(instance)
    supply, chosen = Supply(instance), []
    while any(counts):
        pattern = _best_pattern(instance, counts, worth, supply)
        if pattern is None:
            break
        times = supply.times(pattern, min(b // a for a, b in zip(pattern.counts, counts, strict=True) if a))
        supply.take(pattern, times)
        chosen.append((pattern, times))
        counts = [b - a * times for a, b in zip(pattern.counts, counts, strict=True)]
    served = [a - b for a, b in zip(wanted, counts, strict=True)]
    unserved = tuple(p.count - count for p, count in zip(instance.programs, served, strict=True))
    return Packing(tuple(chosen), unserved)


def _best_pattern(instance: Instance, counts: Sequence[int], worth: Sequence[float], supply: Supply) -> Pattern | None:
    options = []
    for device in instance.devices:
        pattern = Pattern(device.name, _filled(instance, device.name, counts, supply))
        if any(pattern.counts) and supply.times(pattern, 1):
            value = sum(a * b for a, b in zip(pattern.counts, worth, strict=True))
            options.append((value / (device.cost + 1e-9), pattern))
    return max(options, key=lambda option: option[0])[1] if options else None


def _worth(instance: Instance) -> list[float]:
    result = []
    for program in instance.programs:
        shares = [
            (device.cost or 1) * max(d / c if c else 0.0 for d, c in zip(demand, device.capacity, strict=True))
            for device in instance.devices
            if (demand := program.demands.get(device.name)) is not None
        ]
        result.append(float(program.penalty) if program.penalty else min(shares, default=0.0))
    return result


def _filled(instance: Instance, name: str, counts: Sequence[int], supply: Supply) -> tuple[int, ...]:
    types = [t for t, p in enumerate(instance.programs) if counts[t] and name in p.demands]
    if not types:
        return (0,) * len(counts)
    return _fill(instance, name, types, counts, supply)


def _fill(
    instance: Instance, name: str, types: Sequence[int], counts: Sequence[int], supply: Supply
) -> tuple[int, ...]:
    device, filled = instance.by_name[name], [0] * len(counts)
    scale = np.array([1.0 / c if c else 0.0 for c in device.capacity])
    demands = np.array([instance.programs[t].demands[name] for t in types], dtype=np.int64)
    draws = np.array([instance.programs[t].watts.get(name, 0) for t in types], dtype=np.int64)
    available = np.array([counts[t] for t in types], dtype=np.int64)
    room = np.array(device.capacity, dtype=np.int64)
    watts = 2**62 if supply.watts is None else supply.watts - device.watts
    while True:
        fits = (demands <= room).all(axis=1) & (available > 0) & (draws <= watts)
        if not fits.any():
            return tuple(filled)
        score = np.where(fits, (demands * scale) @ (room * scale), -1.0)
        best = int(score.argmax())
        room, watts = room - demands[best], watts - int(draws[best])
        available[best] -= 1
        filled[types[best]] += 1


def first_fit(instance: Instance, *, order: Sequence[int] | None = None) -> Packing:
    """Place each program on the first open device with room, or else on a new device.

    `order` gives the type of each program in order of arrival. By default, the programs arrive type by type.
    """
    arrivals = order if order is not None else [t for t, p in enumerate(instance.programs) for _ in range(p.count)]
    open_devices, supply = _Open(instance, len(arrivals)), Supply(instance)
    for t in arrivals:
        at = open_devices.first(t, supply)
        if at is None:
            at = open_devices.opened(t, supply)
        if at is not None:
            open_devices.place(t, at, supply)
    return packed(instance, open_devices.patterns())


def first_fit_decreasing(instance: Instance) -> Packing:
    """Place programs by first fit, the largest first. A program's size is its largest share of a device's capacity."""
    size = [
        max((_share(instance, t, device.name) for device in instance.devices if device.name in p.demands), default=0.0)
        for t, p in enumerate(instance.programs)
    ]
    ranked = sorted(range(len(size)), key=lambda t: (-size[t], t))
    return first_fit(instance, order=[t for t in ranked for _ in range(instance.programs[t].count)])


def _share(instance: Instance, t: int, name: str) -> float:
    pairs = zip(instance.programs[t].demands[name], instance.by_name[name].capacity, strict=True)
    return max(demand / capacity if capacity else float(demand > 0) for demand, capacity in pairs)


class _Open:
    def __init__(self, instance: Instance, most: int) -> None:
        self.instance, self.used = instance, 0
        self.room = np.zeros((most, len(instance.devices[0].capacity)), dtype=np.int64)
        self.kind = np.zeros(most, dtype=np.int64)
        self.counts = np.zeros((most, len(instance.programs)), dtype=np.int64)
        self.table = np.full((len(instance.programs), len(instance.devices), self.room.shape[1]), 2**62, dtype=np.int64)
        for t, program in enumerate(instance.programs):
            for d, device in enumerate(instance.devices):
                if device.name in program.demands:
                    self.table[t, d] = program.demands[device.name]

    def first(self, t: int, supply: Supply) -> int | None:
        fits = (self.table[t][self.kind[: self.used]] <= self.room[: self.used]).all(axis=1)
        if supply.watts is not None:
            draws = np.array([self.instance.programs[t].watts.get(d.name, 0) for d in self.instance.devices])
            fits &= draws[self.kind[: self.used]] <= supply.watts
        at = int(fits.argmax()) if self.used else 0
        return at if self.used and fits[at] else None

    def opened(self, t: int, supply: Supply) -> int | None:
        program, types = self.instance.programs[t], self.instance.devices
        options = []
        for d, device in enumerate(types):
            one = tuple(int(other == t) for other in range(len(self.instance.programs)))
            fits = device.name in program.demands and bool((self.table[t, d] <= np.array(device.capacity)).all())
            if fits and supply.times(Pattern(device.name, one), 1):
                options.append(((device.cost or 1) * _share(self.instance, t, device.name), d))
        if not options:
            return None
        kind = min(options)[1]
        at, self.used = self.used, self.used + 1
        self.kind[at], self.room[at] = kind, types[kind].capacity
        supply.take(Pattern(types[kind].name, (0,) * len(self.instance.programs)), 1)
        return at

    def place(self, t: int, at: int, supply: Supply) -> None:
        kind = int(self.kind[at])
        self.room[at] -= self.table[t, kind]
        self.counts[at, t] += 1
        if supply.watts is not None:
            supply.watts -= self.instance.programs[t].watts.get(self.instance.devices[kind].name, 0)

    def patterns(self) -> list[tuple[Pattern, int]]:
        return [
            (Pattern(self.instance.devices[int(kind)].name, tuple(row)), 1)
            for kind, row in zip(self.kind[: self.used], self.counts[: self.used].tolist(), strict=True)
        ]
