"""Files whose process died before the row was committed go after a day; files of rows stay."""

from __future__ import annotations

import os
import time
from pathlib import Path

from django.core.files.storage import default_storage
from django.utils import timezone

from apps.accounts.files import ORPHAN_AFTER, file_save
from apps.compilation import services as compiling
from apps.dispatch import services as dispatching
from apps.registry import services as registering
from apps.registry.services import upload_chunk_put, upload_open
from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

LOST = (
    "jobs/5f0c3a52-2f0e-4f0e-9d39-0a4c9f6f7a11/inputs.npz",
    "models/5f0c3a52-2f0e-4f0e-9d39-0a4c9f6f7a11/0.onnx",
    "uploads/5f0c3a52-2f0e-4f0e-9d39-0a4c9f6f7a11/000000000000",
    "programs/5f0c3a52-2f0e-4f0e-9d39-0a4c9f6f7a11/x-1-y/program.bin",
    "calibrations/5f0c3a52-2f0e-4f0e-9d39-0a4c9f6f7a11/0.npz",
)


def sweep() -> int:
    now = timezone.now()
    return (
        dispatching.job_files_sweep(now=now)
        + registering.model_files_sweep(now=now)
        + compiling.program_files_sweep(now=now)
    )


def stored() -> set[str]:
    root = Path(default_storage.location)  # type: ignore[attr-defined]
    return {one.relative_to(root).as_posix() for one in root.rglob("*") if one.is_file()}


def test_files_of_no_row_go_after_a_day_and_all_others_stay(cast: Cast) -> None:
    scene = Scene(open_market(devices=2), cast)
    compiled(cast, "digits-small")  # a model with its program
    job = scene.job(scene.contract((scene.program(operations=1_000_000), 10)))
    who = {"organisation": cast.organisation, "now": scene.now}
    upload = upload_open(actor=cast.engineer, filename="a.onnx", size=4, **who)  # type: ignore[arg-type]
    upload_chunk_put(upload_id=upload.pk, offset=0, data=b"1234", **who)  # type: ignore[arg-type]
    kept = stored()
    half = job.inputs_key.replace("inputs.npz", ".0123.part")
    for key in (*LOST, half):
        file_save(key, b"x")
    assert sweep() == 0
    long_ago = time.time() - ORPHAN_AFTER.total_seconds() - 60
    for path in Path(default_storage.location).rglob("*"):  # type: ignore[attr-defined]
        os.utime(path, (long_ago, long_ago))
    assert sweep() == len(LOST) + 1
    assert stored() == kept
