"""Compute the capacity plan of a pool with exact arithmetic. JSON documents hold fractions as text, such as "3/4"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil
from typing import Any

from apps.planner.packing import (
    DIMENSIONS,
    DeviceType,
    Instance,
    Packing,
    ProgramType,
    dot_product_fit,
    first_fit_decreasing,
    plan,
)
from apps.reports.capacity_plans.facts import Load, PoolFacts

SHARES = (Fraction(1), Fraction(3, 4), Fraction(1, 2), Fraction(1, 4))
TYPES_MOST = 40  # programs of a pool up to which the linear program is used
FEMTO = 10**15
HOUR = 3600

Progress = Callable[[float], None]


def pool_plan(pool: PoolFacts, *, progress: Progress) -> dict[str, Any]:
    """Return the plan of a pool. `progress` may raise an exception to stop the work."""
    settings = [_setting(pool, share, part(progress, at, len(SHARES))) for at, share in enumerate(SHARES)]
    full = settings[0]
    return {
        "pool": pool.slug,
        "owned": pool.owned,
        "needed": full["needed"],
        "bound": full["bound"],
        "first_fit_decreasing": full["first_fit_decreasing"],
        "method": full["method"],
        "too_large": full["too_large"],
        "load": _load(pool),
        "programs": [_program(pool, load) for load in pool.loads],
        "devices": full["devices"],
        "power": [{name: value for name, value in one.items() if name != "devices"} for one in settings],
        "proposals": list(_proposals(pool, settings)),
    }


def part(progress: Progress, at: int, of: int) -> Progress:
    """Return a progress function for one part of the work. `at` is the index of the part, and `of` is the number of
    parts.
    """
    return lambda done: progress((at + done) / of)


def instance_of(pool: PoolFacts, share: Fraction) -> Instance:
    """Return the packing instance of a pool at `share` of its clock rate. A program that needs more than one device is
    split into equal parts.
    """
    capacity = (int(pool.clock * share), pool.link_in, pool.link_out, pool.memory)
    programs = tuple(
        ProgramType(load.digest, parts(load, capacity), {"device": demand(load, parts(load, capacity))})
        for load in pool.loads
    )
    return Instance((DeviceType("device", capacity),), programs)


def demand(load: Load, parts: int) -> tuple[int, int, int, int]:
    """Return the demand of one part: cycles, input bytes and output bytes per second, and bytes of memory."""
    rate = load.rate / parts
    return (ceil(rate * load.interval), ceil(rate * load.bytes_in), ceil(rate * load.bytes_out), load.resident)


def parts(load: Load, capacity: tuple[int, ...]) -> int:
    """Return the smallest number of equal parts that each fit on one device."""
    demanded = (load.rate * load.interval, load.rate * load.bytes_in, load.rate * load.bytes_out)
    return max([1, *(ceil(one / room) for one, room in zip(demanded, capacity, strict=False) if room)])


def _setting(pool: PoolFacts, share: Fraction, progress: Progress) -> dict[str, Any]:
    instance = instance_of(pool, share)
    if len(instance.programs) <= TYPES_MOST:
        made = plan(instance, progress=lambda _, done: progress(done))
        packing, bound, method = made.packing, _devices_bound(instance, made.bound.value, made.packing), "configuration"
    else:
        progress(0.5)
        packing, method = dot_product_fit(instance), "dot-product"
        bound = volume_bound(instance)
    needed = packing.devices(instance=instance)
    dynamic = sum((load.rate * load.energy for load in pool.loads), Fraction(0)) / FEMTO
    static = Fraction(pool.cycle_energy * pool.clock, FEMTO)
    return {
        "share": str(share),
        "needed": needed,
        "bound": bound,
        "first_fit_decreasing": first_fit_decreasing(instance).devices(instance=instance),
        "method": method,
        "too_large": [
            load.model
            for load, left in zip(pool.loads, packing.unserved, strict=True)
            if left and load.resident > pool.memory
        ],
        "fits": needed <= pool.owned and not any(packing.unserved),
        "latency_factor": str(1 / share),
        "watts": str(needed * static + dynamic),
        "static_watts": str(static),
        "peak_watts": str(static + share * _peak(pool)),
        "devices": [_device(instance, pool, pattern.counts, times) for pattern, times in packing.patterns],
    }


def _devices_bound(instance: Instance, value: int, packing: Packing) -> int:
    left = sum(instance.penalty(p) * count for p, count in zip(instance.programs, packing.unserved, strict=True))
    return max(0, value - left)


def volume_bound(instance: Instance) -> int:
    """Return a lower bound on the number of devices, computed from the total demand in each dimension."""
    device = instance.devices[0]
    fitting = [
        p for p in instance.programs if all(a <= b for a, b in zip(p.demands["device"], device.capacity, strict=True))
    ]
    return max(
        (
            ceil(Fraction(sum(p.count * p.demands["device"][at] for p in fitting), room))
            for at, room in enumerate(device.capacity)
            if room
        ),
        default=0,
    )


def _peak(pool: PoolFacts) -> Fraction:
    return max((Fraction(load.energy * pool.clock, load.interval * FEMTO) for load in pool.loads), default=Fraction(0))


def _device(instance: Instance, pool: PoolFacts, counts: tuple[int, ...], times: int) -> dict[str, Any]:
    capacity = instance.devices[0].capacity
    taken = [
        sum(count * program.demands["device"][at] for count, program in zip(counts, instance.programs, strict=True))
        for at in range(len(capacity))
    ]
    return {
        "times": times,
        "programs": [[load.model, load.digest, count] for load, count in zip(pool.loads, counts, strict=True) if count],
        "load": [str(Fraction(one, room)) if room else "0" for one, room in zip(taken, capacity, strict=True)],
    }


def _load(pool: PoolFacts) -> list[dict[str, Any]]:
    capacity = (pool.clock, pool.link_in, pool.link_out, pool.memory)
    instance = instance_of(pool, Fraction(1))
    rows = []
    for at, name in enumerate(DIMENSIONS):
        demanded = sum(program.count * program.demands["device"][at] for program in instance.programs)
        owned = capacity[at] * pool.owned
        rows.append(
            {
                "dimension": name,
                "asked": demanded,
                "device": capacity[at],
                "share": str(Fraction(demanded, owned)) if owned else None,
            }
        )
    return rows


def _program(pool: PoolFacts, load: Load) -> dict[str, Any]:
    capacity = (pool.clock, pool.link_in, pool.link_out, pool.memory)
    count = parts(load, capacity)
    return {
        "model": load.model,
        "program": load.digest,
        "contracts": load.contracts,
        "rate": str(load.rate),
        "parts": count,
        "demand": list(demand(load, count)),
    }


def _proposals(pool: PoolFacts, settings: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    full = settings[0]
    if full["too_large"]:
        return
    if full["needed"] > pool.owned:
        yield {"kind": "short", "devices": full["needed"] - pool.owned}
        return
    if full["needed"] < pool.owned and pool.loads:
        yield spare(pool, full)
    lower = next((one for one in reversed(settings[1:]) if one["fits"] and pool.loads), None)
    if lower is not None:
        saved = Fraction(full["peak_watts"]) - Fraction(lower["peak_watts"])
        yield {
            "kind": "power",
            "share": lower["share"],
            "latency_factor": lower["latency_factor"],
            "peak_watts_saved": str(saved * pool.owned),
        }


def spare(pool: PoolFacts, full: dict[str, Any]) -> dict[str, Any]:
    """Return the proposal to set surplus devices aside as spares, with the cost of the migration."""
    devices = pool.owned - full["needed"]
    moved = sum(load.moved * parts(load, (pool.clock, pool.link_in, pool.link_out)) for load in pool.loads)
    seconds = Fraction(moved, pool.link_in)
    return {
        "kind": "spare",
        "devices": devices,
        "watts_saved": str(devices * Fraction(full["static_watts"])),
        "saved_per_hour": None if pool.per_hour is None else str(devices * pool.per_hour),
        "moved_bytes": moved,
        "moved_seconds": str(seconds),
        "moved_cost": None if pool.per_hour is None else str(seconds * pool.per_hour / HOUR),
        "payback_seconds": str(seconds / devices),
    }
