"""Evaluates a finished job's outputs with labels that are added later."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import BinaryIO
from uuid import UUID

import numpy as np
from django.core.files.storage import default_storage
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.dispatch.models import Job, JobLabels
from apps.planner.candidates import metric_of, output_of
from apps.planner.metrics import Metric, MetricError, judge
from apps.planner.models import Plan, Task
from apps.registry.feeds import InputError, Limits, arrays_unpack
from apps.registry.labelled import labels_read

LIMITS = Limits()


def job_labels_add(*, job: Job, file: BinaryIO, size: int, actor: User | None, now: datetime) -> JobLabels:
    """Evaluate a finished job's outputs with one label for each item. Later labels replace earlier labels.

    Raises Problem(409) if the job has no outputs or its inputs were generated, Problem(413) if the file is too large,
    and Problem(422) if the labels cannot be used.
    """
    if not job.outputs_key or not job.is_final:
        raise Problem(
            409, "No answers yet", "You can only add labels to a finished job with outputs.", kind="no-outputs"
        )
    if job.seed is not None:
        detail = "The inputs of this job were generated, so they have no labels. Run a job on your own inputs."
        raise Problem(409, "Generated inputs", detail, kind="labels-senseless")
    if size > LIMITS.file_bytes:
        detail = f"The file has {size:,} bytes; at most {LIMITS.file_bytes:,} are allowed."
        raise Problem(413, "File too large", detail, kind="inputs-too-large")
    data = file.read()
    file.seek(0)
    try:
        labels = labels_read(file, LIMITS, items=job.items)
        judged = _judged(job, labels)
    except InputError as error:
        errors = [{"message": sentence} for sentence in error.problems]
        raise Problem(
            422, "The labels cannot be used", " ".join(error.problems), kind="labels-invalid", errors=errors
        ) from error
    except MetricError as error:
        raise Problem(422, "These outputs cannot be scored", str(error), kind="labels-invalid") from error
    return _store(job, judged, hashlib.sha256(data).hexdigest(), actor, now)


def _judged(job: Job, labels: np.ndarray) -> JobLabels:
    with default_storage.open(job.outputs_key) as stored:
        outputs = arrays_unpack(stored.read())
    if "takt_items" in outputs:
        labels = labels[outputs["takt_items"]]
    task = task_of(job.contract.plan_id)
    metric = metric_of(task) if task else Metric("accuracy")
    stage = job.stages.select_related("program").order_by("position")[0]
    name = output_of(task or Task(), stage.program)
    if not metric.needs_labels:
        raise MetricError("The task measures agreement with the float32 model, which labels cannot measure.")
    if name not in outputs:
        raise MetricError(f"The job has no output '{name}'; it has {', '.join(sorted(outputs))}.")
    verdict = judge(metric, outputs[name], name, labels)
    correct = sum(wanted == found for wanted, found in zip(verdict.labels, verdict.predicted, strict=True))
    return JobLabels(job=job, metric=metric.title, output=name, correct=correct, total=len(verdict.labels))


def task_of(plan_id: UUID | None) -> Task | None:
    """Return the task of the contract's plan; None if the contract has no plan."""
    plan = Plan.objects.select_related("task").filter(pk=plan_id).first() if plan_id else None
    return plan.task if plan else None


@transaction.atomic
def _store(job: Job, judged: JobLabels, digest: str, actor: User | None, now: datetime) -> JobLabels:
    values = {
        "digest": digest,
        "metric": judged.metric,
        "output": judged.output,
        "correct": judged.correct,
        "total": judged.total,
        "added_by": actor,
        "added_at": now,
    }
    row, _ = JobLabels.objects.update_or_create(job=job, defaults=values)
    audit_record(
        action="job.labels",
        subject=f"job {job.pk}",
        actor=actor,
        organisation=job.organisation,
        now=now,
        detail={"digest": digest, "correct": row.correct, "total": row.total},
    )
    return row
