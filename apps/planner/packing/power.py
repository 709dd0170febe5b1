"""Power settings: only a share s of a device's capability is switched on.

The device does s times as many cycles per second, so an execution takes 1/s times as long. Links, memory and the
dynamic energy of an operation do not change. The static power may be lower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from apps.planner.packing.instances import DeviceType, Instance, ProgramType


@dataclass(frozen=True)
class Draw:
    """The power of a device at full capability, in milliwatts: `static` when idle, `full` when every cycle is used.

    Raises ValueError if `full` is less than `static`.
    """

    static: int
    full: int

    def __post_init__(self) -> None:
        if not 0 <= self.static <= self.full:
            raise ValueError("A device must draw at least as much power while it works as while it is idle.")


@dataclass(frozen=True)
class Setting:
    """A power setting: a share of the device's capability, above 0 and at most 1.

    `static` is the idle power in milliwatts; None if the idle power is the same as at full capability.
    Raises ValueError if the share is out of range.
    """

    share: Fraction
    static: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError("A power setting must be a share above 0 and at most 1.")


@dataclass(frozen=True)
class Effect:
    """The effect of a power setting on a program that runs alone on a device.

    `latency` is in seconds, `rate` in executions per second, and `dynamic` and `static` in joules per execution.
    `static` assumes that the device is always busy.
    """

    latency: Fraction
    rate: Fraction
    dynamic: Fraction
    static: Fraction


def effect(*, latency: int, interval: int, clock: int, draw: Draw, setting: Setting) -> Effect:
    """Return the effect of a setting. `latency` and `interval` are in cycles, `clock` in cycles per second."""
    effective = setting.share * clock
    static = draw.static if setting.static is None else setting.static
    return Effect(
        latency=latency / effective,
        rate=effective / interval,
        dynamic=Fraction((draw.full - draw.static) * interval, 1000 * clock),
        static=static * interval / (1000 * effective),
    )


def set_to(device: DeviceType, setting: Setting, draw: Draw | None = None) -> DeviceType:
    """Return the device type at a power setting."""
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
    """Return the instance with one device type for each power setting, and with a power limit in milliwatts.

    Device types without a known draw do not change.
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
    """Return an instance whose cost is the number of programs left out."""
    devices = tuple(replace(device, cost=0) for device in instance.devices)
    programs: tuple[ProgramType, ...] = tuple(replace(program, penalty=1) for program in instance.programs)
    return Instance(devices, programs, instance.limits, instance.watts_limit)
