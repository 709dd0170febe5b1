"""The data of the portal's charts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.models import Organisation
from apps.portal import selectors
from apps.portal.usage import UsageReport


def usage_chart(report: UsageReport) -> dict[str, Any]:
    """Return the data of the stacked bar chart. Floats are only for drawing."""
    series = [
        {"name": name, "values": [float(report.amount(groups, name)) for _, groups, _ in report.days]}
        for name in report.series
    ]
    days = [day.isoformat() for day, _, _ in report.days]
    return {"unit": report.query.currency, "categories": days, "stacked": True, "series": series}


def credit_chart(changes: list[selectors.CreditChange], currency: str, now: datetime) -> dict[str, Any]:
    """Return the data of the line chart of remaining credits, up to now."""
    points = [(change.at, float(change.left)) for change in changes]
    points += [(max(now, points[-1][0]), points[-1][1])] if points else []
    series = [{"name": "Credits left", "values": [left for _, left in points], "step": True}]
    return {"unit": currency, "times": [at.isoformat() for at, _ in points], "series": series, "days": True}


def credit_charts(organisation: Organisation, now: datetime) -> list[tuple[selectors.CreditHistory, dict[str, Any]]]:
    """Return the credit history in each currency, with the data of its chart."""
    histories = selectors.credit_histories(organisation)
    return [(one, credit_chart(one.changes, one.currency, now)) for one in histories]
