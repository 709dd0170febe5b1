"""A job's outputs on its page: a summary of each array, and a preview of one item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from django.core.files.storage import default_storage

from apps.accounts.outages import Unavailable
from apps.dispatch.models import Job, JobStage
from apps.dispatch.previews import NpzFile, Preview, Summary, labels_of, preview, summaries

# What the platform adds to the outputs of a model, by array.
ADDED = {
    "takt_items": "The item number of each row",
    "takt_stage": "The zero-based index of the program whose answer is used",
    "takt_votes": "The number of programs that gave this answer",
}
NOT_READABLE = "The outputs cannot be read at the moment. Try again in a minute."


@dataclass(frozen=True)
class Result:
    """A job's outputs for its page. `item` is the previewed item. If there is no preview, `problem` says why."""

    item: int
    last: int
    problem: str = ""
    summaries: list[Summary] = field(default_factory=list)
    inputs: list[Preview] = field(default_factory=list)
    outputs: list[Preview] = field(default_factory=list)
    answered_by: str = ""

    @property
    def previous(self) -> int | None:
        """The number of the previous item; None for the first item."""
        return self.item - 1 if self.item > 0 else None

    @property
    def following(self) -> int | None:
        """The number of the next item; None for the last item."""
        return self.item + 1 if self.item < self.last else None


def job_result(job: Job, stages: Sequence[JobStage], *, item: str = "") -> Result | None:
    """Return the job's outputs with a preview of one item; None if the job has no outputs.

    `item` is the item's number as text. If `item` is empty, the first item is previewed.
    """
    if not job.outputs_key:
        return None
    last = job.items - 1
    number = int(item) if item.isascii() and item.isdigit() and len(item) < 12 else 0 if not item else -1
    if not 0 <= number <= last:
        problem = f"This job has items 0 to {last:,}." if last else "This job has a single item, number 0."
        return Result(0, last, problem)
    try:
        return _read(job, stages, number)
    except (FileNotFoundError, Unavailable, ValueError):
        return Result(number, last, NOT_READABLE)


def _read(job: Job, stages: Sequence[JobStage], item: int) -> Result:
    with default_storage.open(job.outputs_key) as opened:
        file = NpzFile(opened)
        found, numbers = summaries(file), file.arrays.get("takt_items")
        row = item if numbers is None else file.position(numbers, item)
        if row is None:
            return Result(item, job.items - 1, "This item was not run.", found)
        rows = job.items if numbers is None else numbers.rows
        shown = [one for one in file.arrays.values() if one.rows == rows and one.name not in ADDED]
        outputs = [preview(one.name, file.row(one, row), partial(_labels, stages)) for one in shown]
        answered_by = _answered_by(file, row, stages)
    return Result(item, job.items - 1, "", found, _inputs(job, item), outputs, answered_by)


def _labels(stages: Sequence[JobStage], classes: int) -> list[str]:
    version = stages[0].program.model_version
    if version.deleted_at is not None:
        return []
    try:
        with default_storage.open(version.storage_key) as file:
            return labels_of(file, classes)
    except FileNotFoundError:
        return []


def _answered_by(file: NpzFile, row: int, stages: Sequence[JobStage]) -> str:
    # If only one program ran, the name is omitted.
    if len(stages) < 2 or "takt_stage" not in file.arrays:
        return ""
    position = file.row(file.arrays["takt_stage"], row)
    return stages[int(position or 0)].program.model_version.model.name


def _inputs(job: Job, item: int) -> list[Preview]:
    # Generated inputs are not stored, so they have no previews.
    if not job.inputs_key:
        return []
    with default_storage.open(job.inputs_key) as opened:
        file = NpzFile(opened)
        found = [preview(one.name, file.row(one, item)) for one in file.arrays.values() if one.rows == job.items]
    return [one for one in found if one.kind == "image"]
