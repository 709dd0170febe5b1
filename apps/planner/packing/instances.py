"""What is packed, what it is packed on, and the answer. Whole numbers alone, so that every sum is exact."""

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
    """Devices that are alike: what each holds, what an hour of it costs, what it draws while it is on.

    `capacity` in whole units of `DIMENSIONS`: cycles a second, bytes a second each way, bytes. `cost` in whole units of
    money, `watts` in whole milliwatts, whatever runs. `group` names the owned devices that it counts against: several
    power settings of one pool are types of one group.
    """

    name: str
    capacity: Vector
    cost: int = 1
    watts: int = 0
    group: str = ""

    @property
    def owner(self) -> str:
        """The group, by default the type itself."""
        return self.group or self.name


@dataclass(frozen=True)
class ProgramType:
    """`count` programs that are alike. `demands`: what one takes of each device type that can run it.

    `watts`: milliwatts that one draws while it runs, by device type, beside the device's own. `penalty`: what leaving one
    out costs, in the unit of `cost`; None: it must run.
    """

    name: str
    count: int
    demands: Mapping[str, Vector]
    watts: Mapping[str, int] = field(default_factory=dict)
    penalty: int | None = None


@dataclass(frozen=True)
class Pattern:
    """One device of a type, with so many programs of each type on it."""

    device: str
    counts: tuple[int, ...]


@dataclass(frozen=True)
class Instance:
    """Programs to place. `limits`: how many devices of a group there are; a group without one is unlimited.

    `watts_limit`: milliwatts that all devices and programs may draw together. Raises ValueError where a number is
    negative, a vector has another length, or a device type is not known.
    """

    devices: tuple[DeviceType, ...]
    programs: tuple[ProgramType, ...]
    limits: Mapping[str, int] = field(default_factory=dict)
    watts_limit: int | None = None

    def __post_init__(self) -> None:
        known = {device.name for device in self.devices}
        if len(known) != len(self.devices):
            raise ValueError("Two device types have one name.")
        for device in self.devices:
            _vector(device.name, device.capacity)
            _whole(device.name, device.cost, device.watts)
        for program in self.programs:
            _whole(program.name, program.count, program.penalty or 0, *program.watts.values())
            for name, demand in program.demands.items():
                if name not in known:
                    raise ValueError(f"{program.name} names the device type {name}, which is not there.")
                _vector(program.name, demand)
        _whole("limits", *self.limits.values(), self.watts_limit or 0)

    @cached_property
    def by_name(self) -> dict[str, DeviceType]:
        return {device.name: device for device in self.devices}

    @cached_property
    def must_run(self) -> int:
        """What leaving out a program costs that must run: more than any device can save."""
        dearest = max([device.cost for device in self.devices] + [p.penalty or 0 for p in self.programs], default=0)
        return 1000 * (dearest or 1)

    def penalty(self, program: ProgramType) -> int:
        return self.must_run if program.penalty is None else program.penalty

    def draw(self, pattern: Pattern) -> int:
        """Milliwatts of one device with that pattern."""
        each = (count * p.watts.get(pattern.device, 0) for p, count in zip(self.programs, pattern.counts, strict=True))
        return self.by_name[pattern.device].watts + sum(each)

    def load(self, pattern: Pattern) -> Vector:
        """What the pattern takes in each dimension. Raises KeyError where a program cannot run there."""
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
    """Patterns, each on so many devices; `unserved`: programs of each type that were left out."""

    patterns: tuple[tuple[Pattern, int], ...]
    unserved: tuple[int, ...]

    def devices(self, group: str | None = None, *, instance: Instance) -> int:
        """How many devices it takes, of all groups or of one."""
        return sum(times for pattern, times in self.patterns if group in (None, instance.by_name[pattern.device].owner))

    def cost(self, instance: Instance) -> int:
        """Devices and penalties, in the unit of `cost`."""
        devices = sum(instance.by_name[pattern.device].cost * times for pattern, times in self.patterns)
        left = zip(instance.programs, self.unserved, strict=True)
        return devices + sum(instance.penalty(program) * count for program, count in left)

    def watts(self, instance: Instance) -> int:
        return sum(instance.draw(pattern) * times for pattern, times in self.patterns)


@dataclass(frozen=True)
class Bound:
    """No packing costs less than `value`: `fraction` rounded up to what costs can add up to. Both are exact, from duals that
    were made feasible in whole numbers (see `bounding`)."""

    value: int
    fraction: Fraction


@dataclass(frozen=True)
class Plan:
    """A packing beside its bound. `patterns`: how many the linear program generated; `rounds`: how often it was solved."""

    packing: Packing
    cost: int
    bound: Bound
    patterns: int
    rounds: int

    @property
    def gap(self) -> Fraction:
        """By what share the plan may cost more than the best one; 0 where both are the same."""
        if self.cost == self.bound.value:
            return Fraction(0)
        return Fraction(self.cost, self.bound.value) - 1 if self.bound.value else Fraction(self.cost)
