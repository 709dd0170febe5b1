"""An independent checker: it shares no code with what makes packings, and adds up every device again in whole numbers."""

from __future__ import annotations

from collections.abc import Iterator

from apps.planner.packing.instances import Instance, Packing


def faults(instance: Instance, packing: Packing) -> list[str]:
    """What is wrong with a packing, a sentence each; none means that it is legal."""
    return [*_devices(instance, packing), *_counts(instance, packing), *_limits(instance, packing)]


def _devices(instance: Instance, packing: Packing) -> Iterator[str]:
    types = {device.name: device for device in instance.devices}
    for pattern, times in packing.patterns:
        if times < 1 or pattern.device not in types or any(count < 0 for count in pattern.counts):
            yield f"{pattern} stands {times} times on {pattern.device}."
            continue
        for dimension, room in enumerate(types[pattern.device].capacity):
            taken = 0
            for program, count in zip(instance.programs, pattern.counts, strict=True):
                if count and pattern.device not in program.demands:
                    yield f"{program.name} cannot run on {pattern.device}."
                elif count:
                    taken += program.demands[pattern.device][dimension] * count
            if taken > room:
                yield f"{pattern.device} holds {room} in dimension {dimension}; {taken} are on it."


def _counts(instance: Instance, packing: Packing) -> Iterator[str]:
    for index, program in enumerate(instance.programs):
        placed = sum(pattern.counts[index] * times for pattern, times in packing.patterns)
        if placed + packing.unserved[index] != program.count or packing.unserved[index] < 0:
            yield f"{program.name}: {placed} placed and {packing.unserved[index]} left out of {program.count}."


def _limits(instance: Instance, packing: Packing) -> Iterator[str]:
    groups = {device.name: device.group or device.name for device in instance.devices}
    for group, most in instance.limits.items():
        used = sum(times for pattern, times in packing.patterns if groups[pattern.device] == group)
        if used > most:
            yield f"{group}: {used} devices are used of {most}."
    drawn = 0
    for pattern, times in packing.patterns:
        drawn += times * next(device.watts for device in instance.devices if device.name == pattern.device)
        for program, count in zip(instance.programs, pattern.counts, strict=True):
            drawn += times * count * program.watts.get(pattern.device, 0)
    if instance.watts_limit is not None and drawn > instance.watts_limit:
        yield f"{drawn} mW are drawn of {instance.watts_limit}."
