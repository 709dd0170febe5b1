"""Tasks and evaluation requests."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.accounts.models import Organisation
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.registry.models import DataSet, Evaluation


class Task(models.Model):
    """A task: labelled data, a metric and the candidate models.

    `versions` are the ids of the candidate model versions. If `versions` is empty, all versions that accept the data
    set's items are candidates. If `output` is empty, the output to judge is chosen automatically.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="tasks")
    name = models.CharField(max_length=120)
    data_set = models.ForeignKey(DataSet, on_delete=models.PROTECT, related_name="tasks")
    metric = models.CharField(max_length=20)
    k = models.PositiveSmallIntegerField(default=1)
    limit = models.DecimalField(max_digits=18, decimal_places=9, null=True, blank=True)
    output = models.CharField(max_length=200, blank=True)
    versions = ArrayField(models.UUIDField(), default=list, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["organisation", "-created_at"], name="task_of_organisation")]

    def __str__(self) -> str:
        return self.name


class EvaluationState(models.TextChoices):
    """The states of an evaluation request. The last three are final."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


OPEN = (EvaluationState.QUEUED, EvaluationState.RUNNING)


class EvaluationRun(models.Model):
    """A request to run a program on a data set, as a job.

    Requests of one `batch` for one pool share a contract. `note` says what an open request is waiting for. `problem`
    says why a request failed.
    """

    State = EvaluationState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="evaluation_runs")
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="runs")
    program = models.ForeignKey(Program, on_delete=models.CASCADE, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    klass = models.CharField(max_length=20)
    batch = models.UUIDField()
    most = models.DecimalField(
        max_digits=72, decimal_places=40
    )  # the price shown for the batch on this pool before the request
    state = models.CharField(max_length=10, choices=EvaluationState, default=EvaluationState.QUEUED)
    note = models.CharField(max_length=400, blank=True)
    problem = models.TextField(blank=True)
    contract_id = models.UUIDField(null=True, blank=True)
    job_id = models.UUIDField(null=True, blank=True)
    evaluation = models.ForeignKey(Evaluation, on_delete=models.SET_NULL, null=True, related_name="+")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    token_id = models.UUIDField(null=True, blank=True)  # the API token of the request, whose spend cap applies
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["task", "program", "pool"],
                condition=Q(state__in=["queued", "running"]),
                name="evaluationrun_open_once",
            ),
            models.CheckConstraint(
                condition=Q(state__in=["queued", "running"], finished_at__isnull=True)
                | Q(state__in=["done", "failed", "cancelled"], finished_at__isnull=False),
                name="evaluationrun_finished_with_its_state",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["state"], name="evaluationrun_open", condition=Q(state__in=["queued", "running"])),
            models.Index(fields=["task", "-created_at"], name="evaluationrun_of_task"),
        ]

    def __str__(self) -> str:
        return f"{self.program_id} on {self.pool_id}: {self.state}"
