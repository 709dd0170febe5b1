"""The configuration linear program, solved by column generation (Gilmore and Gomory, 1961).

HiGHS solves the master problem. For each device type, a knapsack finds patterns whose value exceeds their cost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.planner.packing.bounding import Duals, bound_of, knapsacks, unit_of
from apps.planner.packing.greedy import dot_product_fit
from apps.planner.packing.instances import Bound, Instance, Pattern, Progress
from apps.planner.packing.pricing import BEAM

ROUNDS = 400
QUICK = 1_000  # states of a search that only looks for patterns, not for a proof
FINE = 1 << 22  # a pattern must be worth more than it costs by this share of the cost


@dataclass(frozen=True)
class Relaxation:
    """The fractional solution of the linear program.

    `times` is how often each pattern is used. `bound` is the lower bound that the duals prove.
    """

    patterns: tuple[Pattern, ...]
    times: npt.NDArray[np.float64]
    bound: Bound
    duals: Duals
    rounds: int


@dataclass
class Master:
    """The master problem: the linear program over the patterns found so far."""

    instance: Instance
    patterns: dict[Pattern, None] = field(default_factory=dict)

    def add(self, patterns: Iterable[Pattern]) -> int:
        """Add patterns, and return the number of new patterns."""
        before = len(self.patterns)
        self.patterns.update(dict.fromkeys(patterns))
        return len(self.patterns) - before

    def rows(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return (cost, matrix, right side) of the problem: minimise cost x subject to matrix x <= right side.

        The rows are the programs, the limited groups and the power limit. The columns are the patterns and the unserved
        programs.
        """
        instance, patterns = self.instance, list(self.patterns)
        types, groups = len(instance.programs), list(instance.limits)
        scale = 1.0 / self.scale
        cost = np.array(
            [instance.by_name[p.device].cost * scale for p in patterns]
            + [instance.penalty(program) * scale for program in instance.programs]
        )
        matrix = np.zeros((types + len(groups) + 1, len(cost)))
        matrix[:types, : len(patterns)] = -np.array([p.counts for p in patterns], dtype=float).reshape(-1, types).T
        matrix[:types, len(patterns) :] = -np.eye(types)
        for row, group in enumerate(groups):
            matrix[types + row, : len(patterns)] = [instance.by_name[p.device].owner == group for p in patterns]
        right = [-float(program.count) for program in instance.programs] + [float(instance.limits[g]) for g in groups]
        limit = instance.watts_limit
        if limit is not None:
            matrix[-1, : len(patterns)] = [instance.draw(p) / (limit or 1) for p in patterns]
        return cost, matrix, np.array([*right, 1.0 if limit else 0.0])

    @property
    def scale(self) -> int:
        return (
            max([device.cost for device in self.instance.devices] + [p.penalty or 0 for p in self.instance.programs])
            or 1
        )

    def solve(self) -> tuple[Any, list[float], list[float], float]:
        """Return the solution, and the duals of the programs, the group limits and the power limit, in units of cost."""
        from scipy.optimize import linprog  # half a second that most processes never need

        cost, matrix, right = self.rows()
        solved = linprog(cost, A_ub=matrix, b_ub=right, method="highs-ds")
        if solved.status != 0:
            raise ArithmeticError(f"HiGHS did not solve the master problem: {solved.message}")
        marginals = -np.asarray(solved.ineqlin.marginals) * self.scale
        types = len(self.instance.programs)
        watts = (
            float(marginals[-1]) / (self.instance.watts_limit or 1) if self.instance.watts_limit is not None else 0.0
        )
        return solved, marginals[:types].tolist(), marginals[types:-1].tolist(), watts


def relax(
    instance: Instance, *, start: Iterable[Pattern] = (), prove: bool = True, progress: Progress | None = None
) -> Relaxation:
    """Solve the configuration linear program.

    If `prove` is False, the search is quicker and the bound may be weak. Raises ArithmeticError if HiGHS finds no
    solution.
    """
    sacks = knapsacks(instance)
    master = Master(instance)
    master.add(start)
    master.add(pattern for pattern, _ in dot_product_fit(instance).patterns)
    master.add(_alone(instance, sacks))
    best: Bound | None = None
    for number in range(1, ROUNDS + 1):
        solved, programs, groups, watts = master.solve()
        duals = Duals.rounded(instance, programs, watts, unit_of(sacks, programs))
        limited = dict(zip(instance.limits, groups, strict=True))
        found, worth = _improving(instance, sacks, duals, limited, beam=QUICK)
        if prove and not any(pattern not in master.patterns for pattern in found):
            found, worth = _improving(instance, sacks, duals, limited, beam=BEAM)
        bound = bound_of(instance, duals, worth)
        best = bound if best is None or bound.fraction > best.fraction else best
        if progress:
            progress("generating patterns", min(0.9, number / 60))
        if not master.add(found):
            break
    known = tuple(master.patterns)
    times = np.zeros(len(known))
    times[: len(solved.x) - len(instance.programs)] = solved.x[: len(solved.x) - len(instance.programs)]
    assert best is not None
    return Relaxation(known, times, best, duals, number)


def _alone(instance: Instance, sacks: dict[str, Any]) -> list[Pattern]:
    types = range(len(instance.programs))
    return [
        Pattern(name, tuple(sack.most[t] if t == one else 0 for t in types))
        for name, sack in sacks.items()
        for one in types
        if sack.most[one]
    ]


def _improving(
    instance: Instance, sacks: dict[str, Any], duals: Duals, groups: dict[str, float], *, beam: int
) -> tuple[list[Pattern], dict[str, int]]:
    found, worth = [], {}
    for device in instance.devices:
        price = device.cost + max(groups.get(device.owner, 0.0), 0.0) + float(duals.watts) * device.watts
        above = int(Fraction(price * (1 + 1 / FINE)) * duals.unit)
        priced = sacks[device.name].search(duals.values(instance, device.name), above=above, beam=beam)
        worth[device.name] = priced.bound
        found += [Pattern(device.name, counts) for _, counts in priced.found]
    return found, worth
