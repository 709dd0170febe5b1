"""Compile jobs and the programs that they produce."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from apps.accounts.models import Organisation
from apps.compilation.options import keeps_state
from apps.registry.models import ModelVersion

NOTHING = models.Value({}, models.JSONField())


class Precision(models.TextChoices):
    """The number format in which a program computes."""

    FLOAT32 = "float32", "float32"
    FLOAT16 = "float16", "float16"
    BFLOAT16 = "bfloat16", "bfloat16"
    INT8 = "int8", "int8"


class CompileState(models.TextChoices):
    QUEUED = "queued", "Waiting"
    RUNNING = "running", "Compiling"
    DONE = "done", "Compiled"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class CompileRequest(models.Model):
    """Compiles of one version that were requested together: one job for each processor and precision.

    `told_at` is when the requester was notified that all jobs have ended. `mail` is True if the requester also wants an
    e-mail.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="compile_requests")
    model_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="compile_requests")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    mail = models.BooleanField(default=False)
    created_at = models.DateTimeField()
    told_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["created_at"], condition=Q(told_at__isnull=True), name="compilerequest_untold"),
        ]

    def __str__(self) -> str:
        return f"compiles of {self.model_version_id}"


class CompileJob(models.Model):
    """The compile of a model version for one target, with one program for each bucket (combination of sizes).

    `epoch` is a fencing token: a worker with an older epoch can't change the row. `calibration_key` is the storage key
    of the uploaded examples, or empty.
    """

    State = CompileState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="compile_jobs")
    model_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="compile_jobs")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    request = models.ForeignKey(CompileRequest, on_delete=models.PROTECT, null=True, blank=True, related_name="jobs")
    target = models.CharField(max_length=60)
    precision = models.CharField(max_length=10, choices=Precision, default=Precision.FLOAT32)
    dims = models.JSONField(default=dict)
    constants = models.JSONField(default=dict)
    options = models.JSONField(default=dict, db_default=NOTHING)
    calibration_key = models.CharField(max_length=200, blank=True)
    calibration_digest = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=State, default=State.QUEUED)
    stage = models.CharField(max_length=20, blank=True)
    stages = models.JSONField(default=list)
    epoch = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    program_ids = ArrayField(models.UUIDField(), default=list)
    error = models.JSONField(null=True, blank=True)
    compares_with = models.ForeignKey(
        "Program", on_delete=models.PROTECT, null=True, blank=True, related_name="comparisons"
    )
    comparison = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["organisation", "-created_at"], name="compile_of_organisation"),
            models.Index(
                fields=["heartbeat_at"], condition=Q(state__in=["queued", "running"]), name="compile_unfinished"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model_version_id} for {self.target}: {self.state}"

    @property
    def is_finished(self) -> bool:
        return self.state in {self.State.DONE, self.State.FAILED, self.State.CANCELLED}


class OwnProcessor(models.Model):
    """A custom processor of an organisation. `text` is the content of the uploaded file."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="own_processors")
    name = models.CharField(max_length=60)
    title = models.CharField(max_length=200)
    digest = models.CharField(max_length=64)
    text = models.TextField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["organisation", "name"], name="ownprocessor_once")]

    def __str__(self) -> str:
        return f"{self.name} of {self.organisation_id}"


class Program(models.Model):
    """A compiled binary and the facts about it. The row never changes.

    `digest` is the SHA-256 of the binary. `resources` holds the compiler's counts. `accuracy` holds the quantisation
    error against float32; empty for float32. `executed` holds the counters of the verification run; empty if the counts
    are exact.

    `options` are as in `apps.compilation.options`. `sequence` says, for a program that continues a sequence, how many
    `tokens` one execution adds, its `kind` (decode or prefill) and its `context`; it is empty for other programs.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="programs")
    model_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="programs")
    compile_job = models.ForeignKey(CompileJob, on_delete=models.PROTECT, related_name="programs")
    target = models.CharField(max_length=60)
    target_digest = models.CharField(max_length=64)
    precision = models.CharField(max_length=10, choices=Precision)
    dims = models.JSONField(default=dict)
    constants = models.JSONField(default=dict)
    options = models.JSONField(default=dict, db_default=NOTHING)
    sequence = models.JSONField(default=dict, db_default=NOTHING)
    options_digest = models.CharField(max_length=64)
    compiler_version = models.CharField(max_length=40)
    digest = models.CharField(max_length=64, db_index=True)
    binary_bytes = models.BigIntegerField()
    binary_key = models.CharField(max_length=200)
    report_key = models.CharField(max_length=200)
    inputs = models.JSONField()
    outputs = models.JSONField()
    resources = models.JSONField()
    bounds = models.JSONField()
    accuracy = models.JSONField(default=dict)
    calibration_digest = models.CharField(max_length=64, blank=True)
    executed = models.JSONField(default=dict)
    exact = models.BooleanField()
    reason = models.CharField(max_length=400, blank=True)
    latency_cycles = models.BigIntegerField()
    interval_cycles = models.BigIntegerField()
    clock_hz = models.BigIntegerField()
    operations = models.BigIntegerField()
    executed_operations = models.BigIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["model_version", "target_digest", "precision", "options_digest", "compiler_version"],
                name="program_once",
            ),
            models.CheckConstraint(
                condition=Q(latency_cycles__gt=0, interval_cycles__gt=0, clock_hz__gt=0, operations__gte=0),
                name="program_counts",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.digest[:12]} for {self.target}"

    @property
    def keeps_state(self) -> bool:
        """Whether values stay on the processor from one execution to the next."""
        return keeps_state(self.options)

    @property
    def runs_on_host(self) -> bool:
        """Whether a host pool can run the program: it runs the model itself, in float32 and without states."""
        return self.precision == Precision.FLOAT32 and not self.keeps_state
