"""Joins the outputs of a job's stages into one answer per item."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np
from django.core.files.base import File
from django.core.files.storage import default_storage

from apps.accounts.files import file_save
from apps.dispatch import cascade, contracts
from apps.dispatch.contracts import Combination
from apps.dispatch.models import Job, JobStage, LeaseState
from apps.registry.feeds import Joined, arrays_unpack

PREFIXES = ("first", "second", "third")  # for outputs that no output of the first program matches


def stage_outputs(stage: JobStage) -> dict[str, np.ndarray]:
    """Return the outputs of the stage's finished leases, in the order of the items."""
    parts = list(_blocks(stage))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _blocks(stage: JobStage) -> Iterator[dict[str, np.ndarray]]:
    # Only one lease's outputs are in memory at a time.
    for key in stage.leases.filter(state=LeaseState.DONE).order_by("from_item").values_list("outputs_key", flat=True):
        with default_storage.open(key) as file:
            yield arrays_unpack(file.read())


def stage_items(stage: JobStage) -> np.ndarray:
    """Return the job's items that the stage's finished leases processed."""
    ranges = stage.leases.filter(state=LeaseState.DONE).order_by("from_item").values_list("from_item", "count")
    local = np.concatenate([np.arange(start, start + count) for start, count in ranges] or [np.arange(0)])
    if not stage.selection_key:
        return local
    with default_storage.open(stage.selection_key) as file:
        selected: np.ndarray = arrays_unpack(file.read())["items"]
    chosen: np.ndarray = selected[local]
    return chosen


def outputs_assemble(job: Job) -> str:
    """Store the job's outputs as one .npz file and return its key; an empty text if no lease was finished.

    If the job ended early, the array `takt_items` gives the item of each row. For a cascade or an ensemble,
    `takt_stage` gives the program whose answer counts (0, 1 or 2). For an ensemble, `takt_votes` gives the number of
    programs that gave this answer, or 0 if not all programs ran on the item.
    """
    first, *others = list(job.stages.order_by("position"))
    items = stage_items(first)
    if not len(items):
        return ""
    plan = contracts.combination_of(job.contract)
    decided = np.zeros(len(items), np.uint8)
    with Joined(len(items)) as joined, tempfile.TemporaryFile() as file:
        for block in _blocks(first):
            joined.append(block)
        if plan is not None and plan.is_ensemble:
            joined.add("takt_votes", _outvote(joined, plan, [first, *others], items, decided))
        else:
            for stage in others:
                _overrule(joined, stage, items, decided, stage_items(stage))
        if plan is not None or others:
            joined.add("takt_stage", decided)
        if len(items) < job.items:
            joined.add("takt_items", items)
        joined.pack(file)
        file.seek(0)
        return file_save(f"jobs/{job.pk}/outputs.npz", File(file))


def _outvote(
    joined: Joined, plan: Combination, stages: list[JobStage], items: np.ndarray, decided: np.ndarray
) -> np.ndarray:
    """Return the number of votes for each row's answer. Outvoted rows are replaced with the second program's rows."""
    votes = np.zeros(len(items), np.uint8)
    seen = [stage_items(stage) for stage in stages]
    known = seen[0]
    for one in seen[1:]:
        known = np.intersect1d(known, one, assume_unique=True)
    if not len(known) or len(stages) < len(plan.programs):
        return votes
    given = [
        _answers(stage, output)[np.searchsorted(of, known)]
        for stage, output, of in zip(stages, plan.outputs, seen, strict=True)
    ]
    outvoted, counted = cascade.elected(given[0], given[1], given[2])
    votes[np.searchsorted(items, known)] = counted
    _overrule(joined, stages[1], items, decided, known[outvoted])
    return votes


def _answers(stage: JobStage, output: str) -> np.ndarray:
    return np.concatenate([cascade.answers(block[output]) for block in _blocks(stage)])


def _overrule(joined: Joined, stage: JobStage, items: np.ndarray, decided: np.ndarray, chosen: np.ndarray) -> None:
    # Outputs with another name or shape are added as `second_<name>` or `third_<name>`, with one row per chosen item.
    own, at = stage_items(stage), 0
    for block in _blocks(stage):
        count = len(next(iter(block.values())))
        used = np.isin(own[at : at + count], chosen)
        rows = np.searchsorted(items, own[at : at + count][used])
        for name, array in joined.overwrite(rows, {name: array[used] for name, array in block.items()}).items():
            joined.add(f"{PREFIXES[stage.position]}_{name}", array, rows=len(chosen))
        decided[rows] = stage.position
        at += count
