"""Power settings: a share s of the deterministic capability, the rest switched off, and what follows by arithmetic.

The effective clock is s x clock, so a device does s x the cycles a second, and one execution takes 1/s x the time. Links
and memory stay as they are. An operation switches as much as before, so its dynamic energy is the same; what the device
draws whatever runs is data (`static`, which may be lower where parts are switched off) and is spent for 1/s x as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from apps.planner.packing.instances import DeviceType, Instance, ProgramType


@dataclass(frozen=True)
class Draw:
    """Milliwatts of a device at its full capability: `static` whatever runs, `full` while every cycle is used.

    Raises ValueError where it draws less when it works.
    """

    static: int
    full: int

    def __post_init__(self) -> None:
        if not 0 <= self.static <= self.full:
            raise ValueError("A device draws at least as much while it works as while it is idle.")


@dataclass(frozen=True)
class Setting:
    """A share of the capability in (0, 1]; `static`: milliwatts at it, None where they are those of the full setting.

    Raises ValueError for another share.
    """

    share: Fraction
    static: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError("A power setting is a share above 0 and at most 1.")


@dataclass(frozen=True)
class Effect:
    """What a setting does to a program: seconds of one execution and most executions a second on a device of its own, and
    joules of one execution, of which the static ones are those of a device that is always busy."""

    latency: Fraction
    rate: Fraction
    dynamic: Fraction
    static: Fraction


def effect(*, latency: int, interval: int, clock: int, draw: Draw, setting: Setting) -> Effect:
    """`latency` and `interval` in cycles, `clock` in cycles a second."""
    effective = setting.share * clock
    static = draw.static if setting.static is None else setting.static
    return Effect(
        latency=latency / effective,
        rate=effective / interval,
        dynamic=Fraction((draw.full - draw.static) * interval, 1000 * clock),
        static=static * interval / (1000 * effective),
    )


def set_to(device: DeviceType, setting: Setting, draw: Draw | None = None) -> DeviceType:
    """The device type at that setting, of the same group: its duty is less, and so may its milliwatts be."""
    static = draw.static if draw is not None and setting.static is None else (setting.static or device.watts)
    return replace(
        device,
        name=f"{device.name} at {float(setting.share * 100):g} %" if setting.share != 1 else device.name,
        capacity=(floor(device.capacity[0] * setting.share), *device.capacity[1:]),
        watts=static,
        group=device.owner,
    )


def with_settings(
    instance: Instance, draws: Mapping[str, Draw], settings: Mapping[str, Sequence[Setting]], *, watts_limit: int | None
) -> Instance:
    """The instance in which every device may be used at each of its settings, within milliwatts for all together.

    A device type without a draw is left as it is; a program draws what its duty switches, rounded up to a milliwatt.
    """
    devices, names = [], {}
    for device in instance.devices:
        draw = draws.get(device.name)
        made = [set_to(device, one, draw) for one in settings.get(device.name, ())] if draw else [device]
        devices += made
        names[device.name] = [one.name for one in made]
    full = instance.by_name
    programs = tuple(
        replace(
            program,
            demands={name: demand for of, demand in program.demands.items() for name in names[of]},
            watts={
                name: _switched(demand[0], full[of].capacity[0], draws[of]) if of in draws else program.watts.get(of, 0)
                for of, demand in program.demands.items()
                for name in names[of]
            },
        )
        for program in instance.programs
    )
    return Instance(tuple(devices), programs, instance.limits, watts_limit)


def _switched(duty: int, capacity: int, draw: Draw) -> int:
    return ceil(Fraction((draw.full - draw.static) * duty, capacity)) if capacity else 0


def most_served(instance: Instance) -> Instance:
    """The instance whose cost is the number of programs that are left out, and nothing else."""
    devices = tuple(replace(device, cost=0) for device in instance.devices)
    programs: tuple[ProgramType, ...] = tuple(replace(program, penalty=1) for program in instance.programs)
    return Instance(devices, programs, instance.limits, instance.watts_limit)
