"""Deletes artefacts and calibration files that no row refers to."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.files import files_sweep
from apps.compilation import selectors
from apps.compilation.models import CompileJob, Program


def program_files_sweep(*, now: datetime) -> int:
    """Delete the files of deleted programs and compiles, and return the number of deleted files."""
    return files_sweep("programs", _artefacts, now=now) + files_sweep("calibrations", _calibrations, now=now)


def _artefacts(keys: list[str]) -> list[str]:
    binaries = {key: f"{key.rpartition('/')[0]}/{selectors.BINARY}" for key in keys}
    found = Program.objects.filter(binary_key__in=[*binaries.values(), *keys]).values_list("binary_key", flat=True)
    places = {binary.rpartition("/")[0] for binary in found}
    return [key for key in keys if key.rpartition("/")[0] in places]


def _calibrations(keys: list[str]) -> list[str]:
    return list(CompileJob.objects.filter(calibration_key__in=keys).values_list("calibration_key", flat=True))
