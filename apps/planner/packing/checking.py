"""An independent check of a packing, which shares no code with the planner."""

from __future__ import annotations

from collections.abc import Iterator

from apps.planner.packing.instances import Instance, Packing, Pattern, Vector


def faults(instance: Instance, packing: Packing) -> list[str]:
    """Return one sentence for each fault of a packing."""
    return [*_devices(instance, packing), *_counts(instance, packing), *_limits(instance, packing)]


def _devices(instance: Instance, packing: Packing) -> Iterator[str]:
    types = {device.name: device for device in instance.devices}
    for pattern, times in packing.patterns:
        if times < 1 or pattern.device not in types or any(count < 0 for count in pattern.counts):
            yield f"{pattern} is used {times} times on {pattern.device}."
        else:
            yield from _overfull(instance, pattern, types[pattern.device].capacity)


def _overfull(instance: Instance, pattern: Pattern, capacity: Vector) -> Iterator[str]:
    placed = [(p, count) for p, count in zip(instance.programs, pattern.counts, strict=True) if count]
    for program, _ in placed:
        if pattern.device not in program.demands:
            yield f"{program.name} cannot run on {pattern.device}."
    for dimension, room in enumerate(capacity):
        used = sum(p.demands[pattern.device][dimension] * count for p, count in placed if pattern.device in p.demands)
        if used > room:
            yield f"{pattern.device} has {room} in dimension {dimension}; {used} are used."


def _counts(instance: Instance, packing: Packing) -> Iterator[str]:
    for index, program in enumerate(instance.programs):
        placed = sum(pattern.counts[index] * times for pattern, times in packing.patterns)
        if placed + packing.unserved[index] != program.count or packing.unserved[index] < 0:
            yield f"{program.name}: {placed} placed and {packing.unserved[index]} left out; there are {program.count}."


def _limits(instance: Instance, packing: Packing) -> Iterator[str]:
    groups = {device.name: device.group or device.name for device in instance.devices}
    for group, most in instance.limits.items():
        used = sum(times for pattern, times in packing.patterns if groups[pattern.device] == group)
        if used > most:
            yield f"{group}: {used} devices are used; there are {most}."
    drawn = _drawn(instance, packing)
    if instance.watts_limit is not None and drawn > instance.watts_limit:
        yield f"{drawn} mW are drawn; {instance.watts_limit} mW are allowed."


def _drawn(instance: Instance, packing: Packing) -> int:
    idle = {device.name: device.watts for device in instance.devices}
    drawn = 0
    for pattern, times in packing.patterns:
        programs = zip(instance.programs, pattern.counts, strict=True)
        drawn += times * (idle[pattern.device] + sum(count * p.watts.get(pattern.device, 0) for p, count in programs))
    return drawn
