"""Check a file in a limited child process before storing the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import structlog
from django.conf import settings

from apps.accounts.problems import Problem
from apps.registry.child import ChildFailed, Limits, child_run

REFUSED = "model-refused"
SLOWEST = 100_000_000  # bytes that are unpacked, read and hashed in a second

log = structlog.get_logger("registry")

_ENDINGS = {
    "memory": "Checking the model needed more than {memory:,} bytes of memory; use smaller shapes or make the model smaller.",
    "time": "Checking the model took longer than {cpu} seconds; simplify the model (onnxsim folds constants) and try again.",
    "late": "Checking the model took longer than {wall} seconds on a busy machine; try again later, or simplify the model.",
    "killed": "The operating system stopped the check of this file. Try again. If it happens again, the file may be damaged.",
    "defect": "The check of this file failed unexpectedly. The error is in our log. Nothing was stored.",
}


def limits() -> Limits:
    """Return the limits of a check: more time for a site that takes larger files, since all of a file is read."""
    more = settings.UPLOAD_BYTES_MAX // SLOWEST
    return Limits(settings.CHECK_MEMORY_BYTES, cpu=20 + more, wall=50 + 2 * more, file=settings.UPLOAD_BYTES_MAX)


def model_check(data: bytes | Path, *, beat: Callable[[], None]) -> dict[str, Any]:
    """Inspect the file in a child process and return the report, calling `beat` every few seconds. Raises Problem(422)
    with every problem if the file cannot be accepted.
    """
    try:
        files = {"model.onnx": data}
        request = {"bytes_max": settings.UPLOAD_BYTES_MAX}
        report = child_run("apps.registry.inspection.child", request=request, files=files, limits=limits(), beat=beat)
    except ChildFailed as error:
        log.warning("model_check_failed", reason=error.reason, stderr=error.stderr)
        if error.is_wall:
            raise CheckLate from error
        raise ended(error.reason) from error
    if report["problems"]:
        raise refusal(report["problems"])
    return report


def ended(reason: str) -> Problem:
    """Return the refusal of a file whose check did not finish. `reason` is "late" or the reason of a `ChildFailed`."""
    message = _ENDINGS[reason].format(**asdict(limits()))
    return refusal([{"kind": reason, "message": message, "remedy": "", "count": 1}])


def refusal(problems: list[dict[str, Any]]) -> Problem:
    """Return one Problem that lists all problems of a file. Each problem has `message` and `remedy`."""
    first = problems[0]
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    detail = f"{first['message']} {first.get('remedy', '')}".strip() + more
    return Problem(422, "We can't compile this model", detail, kind=REFUSED, errors=problems)


class CheckLate(Problem):
    """Raised if a check ran out of wall time on a busy machine. The check can be repeated."""

    def __init__(self) -> None:
        again = ended("late")
        super().__init__(again.status, again.title, again.detail, kind=REFUSED, errors=again.errors)
