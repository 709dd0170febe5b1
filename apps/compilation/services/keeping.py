"""Stores the result of a compile, and compares the result with earlier compiles.

The artefacts are stored before the row.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db import transaction

from apps.accounts.files import file_drop, file_save, file_transaction
from apps.compilation import selectors
from apps.compilation.models import CompileJob, Program

PIECE_BYTES = 2**20
ARTEFACTS = (
    selectors.BINARY,
    selectors.REPORT,
    selectors.TRACE,
    selectors.ASSEMBLY,
    selectors.RANGES,
    selectors.GRAPH,
)


class NotDeterministic(Exception):
    """Raised if the same model, options and compiler produced different bytes. `error` holds the facts."""

    def __init__(self, program: Program, digest: str) -> None:
        text = (
            f"This compile produced the digest {digest[:16]}, but an earlier compile of the same model produced "
            f"{program.digest[:16]}. Equal inputs must produce equal bytes, so this is a defect in Takt. The new program was "
            "not stored."
        )
        super().__init__(text)
        self.error = {"kind": "not-deterministic", "message": text, "expected": program.digest, "digest": digest}


def options_digest(
    dims: dict[str, int], constants: dict[str, Any], calibration: str = "", options: dict[str, Any] | None = None
) -> str:
    """Return the digest of the compile options. `calibration` is the digest of the example inputs."""
    stated: dict[str, Any] = {"constants": constants, "dims": dims}
    stated |= {name: one for name, one in (("calibration", calibration), ("options", options)) if one}
    text = json.dumps(stated, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def program_keep(
    *, job: CompileJob, epoch: int, dims: dict[str, int], folder: Path, facts: dict[str, Any], now: datetime
) -> Program | None:
    """Store the artefacts in `folder` and the program's row. Return the existing row if the program is already stored.

    Return None if the job was fenced. Raises NotDeterministic if an earlier compile produced different bytes.
    """
    with (folder / selectors.BINARY).open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
    if digest != facts["digest"]:
        raise ValueError("The binary does not match the digest that the compiler stated.")
    for earlier in range(1, epoch):
        _orphans_delete(_place(job, earlier, dims))
    place = _place(job, epoch, dims)
    keys: dict[str, str] = {}
    with file_transaction():
        for name in ARTEFACTS:
            if (folder / name).exists():  # only a narrow precision has ranges, and a huge graph no text
                with (folder / name).open("rb") as file:
                    keys[name] = file_save(f"{place}/{name}", File(file))
        program, is_new = _row(job, epoch, dims, facts, keys, now)
    if not is_new:
        for key in keys.values():
            file_drop(key)
    return program


def _place(job: CompileJob, epoch: int, dims: dict[str, int]) -> str:
    return f"programs/{job.organisation_id}/{job.pk}-{epoch}-{options_digest(dims, {})[:12]}"


def _orphans_delete(place: str) -> None:
    # The run may have been killed after it stored the artefacts and before it created the row.
    if not Program.objects.filter(binary_key=f"{place}/{selectors.BINARY}").exists():
        for name in ARTEFACTS:
            default_storage.delete(f"{place}/{name}")


@transaction.atomic
def _row(
    job: CompileJob, epoch: int, dims: dict[str, int], facts: dict[str, Any], keys: dict[str, str], now: datetime
) -> tuple[Program | None, bool]:
    owned = CompileJob.objects.select_for_update().filter(pk=job.pk, epoch=epoch, state=CompileJob.State.RUNNING)
    if not owned.exists():
        return None, False
    stated = dict(facts)
    program, new = Program.objects.select_for_update().get_or_create(
        model_version=job.model_version,
        target_digest=stated.pop("target_digest"),
        precision=job.precision,
        options_digest=options_digest(dims, job.constants, job.calibration_digest, job.options),
        compiler_version=stated.pop("compiler_version"),
        defaults={
            **stated,
            "organisation_id": job.organisation_id,
            "compile_job": job,
            "target": job.target,
            "dims": dims,
            "constants": job.constants,
            "options": job.options,
            "calibration_digest": job.calibration_digest,
            "binary_key": keys[selectors.BINARY],
            "report_key": keys[selectors.REPORT],
            "created_at": now,
        },
    )
    if program.digest != facts["digest"]:
        raise NotDeterministic(program, facts["digest"])
    return program, new


def program_compare(*, program: Program, facts: dict[str, Any], binary: Path) -> dict[str, Any]:
    """Compare the file of a second compile with the program, piece by piece."""
    with binary.open("rb") as written:
        digest = hashlib.file_digest(written, "sha256").hexdigest()
        written.seek(0)
        with selectors.program_open(program) as stored:
            is_equal = _is_same(written, stored)
    return {
        "equal": digest == program.digest and is_equal,
        "digest": digest,
        "expected": program.digest,
        "compiler_version": facts["compiler_version"],
    }


def _is_same(one: IO[bytes], other: File[bytes]) -> bool:
    while True:
        piece = one.read(PIECE_BYTES)
        if piece != other.read(PIECE_BYTES):
            return False
        if not piece:
            return True
