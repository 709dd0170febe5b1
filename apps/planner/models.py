"""Plans: what a task needed, what could do it, and what was chosen."""

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
    """An answer to stated requirements, kept as it was given.

    `requirements`: {"items", "accuracy", "latency", "duration", "budget", "objective", "klass", "completion", "until"}, exact
    numbers as strings: `completion` is the instant until which there had to be room, `until` the same where it was stated.
    `candidates`: every single and the combinations that were judged, the best by the objective first, with price, latency,
    accuracy, the instant at which it would have been done and the reasons that speak against it. `chosen`: the best feasible
    one, with `lines` for a quote ([{"program", "executions", "expected"}]), `pool`, `kind`, and of several `programs` in the
    order in which they run the `outputs` that tell confidences or answers, of a cascade `thresholds` (plans made when two
    programs were the most have `threshold` and `output` alone); None when nothing is feasible.
    `changes`: what could be relaxed then. `basis`: price book, error of each bound and their number, how many combinations were
    `examined` and `judged`, pools of which not all programs were combined (`narrowed`); of a task also `metric` and `data_set`.
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
