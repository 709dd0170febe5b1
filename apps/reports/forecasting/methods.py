"""Forecast methods, which return a median and a standard deviation for each lead time.

All methods work on the square roots of the amounts. Sources: Hyndman et al., "Forecasting with Exponential Smoothing",
2008 (ETS); Bandara et al., 2021 (MSTL); Hyndman and Athanasopoulos, section 5.5 (naive methods).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

import numpy as np

from apps.reports.forecasting.series import HOUR, Amounts

DAY, WEEK = 24, 168
SEASONS_SEEN = 2  # a season needs this many repetitions and one step
ETS_LEAST = 8
SMALLEST_DEVIATION = 1e-6


class Path(NamedTuple):
    """A forecast by lead time: median and standard deviation, as square roots of amounts."""

    middle: Amounts
    deviation: Amounts


Method = Callable[[Amounts, int], Path]


def seasons_of(step: timedelta, length: int) -> tuple[int, ...]:
    """Return the seasonal periods, in steps, that a series of this length can show."""
    if step != HOUR:
        return ()
    return tuple(season for season in (DAY, WEEK) if length > SEASONS_SEEN * season)


def methods_for(step: timedelta, length: int) -> dict[str, Method]:
    """Return the methods that suit a series of this length, by name. The simplest method comes first."""
    seasons = seasons_of(step, length)
    found: dict[str, Method] = {"last value": last_value}
    if seasons:
        found["seasonal naive"] = lambda roots, horizon: seasonal_naive(roots, horizon, season=seasons[-1])
        found["seasonal smoothing"] = lambda roots, horizon: seasonal_smoothing(roots, horizon, seasons=seasons)
    elif length >= ETS_LEAST:
        found["exponential smoothing"] = smoothing
    return found


def last_value(roots: Amounts, horizon: int) -> Path:
    """Repeat the last value."""
    steps = np.diff(roots)
    leads = np.arange(1, horizon + 1)
    return Path(np.full(horizon, roots[-1]), _deviation(steps) * np.sqrt(leads))


def seasonal_naive(roots: Amounts, horizon: int, *, season: int) -> Path:
    """Repeat the last season."""
    ahead = np.arange(horizon)
    differences = roots[season:] - roots[:-season]
    return Path(roots[len(roots) - season + ahead % season], _deviation(differences) * np.sqrt(1 + ahead // season))


def smoothing(roots: Amounts, horizon: int) -> Path:
    """Apply exponential smoothing without a trend."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    if np.ptp(roots) == 0:
        return last_value(roots, horizon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parameters at their bounds are acceptable
        fitted = ETSModel(roots, error="add").fit(disp=False)
    middle = np.asarray(fitted.forecast(horizon), dtype=np.float64)
    alpha = float(fitted.params[0])
    spread = _deviation(np.asarray(fitted.resid)) * np.sqrt(1 + alpha**2 * np.arange(horizon))
    return Path(middle, spread) if np.isfinite(middle).all() else last_value(roots, horizon)


def seasonal_smoothing(roots: Amounts, horizon: int, *, seasons: Sequence[int]) -> Path:
    """Add constant seasons, computed with LOESS, to an exponentially smoothed level."""
    from statsmodels.tsa.seasonal import MSTL

    if np.ptp(roots) == 0:
        return last_value(roots, horizon)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same_throughout = tuple(2 * len(roots) // season * 10 + 11 for season in seasons)
        parts = MSTL(roots, periods=tuple(seasons), windows=same_throughout).fit()
    seasonal = np.asarray(parts.seasonal, dtype=np.float64).reshape(len(roots), -1)
    rest = roots - seasonal.sum(axis=1)
    whole_days = rest[len(rest) % DAY :].reshape(-1, DAY)
    daily = whole_days.mean(axis=1)
    level = smoothing(daily, -(-horizon // DAY)) if len(daily) >= ETS_LEAST else last_value(daily, -(-horizon // DAY))
    ahead = np.arange(horizon)
    away = (whole_days - daily[:, None]).ravel()
    fading = _fading(away)
    near = (rest[-1] - level.middle[0]) * fading ** (ahead + 1)
    repeated = sum(seasonal[len(roots) - season + ahead % season, place] for place, season in enumerate(seasons))
    noise = _deviation(away) ** 2 * (1 - fading ** (2 * (ahead + 1)))
    return Path(level.middle[ahead // DAY] + near + repeated, np.sqrt(level.deviation[ahead // DAY] ** 2 + noise))


def _fading(away: Amounts) -> float:
    power = float((away**2).sum())
    return min(max(float((away[1:] * away[:-1]).sum()) / power, 0.0), 0.99) if power else 0.0


def _deviation(errors: Amounts) -> float:
    return max(float(np.sqrt(np.mean(errors**2))) if len(errors) else 0.0, SMALLEST_DEVIATION)
