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
    """A plan: stated requirements and the result. A stored plan never changes.

    `requirements`: {"items", "accuracy", "latency", "duration", "budget", "objective", "klass", "completion", "until"}
    with exact numbers as strings. `completion` is the deadline that applied. `until` is the stated deadline, if any.

    `candidates`: every single program and the tested combinations, sorted by the objective, the best first. Each has
    its price, latency, accuracy, completion and the reasons against it.

    `chosen`: the best feasible candidate, or None. It has `pool`, `kind`, and `lines` for a quote ([{"program",
    "executions", "expected"}]). A combination also has `programs` in the order in which they run, and `outputs` that
    give confidences or answers. A cascade has `thresholds`. Older plans of two programs have `threshold` and `output`
    instead.

    `changes`: requirements to relax if nothing is feasible.

    `basis`: the price book, the error, the number of bounds, the numbers of combinations that were `examined` and
    `judged`, the pools on which only some programs were combined (`narrowed`), and the compiles under way
    (`compiling`). The basis of a task's plan also has `metric` and `data_set`.
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
