"""Choose the forecast method and the width of the band by a backtest.

The quantiles of past errors form the band (conformal prediction: Vovk et al., 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from apps.reports.forecasting.methods import DAY, Path, methods_for
from apps.reports.forecasting.series import HOUR, Amounts, Series, SeriesError

LOW, HIGH = 0.1, 0.9
ORIGINS = 21  # days, or steps if the series is not hourly
LEAD_HOURS = 168
LEAD_STEPS = 5
LEAST_HOURS, LEAST_STEPS = 120, 16
ERRORS_LEAST = 8  # with fewer errors the band is the method's own
NORMAL = 1.2816  # the 90 % quantile of the normal distribution


class Plan(NamedTuple):
    """The plan of a backtest. `origins` lists the number of steps before each forecast, and `leads` is the length of a
    forecast in steps.
    """

    origins: tuple[int, ...]
    leads: int


class NotEnough(SeriesError):
    """Raised if the series is too short; `needed` and `known` are numbers of steps."""

    def __init__(self, needed: int, known: int) -> None:
        super().__init__(f"The series has {known} steps; a forecast with a backtest needs {needed}.")
        self.needed, self.known = needed, known


@dataclass(frozen=True)
class Score:
    """The results of a method in the backtest. `wape` is the weighted absolute percentage error, `mase` is the mean
    absolute scaled error, and `coverage` is the share of steps inside the 80 % band.
    """

    method: str
    wape: float
    mase: float
    coverage: float | None
    steps: int


@dataclass(frozen=True, eq=False)
class Forecast:
    """A forecast and its backtest. `low`, `middle` and `high` are the 10 %, 50 % and 90 % quantiles for each step from
    `start`.
    """

    method: str
    start: datetime
    series: Series
    low: Amounts
    middle: Amounts
    high: Amounts
    scores: tuple[Score, ...]
    plan: Plan


def least_steps(series: Series) -> int:
    """Return the number of known steps that a forecast requires."""
    return LEAST_HOURS if series.step == HOUR else LEAST_STEPS


def plan_of(series: Series) -> Plan:
    """Return the plan of a backtest. Raises NotEnough if the series is too short."""
    known, needed = len(series.values), least_steps(series)
    if known < needed:
        raise NotEnough(needed, known)
    is_hourly = series.step == HOUR
    apart, leads = (DAY, min(LEAD_HOURS, known // 4)) if is_hourly else (1, min(LEAD_STEPS, known // 4))
    origins = list(range(known - apart, known // 2 - 1, -apart))[:ORIGINS]
    return Plan(tuple(reversed(origins)), leads)


def forecast(series: Series, *, horizon: int, progress: Callable[[int, int], None] | None = None) -> Forecast:
    """Forecast `horizon` steps with the best method. `progress` is called with the number of finished fits and the
    number of all fits.

    Raises NotEnough if the series is too short.
    """
    plan = plan_of(series)
    roots = np.sqrt(series.values)
    names = list(methods_for(series.step, plan.origins[0]))
    errors: dict[str, list[tuple[int, Path]]] = {name: [] for name in names}
    done, fits = 0, len(names) * len(plan.origins)
    for origin in plan.origins:
        methods = methods_for(series.step, origin)
        for name in names:
            errors[name].append((origin, methods[name](roots[:origin], plan.leads)))
            done += 1
            if progress is not None:
                progress(done, fits)
    scores = [_score(name, errors[name], series, roots) for name in names]
    chosen = min(scores, key=lambda score: score.wape).method
    path = methods_for(series.step, len(roots))[chosen](roots, horizon)
    low, high = _band(path, errors[chosen], roots, plan.leads, len(roots))
    middle = _amounts(path.middle)
    return Forecast(
        chosen,
        series.end,
        series,
        np.minimum(_amounts(low), middle),
        middle,
        np.maximum(_amounts(high), middle),
        tuple(scores),
        plan,
    )


def _amounts(roots: Amounts) -> Amounts:
    return np.asarray(np.maximum(roots, 0.0) ** 2)


def _score(name: str, paths: list[tuple[int, Path]], series: Series, roots: Amounts) -> Score:
    wrong = came = naive = 0.0
    inside = banded = steps = 0
    for place, (origin, path) in enumerate(paths):
        truth = roots[origin : origin + len(path.middle)]
        count = len(truth)
        amounts = truth**2
        wrong += float(np.abs(_amounts(path.middle[:count]) - amounts).sum())
        came += float(amounts.sum())
        naive += float(np.abs(np.diff(series.values[:origin])).mean()) * count
        steps += count
        if _known_errors(paths[:place], roots, len(path.middle), origin)[0].size >= ERRORS_LEAST:
            low, high = _band(path, paths[:place], roots, len(path.middle), origin)
            inside += int(((truth >= low[:count]) & (truth <= high[:count])).sum())
            banded += count
    coverage = inside / banded if banded else None
    return Score(name, wrong / came if came else 0.0, wrong / naive if naive else 0.0, coverage, steps)


def _known_errors(paths: list[tuple[int, Path]], roots: Amounts, leads: int, until: int) -> tuple[Amounts, Amounts]:
    found_leads, found = [np.empty(0)], [np.empty(0)]
    for origin, path in paths:
        count = min(leads, until - origin)
        found_leads.append(np.arange(count, dtype=np.float64))
        found.append((roots[origin : origin + count] - path.middle[:count]) / path.deviation[:count])
    return np.concatenate(found_leads), np.concatenate(found)


def _band(path: Path, paths: list[tuple[int, Path]], roots: Amounts, leads: int, until: int) -> tuple[Amounts, Amounts]:
    at, errors = _known_errors(paths, roots, leads, until)
    horizon = len(path.middle)
    low, high = np.full(horizon, -NORMAL), np.full(horizon, NORMAL)
    edges = _edges(leads)
    for begin, end in pairwise(edges):
        some = errors[(at >= begin) & (at < end)]
        if some.size < ERRORS_LEAST:
            some = errors
        if some.size >= ERRORS_LEAST:
            last = horizon if end == leads else end
            low[begin:last], high[begin:last] = _quantiles(some)
    return path.middle + low * path.deviation, path.middle + high * path.deviation


def _edges(leads: int) -> list[int]:
    return sorted({0, min(DAY, leads), min(3 * DAY, leads), leads})


def _quantiles(errors: Amounts) -> tuple[float, float]:
    count = len(errors)
    high = min(1.0, np.ceil((count + 1) * HIGH) / count)
    low = max(0.0, np.floor((count + 1) * LOW) / count)
    return float(np.quantile(errors, low)), float(np.quantile(errors, high))
