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
    """The stored result for stated requirements; it never changes.

    `requirements`: {"items", "accuracy", "latency", "duration", "budget", "objective", "klass", "completion", "until"}
    with exact numbers as strings: `completion` is the deadline that applied, and `until` is the stated deadline, if
    any. `candidates`: every single program and the tested combinations, the best by the objective first, with price,
    latency, accuracy, completion and the reasons against it. `chosen`: the best feasible one or None, with `lines` for
    a quote ([{"program", "executions", "expected"}]), `pool`, `kind` and, for combinations, `programs` in the order in
    which they run, `outputs` that give confidences or answers, and the `thresholds` of a cascade (older plans of two
    programs have `threshold` and `output`). `changes`: requirements to relax if nothing is feasible. `basis`: price
    book, error and number of bounds, how many combinations were `examined` and `judged`, pools on which only some
    programs were combined (`narrowed`), compiles under way (`compiling`) and, for a task, `metric` and `data_set`.
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
