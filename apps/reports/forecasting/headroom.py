"""Find when demand exceeds capacity."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np

from apps.reports.forecasting.backtest import Forecast
from apps.reports.forecasting.series import Amounts


class Headroom(NamedTuple):
    """The first step in which each forecast line exceeds the capacity. A value is None if the line stays within the
    capacity.
    """

    low: datetime | None
    middle: datetime | None
    high: datetime | None


def headroom_end(forecast: Forecast, capacity: float | Amounts) -> Headroom:
    """Return the first step in which each line exceeds `capacity`. `capacity` is one amount for all steps, or one
    amount per step.
    """
    return Headroom(*(_first(forecast, line, capacity) for line in (forecast.low, forecast.middle, forecast.high)))


def _first(forecast: Forecast, line: Amounts, capacity: float | Amounts) -> datetime | None:
    above = np.flatnonzero(line > capacity)
    return forecast.start + int(above[0]) * forecast.series.step if above.size else None
