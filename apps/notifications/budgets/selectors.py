"""Queries for budgets and alerts."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from apps.accounts.models import Organisation
from apps.ledger.selectors import month_of
from apps.notifications.budgets.services import PERCENTS, used_and_forecasts
from apps.notifications.models import Budget, BudgetAlert
from apps.pricing.rating.decimals import subtract

NEAR = Fraction(3, 4)  # of the budget: from here on it is called near its limit


class BudgetRow(NamedTuple):
    """A budget with the amount used this month and the forecast for the whole month."""

    budget: Budget
    used: Decimal
    forecast: Fraction

    @property
    def share(self) -> Fraction:
        return Fraction(self.used) / Fraction(self.budget.amount)

    @property
    def left(self) -> Decimal:
        return max(subtract(self.budget.amount, self.used), Decimal(0))

    @property
    def status(self) -> str:
        if self.share > 1:
            return "over budget"
        if self.share >= NEAR:
            return "near the limit"
        return "forecast over budget" if self.forecast > Fraction(self.budget.amount) else "within budget"

    @property
    def next_threshold(self) -> int | None:
        return next((percent for percent in PERCENTS if self.share * 100 < percent), None)


def budget_rows(organisation: Organisation, *, now: datetime) -> list[BudgetRow]:
    """Return the budgets with their usage: first those of the organisation, then of projects, then of API tokens."""
    found = Budget.objects.filter(organisation=organisation, deleted_at=None).select_related("project", "token")
    budgets = list(found)
    spent = used_and_forecasts(budgets, now=now)
    rows = [BudgetRow(one, *amounts) for one, amounts in zip(budgets, spent, strict=True)]
    return sorted(
        rows, key=lambda row: (row.budget.project_id is not None, row.budget.token_id is not None, row.budget.scope)
    )


def alert_highest(organisation: Organisation, *, now: datetime) -> BudgetAlert | None:
    """Return this month's alert with the highest threshold; None if there are no alerts."""
    month = month_of(now)[0].date()
    alerts = BudgetAlert.objects.filter(budget__organisation=organisation, budget__deleted_at=None, month=month)
    return alerts.select_related("budget__project", "budget__token").order_by("-percent", "kind", "at").first()
