"""Make a plan: solve the linear program, round the solution to whole devices, and compute the bound."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from apps.planner.packing.checking import faults
from apps.planner.packing.configuration import Master, Relaxation, relax
from apps.planner.packing.greedy import Supply, dot_product_fit, packed
from apps.planner.packing.instances import Bound, Instance, Packing, Pattern, Plan, Progress

DIVES = 200  # at most; each keeps at least one device
ENOUGH = Fraction(1, 1000)  # the search ends at this gap
NODES = 500  # of HiGHS's search: nodes, not seconds, so that a busy machine gives the same plan


def plan(instance: Instance, *, progress: Progress | None = None) -> Plan:
    """Return the cheapest packing found, with a lower bound of the cost. The result is the same on every machine.

    `progress(stage, share)` may raise an exception to end the work. Raises ArithmeticError if HiGHS finds no solution.
    """
    count = sum(program.count for program in instance.programs)
    if not instance.devices or not count:
        left = Packing((), tuple(program.count for program in instance.programs))
        return Plan(left, left.cost(instance), Bound(left.cost(instance), Fraction(left.cost(instance))), 0, 0)
    relaxed = relax(instance, progress=progress)
    bound, best = relaxed.bound, dot_product_fit(instance)
    for packing in _rounded(instance, relaxed, progress):
        best = min(best, packing, key=lambda one: one.cost(instance))
        if best.cost(instance) - bound.value <= ENOUGH * bound.value:
            break
    return Plan(best, best.cost(instance), bound, len(relaxed.patterns), relaxed.rounds)


def _rounded(instance: Instance, relaxed: Relaxation, progress: Progress | None) -> Iterator[Packing]:
    base, residual, current = Packing((), tuple(p.count for p in instance.programs)), instance, relaxed
    known = dict.fromkeys(relaxed.patterns)
    for number in range(DIVES):
        kept = _kept(residual, current)
        if not kept:
            break
        base = _joined(instance, base, packed(residual, kept))
        residual = _residual(instance, base)
        yield _joined(instance, base, dot_product_fit(residual))
        if not any(program.count for program in residual.programs):
            break
        current = relax(residual, start=_clipped(residual, known), prove=False)
        known.update(dict.fromkeys(current.patterns))
        if progress:
            progress("rounding", 0.9 + 0.05 * number / DIVES)
    base = packed(instance, _kept(instance, relaxed, up=False))
    solved = _whole(_residual(instance, base), list(_clipped(_residual(instance, base), known)))
    if solved is not None:
        yield _joined(instance, base, solved)


def _kept(instance: Instance, relaxed: Relaxation, *, up: bool = True) -> list[tuple[Pattern, int]]:
    supply = Supply(instance)
    whole = np.floor(relaxed.times + 1e-6).astype(int).tolist()
    kept = []
    for pattern, wanted in zip(relaxed.patterns, whole, strict=True):
        times = supply.times(pattern, wanted)
        if times:
            supply.take(pattern, times)
            kept.append((pattern, times))
    if kept or not up:
        return kept
    order = np.argsort(-relaxed.times, kind="stable")
    likely = (relaxed.patterns[at] for at in order if relaxed.times[at] > 1e-6)
    return next(([(pattern, 1)] for pattern in likely if supply.times(pattern, 1)), [])


def _residual(instance: Instance, base: Packing) -> Instance:
    programs = tuple(
        replace(program, count=left) for program, left in zip(instance.programs, base.unserved, strict=True)
    )
    limits = {group: most - base.devices(group, instance=instance) for group, most in instance.limits.items()}
    watts = None if instance.watts_limit is None else instance.watts_limit - base.watts(instance)
    return Instance(instance.devices, programs, limits, watts)


def _clipped(instance: Instance, patterns: Iterable[Pattern]) -> Iterator[Pattern]:
    for pattern in patterns:
        counts = tuple(min(a, p.count) for a, p in zip(pattern.counts, instance.programs, strict=True))
        if any(counts):
            yield Pattern(pattern.device, counts)


def _joined(instance: Instance, base: Packing, rest: Packing) -> Packing:
    return packed(instance, [*base.patterns, *rest.patterns])


def _whole(instance: Instance, patterns: Iterable[Pattern]) -> Packing | None:
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second that most processes never need

    master = Master(instance)
    master.add(patterns)
    cost, matrix, right = master.rows()
    if instance.watts_limit:
        right[-1] -= 2e-6
    solved = milp(
        cost,
        constraints=LinearConstraint(matrix, -np.inf, right),
        integrality=np.ones(len(cost)),
        bounds=Bounds(0, np.inf),
        options={"node_limit": NODES, "mip_rel_gap": 0.0},
    )
    if solved.x is None:
        return None
    times = np.round(solved.x[: len(master.patterns)]).astype(int).tolist()
    found = packed(
        instance, [(pattern, count) for pattern, count in zip(master.patterns, times, strict=True) if count > 0]
    )
    return found if not faults(instance, found) else None  # HiGHS respects a limit only within its tolerance
