"""The input and output of packing. All numbers are integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

DIMENSIONS = ("duty", "link in", "link out", "resident")
Vector = tuple[int, ...]
Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class DeviceType:
    """Identical devices with their capacity, hourly cost and idle power.

    `capacity` is in the units of `DIMENSIONS`: cycles per second, bytes per second in each direction, and bytes. `cost`
    is in whole units of money, and `watts` in milliwatts. Devices of one `group` count against the same limit.
    """

    name: str
    capacity: Vector
    cost: int = 1
    watts: int = 0
    group: str = ""

    @property
    def owner(self) -> str:
        return self.group or self.name


@dataclass(frozen=True)
class ProgramType:
    """Identical programs.

    `demands` is the capacity that one program uses, by device type. `watts` is the power in milliwatts that one program
    adds, by device type. `penalty` is the cost of leaving out one program; None if the program must run.
    """

    name: str
    count: int
    demands: Mapping[str, Vector]
    watts: Mapping[str, int] = field(default_factory=dict)
    penalty: int | None = None


@dataclass(frozen=True)
class Pattern:
    """One device of a type, with the number of programs of each type on it."""

    device: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Instance:
    """Programs to place, and the devices for them. Raises ValueError for inconsistent input.

    `limits` is the number of devices by group; a group that is not listed is unlimited. `watts_limit` is the maximum
    total power in milliwatts.
    """

    devices: tuple[DeviceType, ...]
    programs: tuple[ProgramType, ...]
    limits: Mapping[str, int] = field(default_factory=dict)
    watts_limit: int | None = None

    def __post_init__(self) -> None:
        known = {device.name for device in self.devices}
        if len(known) != len(self.devices):
            raise ValueError("Two device types have the same name.")
        for device in self.devices:
            _vector(device.name, device.capacity)
            _whole(device.name, device.cost, device.watts)
        for program in self.programs:
            _whole(program.name, program.count, program.penalty or 0, *program.watts.values())
            for name, demand in program.demands.items():
                if name not in known:
                    raise ValueError(f"{program.name} names the device type {name}, which does not exist.")
                _vector(program.name, demand)
        _whole("limits", *self.limits.values(), self.watts_limit or 0)

    @cached_property
    def by_name(self) -> dict[str, DeviceType]:
        return {device.name: device for device in self.devices}

    @cached_property
    def must_run(self) -> int:
        """The cost of leaving out a program that must run; far above the cost of any device."""
        dearest = max([device.cost for device in self.devices] + [p.penalty or 0 for p in self.programs], default=0)
        return 1000 * (dearest or 1)

    def penalty(self, program: ProgramType) -> int:
        return self.must_run if program.penalty is None else program.penalty

    def draw(self, pattern: Pattern) -> int:
        """Return the milliwatts that a device draws with this pattern."""
        each = (count * p.watts.get(pattern.device, 0) for p, count in zip(self.programs, pattern.counts, strict=True))
        return self.by_name[pattern.device].watts + sum(each)

    def load(self, pattern: Pattern) -> Vector:
        """Return the capacity that a pattern uses in each dimension.

        Raises KeyError if one of the pattern's programs can't run on the device.
        """
        total = [0] * len(self.by_name[pattern.device].capacity)
        for program, count in zip(self.programs, pattern.counts, strict=True):
            if count:
                total = [a + count * b for a, b in zip(total, program.demands[pattern.device], strict=True)]
        return tuple(total)


def _vector(name: str, vector: Sequence[int]) -> None:
    if len(vector) != len(DIMENSIONS):
        raise ValueError(f"{name} states {len(vector)} numbers; there are {len(DIMENSIONS)} dimensions.")
    _whole(name, *vector)


def _whole(name: str, *numbers: int) -> None:
    if any(not isinstance(number, int) or not 0 <= number < 2**62 for number in numbers):
        raise ValueError(f"{name}: whole numbers from 0 to 2^62 are needed.")


@dataclass(frozen=True)
class Packing:
    """Patterns, each with its number of devices. `unserved` is the number of programs of each type that are left out."""

    patterns: tuple[tuple[Pattern, int], ...]
    unserved: tuple[int, ...]

    def devices(self, group: str | None = None, *, instance: Instance) -> int:
        """Return the number of devices in a group, or in all groups."""
        return sum(times for pattern, times in self.patterns if group in (None, instance.by_name[pattern.device].owner))

    def cost(self, instance: Instance) -> int:
        """Return the total cost of the devices and penalties."""
        devices = sum(instance.by_name[pattern.device].cost * times for pattern, times in self.patterns)
        left = zip(instance.programs, self.unserved, strict=True)
        return devices + sum(instance.penalty(program) * count for program, count in left)

    def watts(self, instance: Instance) -> int:
        return sum(instance.draw(pattern) * times for pattern, times in self.patterns)


@dataclass(frozen=True)
class Bound:
    """An exact lower bound of the cost. `value` is `fraction`, rounded up to a possible cost."""

    value: int
    fraction: Fraction


@dataclass(frozen=True)
class Plan:
    """A packing and its bound.

    `patterns` is the number of patterns generated, and `rounds` the number of linear programs solved.
    """

    packing: Packing
    cost: int
    bound: Bound
    patterns: int
    rounds: int

    @property
    def gap(self) -> Fraction:
        """The relative excess of the cost over the bound; 0 for a proven optimum."""
        if self.cost == self.bound.value:
            return Fraction(0)
        return Fraction(self.cost, self.bound.value) - 1 if self.bound.value else Fraction(self.cost)
