"""Plans: their requirements, their candidates and the recommended candidate."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.planner.hosting_models import OwnMachine, PlaceMeasurement, PriceListFile, RentedPrice
from apps.planner.task_models import EvaluationRun, EvaluationState, Task
from apps.registry.models import ModelVersion

__all__ = [
    "EvaluationRun",
    "EvaluationState",
    "OwnMachine",
    "PlaceMeasurement",
    "Plan",
    "PriceListFile",
    "RentedPrice",
    "Task",
]


class Plan(models.Model):
    """A plan: the stated requirements and the result. A stored plan never changes.

    `candidates` are sorted by the objective, the best first. `chosen` is the best feasible candidate, or None.
    `changes` are requirements to relax if no candidate is feasible. `apps.planner.plan_json` writes the JSON. In older
    plans of two programs, `chosen` has `threshold` and `output` instead of `thresholds` and `outputs`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="plans")
    model_version = models.ForeignKey(ModelVersion, on_delete=models.SET_NULL, null=True, related_name="plans")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, null=True, related_name="plans")
    title = models.CharField(max_length=200)
    requirements = models.JSONField()
    candidates = models.JSONField()
    chosen = models.JSONField(null=True)
    changes = models.JSONField(default=list)
    basis = models.JSONField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["organisation", "-created_at"], name="plan_of_organisation")]

    def __str__(self) -> str:
        return self.title
