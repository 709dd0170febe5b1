"""Rotates the logs of `make run`. A full log is copied and then emptied in place, since its writer keeps it open."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

BYTES_MAX = 10 * 1000 * 1000
OLDER_KEPT = 4


def logs_rotate(paths: Iterable[Path], *, bytes_max: int = BYTES_MAX) -> list[Path]:
    """Rotate every full log and return them: `web.log` becomes `web.log.1`, that `web.log.2`; the oldest is deleted.

    Writers append, so they continue at the beginning of the emptied file. A line written between the copy and the emptying is
    lost.
    """
    full = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_size > bytes_max:
                _rotate(path)
                full.append(path)
    return full


def _rotate(path: Path) -> None:
    for number in range(OLDER_KEPT - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            _older(path, number).replace(_older(path, number + 1))
    draft = path.with_name(f"{path.name}.draft")
    shutil.copy2(path, draft)
    draft.replace(_older(path, 1))
    os.truncate(path, 0)


def _older(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
