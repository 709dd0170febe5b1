"""When demand is more than there is."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np

from apps.reports.forecasting.backtest import Forecast
from apps.reports.forecasting.series import Amounts


class Headroom(NamedTuple):
    """The starts of the first steps in which the low, the middle and the high forecast exceed the capacity; None: not
    within the forecast. The high one ends first: it is the earliest day to expect, the low one the latest."""

    low: datetime | None
    middle: datetime | None
    high: datetime | None


def headroom_end(forecast: Forecast, capacity: float | Amounts) -> Headroom:
    """Where each of the three lines exceeds `capacity`, an amount for every step or one for each."""
    return Headroom(*(_first(forecast, line, capacity) for line in (forecast.low, forecast.middle, forecast.high)))


def _first(forecast: Forecast, line: Amounts, capacity: float | Amounts) -> datetime | None:
    above = np.flatnonzero(line > capacity)
    return forecast.start + int(above[0]) * forecast.series.step if above.size else None
