"""Read models, versions, evaluations and uploads."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db.models import Max, Prefetch, QuerySet

from apps.accounts.models import Organisation
from apps.registry.feeds import arrays_unpack
from apps.registry.labelled import LABELS, Labelled
from apps.registry.line import Waiting, line_of
from apps.registry.models import DataSet, Evaluation, Model, ModelFamily, ModelVersion, Project, Upload, UploadState

SAMPLES_FOLDER = Path(settings.BASE_DIR) / "samples"


@dataclass(frozen=True)
class Sample:
    """A sample model that the user can add with one click."""

    slug: str
    title: str
    text: str

    @property
    def model_path(self) -> Path:
        return SAMPLES_FOLDER / f"{self.slug}.onnx"

    def evaluation(self) -> dict[str, Any]:
        """Return the sample's evaluation document."""
        document: dict[str, Any] = json.loads((SAMPLES_FOLDER / f"{self.slug}.evaluation.json").read_text())
        return document


SAMPLES = (
    Sample(
        "digits-small",
        "Digits, small",
        "Softmax regression on 8 × 8 handwritten digits. Cheap, but a little less accurate.",
    ),
    Sample("digits-large", "Digits, large", "Two convolutions on the same digits. The most accurate of the three."),
    Sample(
        "digits-batch",
        "Digits, any batch",
        "One hidden layer and a variable batch size, so you choose the sizes to compile for.",
    ),
)


def versions_present() -> QuerySet[ModelVersion]:
    """Return the versions whose file still exists."""
    return ModelVersion.objects.filter(deleted_at__isnull=True).select_related("model", "model__project")


def models_list(*, organisation: Organisation, project: str = "", text: str = "") -> QuerySet[Model]:
    """Return the models that have a file, sorted by name. The attribute `present` of a model lists the existing
    versions, newest first.
    """
    found = (
        Model.objects.filter(organisation=organisation, versions__deleted_at__isnull=True).distinct().order_by("name")
    )
    if project:
        found = found.filter(project__name=project)
    if text:
        found = found.filter(name__icontains=text)
    stated = Prefetch("evaluations", queryset=Evaluation.objects.filter(program_digest=""))
    newest = versions_present().prefetch_related(stated).order_by("-number")
    return found.select_related("project").prefetch_related(Prefetch("versions", queryset=newest, to_attr="present"))


def projects_list(*, organisation: Organisation) -> QuerySet[Project]:
    """Return the organisation's projects, sorted by name."""
    return Project.objects.filter(organisation=organisation).order_by("name")


def version_of_digest(*, organisation: Organisation, sha256: str) -> ModelVersion | None:
    """Return the organisation's version with this digest; None if there is none."""
    return versions_present().filter(organisation=organisation, sha256=sha256).first()


def line_now() -> list[tuple[UUID, UUID]]:
    """Return (upload id, organisation id) for all waiting uploads, in the order of their checks."""
    rows = Upload.objects.filter(state=UploadState.QUEUED)
    columns = ("id", "organisation_id", "queued_at", "created_at")
    waiting = [Waiting(pk, owner, queued or created) for pk, owner, queued, created in rows.values_list(*columns)]
    owners = {one.upload_id: one.organisation_id for one in waiting}
    known = Upload.objects.filter(organisation_id__in=set(owners.values()), checking_since__isnull=False)
    turns = known.order_by().values_list("organisation_id").annotate(last=Max("checking_since"))
    return [(pk, owners[pk]) for pk in line_of(waiting, dict(turns))]


def upload_place(upload: Upload) -> int | None:
    """Return the position of an upload in the queue, from 1; None if the upload is not waiting."""
    if upload.state != UploadState.QUEUED:
        return None
    return next((place for place, (pk, _) in enumerate(line_now(), start=1) if pk == upload.pk), None)


REPORTED = ("opset", "producer", "description", "parameters", "inputs", "outputs", "symbolic_dims", "operators")


def report_of_digest(sha256: str) -> dict[str, Any] | None:
    """Return the check report of any organisation's file with this digest; None if there is none. Call this function
    only for the public sample models.
    """
    found = ModelVersion.objects.filter(sha256=sha256).values("model__name", *REPORTED).first()
    return {**found, "name": found["model__name"]} if found else None


def modelversion_open(version: ModelVersion) -> File[bytes]:
    """Open the version's file. Raises FileNotFoundError if the file was deleted."""
    if version.deleted_at is not None:
        raise FileNotFoundError(f"The file of {version} was deleted.")
    return default_storage.open(version.storage_key, "rb")


def modelversion_bytes(version: ModelVersion) -> bytes:
    """Return the bytes of the version's file. Raises FileNotFoundError if the file was deleted."""
    with modelversion_open(version) as stored:
        data: bytes = stored.read()
    return data


def modelversion_save(version: ModelVersion, path: Path) -> None:
    """Write the version's file to a path, piece by piece. Raises FileNotFoundError if the file was deleted."""
    with modelversion_open(version) as stored, path.open("wb") as file:
        shutil.copyfileobj(stored, file, 2**20)


def evaluation_of(version: ModelVersion) -> Evaluation | None:
    """Return the newest evaluation supplied by the version's owner; None if there is none."""
    return version.evaluations.filter(program_digest="").select_related("family").order_by("-created_at").first()


def family_of(version: ModelVersion) -> ModelFamily | None:
    """Return the family of a version; None if the owner supplied no evaluation."""
    evaluation = evaluation_of(version)
    return evaluation.family if evaluation else None


def family_evaluations(family_id: UUID) -> list[Evaluation]:
    """Return the owner-supplied evaluations of the family's existing versions, from the least to the most accurate."""
    rows = Evaluation.objects.filter(family_id=family_id, model_version__deleted_at__isnull=True, program_digest="")
    return list(rows.select_related("model_version__model").order_by("lower_bound", "model_version__model__name"))


def data_sets(*, organisation: Organisation) -> QuerySet[DataSet]:
    """Return the organisation's data sets whose files still exist, newest first."""
    return DataSet.objects.filter(organisation=organisation, deleted_at=None).order_by("-created_at", "-id")


def data_set_read(data_set: DataSet) -> Labelled:
    """Read the items of a data set. Raises FileNotFoundError if the file was deleted."""
    if data_set.deleted_at is not None:
        raise FileNotFoundError(f"The file of {data_set} was deleted.")
    with default_storage.open(data_set.storage_key, "rb") as stored:
        arrays = arrays_unpack(stored.read())
    labels = arrays.pop(LABELS, None)
    return Labelled(arrays, labels)
