"""Forecast demand from usage or traces, with uncertainty and a backtest. The package uses neither Django nor a clock.

>>> from datetime import UTC, datetime
>>> import numpy as np
>>> hours = np.arange(14 * 24)
>>> used = Series(datetime(2026, 3, 2, tzinfo=UTC), HOUR, 50.0 + 40.0 * (hours % 24 > 8))
>>> ahead = forecast(used, horizon=48)
>>> [round(float(ahead.middle[hour])) for hour in (0, 12)]
[50, 90]
>>> headroom_end(ahead, 80.0).middle
datetime.datetime(2026, 3, 16, 9, 0, tzinfo=datetime.timezone.utc)
"""

from apps.reports.forecasting.backtest import Forecast, NotEnough, Plan, Score, forecast, least_steps, plan_of
from apps.reports.forecasting.formats import TraceError
from apps.reports.forecasting.headroom import Headroom, headroom_end
from apps.reports.forecasting.series import HOUR, Series, SeriesError, series_of_events, series_of_hours
from apps.reports.forecasting.traces import TOLERANCE, Trace, trace_read

__all__ = [
    "HOUR",
    "TOLERANCE",
    "Forecast",
    "Headroom",
    "NotEnough",
    "Plan",
    "Score",
    "Series",
    "SeriesError",
    "Trace",
    "TraceError",
    "forecast",
    "headroom_end",
    "least_steps",
    "plan_of",
    "series_of_events",
    "series_of_hours",
    "trace_read",
]
