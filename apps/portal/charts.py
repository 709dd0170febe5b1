"""Data of the portal's charts. The tables beside the charts hold the exact figures."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.models import Organisation
from apps.portal import selectors
from apps.portal.usage import Report


def chart_of(report: Report) -> dict[str, Any]:
    """Stacked bars for the chart; the table beside it holds the exact figures."""
    series = [
        {"name": name, "values": [float(report.amount(parts, name)) for _, parts, _ in report.days]}
        for name in report.names
    ]
    days = [day.isoformat() for day, _, _ in report.days]
    return {"unit": report.ask.currency, "categories": days, "stacked": True, "series": series}


def burn_chart(steps: list[selectors.BurnStep], currency: str, now: datetime) -> dict[str, Any]:
    """What is left of all credits over time, until now, for the line chart; its table names every step."""
    points = [(step.at, float(step.left)) for step in steps]
    points += [(max(now, points[-1][0]), points[-1][1])] if points else []
    series = [{"name": "Credits left", "values": [left for _, left in points], "step": True}]
    return {"unit": currency, "times": [at.isoformat() for at, _ in points], "series": series, "days": True}


def burn_charts(organisation: Organisation, now: datetime) -> list[tuple[selectors.Burn, dict[str, Any]]]:
    """How the credits of each currency are used up, and what its chart draws."""
    return [(one, burn_chart(one.steps, one.currency, now)) for one in selectors.burns(organisation)]
