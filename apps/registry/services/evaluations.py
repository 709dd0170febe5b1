"""Evaluations on held-out items, supplied by the owner or run by the platform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from django.db import transaction
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from apps.accounts.bodies import SHOWN, unknown_said
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.registry.confidence import GRID, lower_bound
from apps.registry.labelled import split, split_digest
from apps.registry.models import DataSet, Evaluation, ModelFamily, ModelVersion

ITEMS_MAX = 20_000


class Split(BaseModel):
    """The answers for one part of the data, item by item."""

    model_config = ConfigDict(extra="forbid")

    dataset_digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    labels: list[int] = Field(min_length=1, max_length=ITEMS_MAX)
    predicted: list[int] = Field(min_length=1, max_length=ITEMS_MAX)
    confidence: list[Decimal] = Field(min_length=1, max_length=ITEMS_MAX)
    correct: int
    total: int

    @model_validator(mode="after")
    def _counts_agree(self) -> Split:
        if not len(self.labels) == len(self.predicted) == len(self.confidence) == self.total:
            raise ValueError("labels, predicted and confidence must each have `total` entries")
        if self.correct != sum(a == b for a, b in zip(self.labels, self.predicted, strict=True)):
            raise ValueError("`correct` is not the number of items whose prediction is the label")
        if not all(value.is_finite() and 0 <= value <= 1 for value in self.confidence):
            raise ValueError("every confidence must lie between 0 and 1")
        return self

    def to_json(self) -> dict[str, Any]:
        """Return the stored form, with confidences as decimal strings."""
        return {**self.model_dump(), "confidence": [str(value) for value in self.confidence]}


class Splits(BaseModel):
    """The two parts of the data. Thresholds are chosen on `choose` and tested on `evaluate`."""

    model_config = ConfigDict(extra="forbid")

    choose: Split
    evaluate: Split

    @model_validator(mode="after")
    def _are_different(self) -> Splits:
        if self.choose.dataset_digest == self.evaluate.dataset_digest:
            raise ValueError("`choose` and `evaluate` are the same data; a threshold needs data of its own")
        return self


class Document(BaseModel):
    """The format of an evaluation file."""

    model_config = ConfigDict(extra="forbid")

    lower_bound_95: Any = None  # what the owner computed; ours is computed here
    format: str = Field(pattern=r"^takt-evaluation/1$")
    model_sha256: str
    dataset: str = Field(min_length=1, max_length=120)
    metric: str = Field(pattern=r"^accuracy$")
    confidence_output: str = Field(default="", max_length=200)
    splits: Splits


@transaction.atomic
def evaluation_record(*, version: ModelVersion, document: dict[str, Any], actor: User, now: datetime) -> Evaluation:
    """Store an evaluation supplied by the version's owner. Raises Problem(422) if the document contradicts itself or
    belongs to another file.
    """
    parsed = _parse(document)
    if parsed.model_sha256 != version.sha256:
        raise Problem(
            422,
            "Another model's evaluation",
            "The model_sha256 in the document is not the SHA-256 digest of this model file.",
            kind="evaluation-model",
        )
    if parsed.confidence_output and parsed.confidence_output not in {value["name"] for value in version.outputs}:
        raise Problem(
            422, "No such output", f"The model has no output named {parsed.confidence_output!r}.", kind="output-unknown"
        )
    final = parsed.splits.evaluate
    family, _ = ModelFamily.objects.get_or_create(
        organisation=version.organisation,
        dataset_digest=final.dataset_digest,
        metric=parsed.metric,
        defaults={"name": parsed.dataset, "created_at": now},
    )
    bound = lower_bound(final.correct, final.total)
    evaluation, _ = Evaluation.objects.update_or_create(
        family=family,
        model_version=version,
        program_digest="",
        is_host=False,
        defaults={
            "dataset_name": parsed.dataset,
            "dataset_digest": final.dataset_digest,
            "metric": parsed.metric,
            "correct": final.correct,
            "total": final.total,
            "lower_bound": _decimal(bound),
            "confidence_output": parsed.confidence_output,
            "items": {"choose": parsed.splits.choose.to_json(), "evaluate": final.to_json()},
            "created_at": now,
        },
    )
    audit_record(
        action="evaluation.record", now=now, actor=actor, organisation=version.organisation, subject=str(version)[:120]
    )
    return evaluation


class Answered(NamedTuple):
    """A program's answers for every item of a data set, in order. `confidence` holds decimal strings between 0 and 1.

    `output` is the name of the model output that gives the confidence; it is empty if there is none.
    """

    labels: Sequence[int]
    predicted: Sequence[int]
    confidence: Sequence[str]
    output: str


@transaction.atomic
def evaluation_store(
    *,
    data_set: DataSet,
    version: ModelVersion,
    program_digest: str,
    is_host: bool,
    metric: str,
    answered: Answered,
    now: datetime,
    bound: Callable[[dict[str, Any]], Fraction | None] | None = None,
) -> Evaluation:
    """Store the evaluation of a program that the platform ran on a data set.

    `bound` computes the lower bound of the metric from both parts of the data. The default is the lower bound of the
    share of correct answers.
    """
    digest = split_digest(data_set.digest, data_set.seed, data_set.choose)
    family, _ = ModelFamily.objects.get_or_create(
        organisation=data_set.organisation,
        dataset_digest=digest,
        metric=metric,
        defaults={"name": data_set.name, "created_at": now},
    )
    parts = split(data_set.items, seed=data_set.seed, choose=data_set.choose)
    items = {
        name: _part(answered, indices) for name, indices in (("choose", parts.choose), ("evaluate", parts.promise))
    }
    final = items["evaluate"]
    proven = bound(items) if bound is not None else None
    if proven is None:
        proven = lower_bound(final["correct"], final["total"])
    evaluation, _ = Evaluation.objects.update_or_create(
        family=family,
        model_version=version,
        program_digest=program_digest,
        is_host=is_host,
        defaults={
            "dataset_name": data_set.name,
            "dataset_digest": digest,
            "metric": metric,
            "correct": final["correct"],
            "total": final["total"],
            "lower_bound": _decimal(proven),
            "confidence_output": answered.output,
            "items": items,
            "created_at": now,
        },
    )
    return evaluation


def _part(answered: Answered, indices: Iterable[Any]) -> dict[str, Any]:
    chosen = [int(index) for index in indices]
    labels, predicted = [answered.labels[i] for i in chosen], [answered.predicted[i] for i in chosen]
    return {
        "labels": labels,
        "predicted": predicted,
        "confidence": [answered.confidence[i] for i in chosen],
        "correct": sum(a == b for a, b in zip(labels, predicted, strict=True)),
        "total": len(chosen),
    }


def _decimal(bound: Fraction) -> Decimal:
    return Decimal(bound.numerator * (GRID // bound.denominator)).scaleb(-6)


def _parse(document: dict[str, Any]) -> Document:
    try:
        return Document.model_validate(document)
    except ValidationError as error:
        faults = [
            {"field": ".".join(map(str, item["loc"])), "message": _said(item["type"], item["loc"], item["msg"])}
            for item in error.errors()[:20]
        ]
        detail = "; ".join(f"{fault['field']}: {fault['message']}" for fault in faults[:3])
        raise Problem(422, "The evaluation cannot be used", detail, kind="evaluation-invalid", errors=faults) from error


def _said(kind: str, place: tuple[int | str, ...], message: str) -> str:
    if kind != "extra_forbidden":
        return message
    known = (Document, Splits, Split)[min(len(place), 3) - 1].model_fields
    return unknown_said(str(place[-1])[:SHOWN], known)
