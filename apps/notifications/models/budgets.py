"""Budgets and budget alerts."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models

from apps.accounts.models import ApiToken, Organisation
from apps.registry.models import Project


def _amount() -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=72, decimal_places=40)


class Budget(models.Model):
    """A monthly budget (UTC) of the organisation, a project or an API token."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="budgets")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    amount = _amount()
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "billing_budget"
        ordering = ["created_at", "id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="budget_is_something"),
            models.CheckConstraint(
                condition=models.Q(project__isnull=True) | models.Q(token__isnull=True), name="budget_one_scope"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} a month"

    @property
    def scope(self) -> str:
        if self.project is not None:
            return f"project {self.project.name}"
        return f"API token {self.token.name}" if self.token is not None else "the whole organisation"


class AlertKind(models.TextChoices):
    """The kind of usage that reached the threshold: actual or forecast."""

    ACTUAL = "actual", "Actual usage"
    FORECAST = "forecast", "Forecast for the month"


class BudgetAlert(models.Model):
    """An alert that usage reached a threshold, sent at most once a month for each kind and percentage of a budget."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, related_name="alerts")
    month = models.DateField()
    kind = models.CharField(max_length=10, choices=AlertKind)
    percent = models.PositiveSmallIntegerField()
    used = _amount()
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "budget__organisation"

    class Meta:
        db_table = "billing_budgetalert"
        ordering = ["-at", "-percent", "id"]
        constraints = [
            models.UniqueConstraint(fields=["budget", "month", "kind", "percent"], name="budgetalert_once"),
        ]

    def __str__(self) -> str:
        return f"{self.percent} % {self.kind}"
