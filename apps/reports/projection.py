"""Project a pool's utilisation, headroom and waiting times under a given demand."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from apps.planner.datacenter import (
    SECOND,
    DeviceType,
    Placed,
    Program,
    Requests,
    Scenario,
    simulate,
)
from apps.reports.forecasting import NotEnough, Series, forecast, headroom_end

HORIZON = 28 * 24
WEEK = 168
DAY_SECONDS = 86_400
REQUESTS_MOST = 200_000  # of a simulated day; with more requests the simulation ends earlier
SEED = 1


@dataclass(frozen=True, eq=False)
class ProjectionInput:
    """The inputs of a projection. `power` multiplies the current speed, and `factor` multiplies the current demand.
    `used` holds the device seconds used in each hour. `request_seconds` is the device time of one request. `seconds` is
    the number of requests in each second of a day; None without a trace.
    """

    devices: int
    power: float
    used: Series | None
    request_seconds: float
    factor: float = 1.0
    seconds: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None


@dataclass(frozen=True)
class Projection:
    """The result of a projection. `by_hour` is the share of device time used in each hour of the week (UTC, from
    Monday). `headroom` holds the times at which headroom ends, and `waits` holds the waiting times in seconds. A value
    is None if unknown.
    """

    devices: int
    mean: float | None
    peak: float | None
    by_hour: list[float | None]
    headroom: dict[str, str | None] | None
    waits: dict[str, float] | None
    unserved: int

    def to_json(self) -> dict[str, Any]:
        """Return the projection in its stored form."""
        return asdict(self)


def project(inputs: ProjectionInput) -> Projection:
    """Return the projection of a pool."""
    scaled = None if inputs.used is None else inputs.used.scaled(inputs.factor / inputs.power)
    capacity = inputs.devices * 3600.0
    mean = peak = None
    by_hour: list[float | None] = [None] * WEEK
    if scaled is not None and capacity:
        shares = scaled.values[-4 * WEEK :] / capacity
        mean, peak = float(shares.mean()), float(shares.max())
        by_hour = _by_hour(scaled, shares)
    waits, unserved = _waits(inputs, scaled)
    return Projection(inputs.devices, mean, peak, by_hour, _headroom(scaled, capacity), waits, unserved)


def _by_hour(series: Series, shares: np.ndarray[Any, Any]) -> list[float | None]:
    first = series.end - len(shares) * series.step
    place = (first.weekday() * 24 + first.hour + np.arange(len(shares))) % WEEK
    sums, counts = np.bincount(place, weights=shares, minlength=WEEK), np.bincount(place, minlength=WEEK)
    return [round(float(total / count), 6) if count else None for total, count in zip(sums, counts, strict=True)]


def _headroom(series: Series | None, capacity: float) -> dict[str, str | None] | None:
    if series is None or not series.values.any():
        return None
    try:
        ends = headroom_end(forecast(series, horizon=HORIZON), capacity)
    except NotEnough:
        return None
    return {name: None if end is None else end.isoformat() for name, end in zip(ends._fields, ends, strict=True)}


def _waits(inputs: ProjectionInput, scaled: Series | None) -> tuple[dict[str, float] | None, int]:
    requests, until = _requests(inputs, scaled)
    if requests is None or not inputs.request_seconds:
        return None, 0
    if not inputs.devices:
        return None, len(requests.at)
    cycles = max(1, round(inputs.request_seconds / inputs.power * SECOND))
    device = DeviceType("device", inputs.devices, SECOND, 1, SECOND, 0, 0)
    scenario = Scenario((device,), (Program("all", cycles, cycles, 0),), requests, until=until)
    report = simulate(scenario, [Placed(0, (0,))] * inputs.devices)
    ranks = {"p50": report.wait_p50, "p95": report.wait_p95, "p99": report.wait_p99}
    waits = {name: wait / SECOND for name, wait in ranks.items()} if report.served else None
    return waits, report.waiting


def _requests(inputs: ProjectionInput, scaled: Series | None) -> tuple[Requests | None, int]:
    dice = np.random.default_rng(SEED)
    if inputs.seconds is not None:
        rates, width = inputs.seconds * inputs.factor, SECOND
    elif scaled is not None and inputs.request_seconds:
        own = inputs.used.values[-24:] if inputs.used is not None else np.zeros(0)
        rates, width = own * inputs.factor / inputs.request_seconds, 3600 * SECOND
    else:
        return None, 0
    counts = dice.poisson(np.minimum(rates, 2.0 * REQUESTS_MOST))
    kept = int(np.searchsorted(np.cumsum(counts), REQUESTS_MOST, side="right"))
    counts = counts[: max(1, kept)]
    total = min(int(counts.sum()), REQUESTS_MOST)
    if not total:
        return None, 0
    at = np.sort(np.repeat(np.arange(len(counts)) * width, counts)[:total] + dice.integers(0, width, total))
    none = np.zeros(total, dtype=np.int64)
    return Requests(at.astype(np.int64), none, none + 1), len(counts) * width
