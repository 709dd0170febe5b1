"""Models, their versions and evaluations, data sets, and uploads."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from apps.accounts.models import Organisation


class Project(models.Model):
    """A group of models. Usage can be summed by project."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="projects")
    name = models.CharField(max_length=80)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organisation", "name"], name="project_name_once")]

    def __str__(self) -> str:
        return self.name


class UploadState(models.TextChoices):
    OPEN = "open", "Receiving"
    QUEUED = "queued", "Waiting for its check"
    CHECKING = "checking", "Being checked"
    READY = "ready", "Stored as a version"
    REFUSED = "refused", "Refused"


FINISHED = (UploadState.READY, UploadState.REFUSED)


class Upload(models.Model):
    """A file that arrives in chunks and is then checked by a worker.

    `attempts` counts the checks that were started. `refusal` is a problem document.
    """

    State = UploadState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="uploads")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    project_name = models.CharField(max_length=80, default="Default")
    name = models.CharField(max_length=120)
    filename = models.CharField(max_length=200)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, blank=True)
    received = models.BigIntegerField(default=0)
    state = models.CharField(max_length=10, choices=State, default=State.OPEN)
    queued_at = models.DateTimeField(null=True, blank=True)
    checking_since = models.DateTimeField(null=True, blank=True)
    seen_at = models.DateTimeField(null=True, blank=True)  # the last sign of life of the worker that checks it
    attempts = models.PositiveSmallIntegerField(default=0)
    finished_at = models.DateTimeField(null=True, blank=True)
    version = models.ForeignKey("ModelVersion", on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    is_new = models.BooleanField(default=False)
    refusal = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(size__gt=0), name="upload_not_empty"),
            models.CheckConstraint(condition=Q(received__gte=0, received__lte=F("size")), name="upload_within_size"),
        ]
        indexes = [
            models.Index(
                fields=["state"],
                name="upload_in_line",
                condition=Q(state__in=[UploadState.QUEUED, UploadState.CHECKING]),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.filename} {self.received}/{self.size}"

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED


class UploadPart(models.Model):
    """One chunk of an upload, stored as a separate object."""

    id = models.BigAutoField(primary_key=True)
    upload = models.ForeignKey(Upload, on_delete=models.CASCADE, related_name="parts")
    offset = models.BigIntegerField()
    size = models.IntegerField()
    storage_key = models.CharField(max_length=200)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["upload", "offset"], name="upload_part_once")]

    def __str__(self) -> str:
        return f"{self.offset}+{self.size}"


class Model(models.Model):
    """A named model with one or more versions."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="models")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="models")
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organisation", "name"], name="model_name_once")]

    def __str__(self) -> str:
        return self.name


class VersionState(models.TextChoices):
    READY = "ready", "Ready"
    DELETED = "deleted", "Deleted"


class ModelVersion(models.Model):
    """A checked and stored file of a model, identified by organisation and digest.

    `symbolic_dims` lists the variable dimensions. `operators` counts the nodes by operator. `problems` holds remarks
    that do not prevent compiling. `deleted_at` is the time at which the file was deleted; the row is kept while
    programs made from the version exist.
    """

    State = VersionState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="model_versions")
    model = models.ForeignKey(Model, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    sha256 = models.CharField(max_length=64)
    size = models.BigIntegerField()
    filename = models.CharField(max_length=200)
    storage_key = models.CharField(max_length=200)
    state = models.CharField(max_length=10, choices=State, default=State.READY)
    opset = models.PositiveIntegerField()
    producer = models.CharField(max_length=120, blank=True)
    description = models.CharField(max_length=400, blank=True)
    parameters = models.BigIntegerField(default=0)
    inputs = models.JSONField()
    outputs = models.JSONField()
    symbolic_dims = models.JSONField(default=list)
    operators = models.JSONField(default=dict)
    problems = models.JSONField(default=list)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["model", "number"], name="version_number_once"),
            models.UniqueConstraint(
                fields=["organisation", "sha256"], condition=Q(deleted_at__isnull=True), name="version_digest_once"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.number}"


class DataSet(models.Model):
    """Labelled items on which the platform evaluates programs.

    `label_shape` is [] for one class per item, [positions] for several classes, and None without labels. `classes` is
    the largest label plus one. `choose` is the number of items for choosing; the other items prove the accuracy.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="data_sets")
    name = models.CharField(max_length=120)
    digest = models.CharField(max_length=64)
    items = models.PositiveIntegerField()
    inputs = models.JSONField()
    label_shape = models.JSONField(null=True)
    classes = models.PositiveIntegerField(default=0)
    seed = models.PositiveBigIntegerField()
    choose = models.PositiveIntegerField()
    size = models.BigIntegerField()
    storage_key = models.CharField(max_length=200)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "digest", "seed", "choose"],
                condition=Q(deleted_at__isnull=True),
                name="dataset_once",
            ),
            models.CheckConstraint(condition=Q(choose__gt=0, choose__lt=F("items")), name="dataset_has_two_parts"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def promise(self) -> int:
        """The number of items that prove the promised accuracy."""
        return self.items - self.choose


class ModelFamily(models.Model):
    """Versions for the same task, evaluated on the same data with the same metric."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="model_families")
    name = models.CharField(max_length=120)
    metric = models.CharField(max_length=240)
    dataset_digest = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "dataset_digest", "metric"], name="family_of_data_once")
        ]

    def __str__(self) -> str:
        return self.name


class Evaluation(models.Model):
    """A version's answers on held-out items, which were not used to train the version.

    `items` has the parts `choose` and `evaluate`, each with the label, prediction and confidence of every item.
    `program_digest` is empty if the customer supplied the answers. If `is_host` is True, the program ran on a host
    pool.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    family = models.ForeignKey(ModelFamily, on_delete=models.PROTECT, related_name="evaluations")
    model_version = models.ForeignKey(ModelVersion, on_delete=models.PROTECT, related_name="evaluations")
    dataset_name = models.CharField(max_length=120)
    dataset_digest = models.CharField(max_length=64)
    metric = models.CharField(max_length=240)
    correct = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    lower_bound = models.DecimalField(max_digits=7, decimal_places=6)
    program_digest = models.CharField(max_length=64, blank=True)
    is_host = models.BooleanField(default=False)
    confidence_output = models.CharField(max_length=200, blank=True)
    items = models.JSONField()
    created_at = models.DateTimeField()

    organisation_path: ClassVar[str] = "family__organisation"

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["family", "model_version", "program_digest", "is_host"], name="evaluation_once"
            ),
            models.CheckConstraint(condition=Q(correct__lte=F("total"), total__gt=0), name="evaluation_counts"),
        ]

    def __str__(self) -> str:
        return f"{self.correct}/{self.total} {self.metric}"

    @property
    def is_stated(self) -> bool:
        """Whether the customer supplied the evaluation."""
        return not self.program_digest
