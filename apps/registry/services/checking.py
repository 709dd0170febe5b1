"""The look into a file before anything is kept of it, done by a limited child."""

from __future__ import annotations

from typing import Any

import structlog

from apps.accounts.problems import Problem
from apps.registry.child import ChildFailed, Limits, child_run

LIMITS = Limits(memory=4 * 2**30, cpu=25, wall=28, file=2**26)
REFUSED = "model-refused"

log = structlog.get_logger("registry")

_ENDINGS = {
    "memory": "Checking the model took more than {memory:,} bytes of memory; state smaller shapes or make the model smaller.",
    "time": "Checking the model took longer than {cpu} seconds; simplify it (onnxsim removes constant work) and try again.",
    "killed": "The check of this file was ended by the system. Try again; if it happens twice, the file is damaged.",
    "defect": "The check of this file failed in a way that we did not expect; it is in our log. Nothing was kept.",
}


def model_check(data: bytes) -> dict[str, Any]:
    """What `inspection.report.inspect` says of the file. Raises Problem(422) with every problem when it cannot be kept."""
    try:
        report = child_run("apps.registry.inspection.child", request={}, files={"model.onnx": data}, limits=LIMITS)
    except ChildFailed as error:
        log.warning("model_check_failed", reason=error.reason, stderr=error.stderr)
        message = _ENDINGS[error.reason].format(memory=LIMITS.memory, cpu=LIMITS.cpu)
        raise refusal([{"kind": error.reason, "message": message, "remedy": "", "count": 1}]) from error
    if report["problems"]:
        raise refusal(report["problems"])
    return report


def refusal(problems: list[dict[str, Any]]) -> Problem:
    """All problems of a file as one refusal; each has `message` and `remedy`."""
    first = problems[0]
    more = f" And {len(problems) - 1} more." if len(problems) > 1 else ""
    detail = f"{first['message']} {first.get('remedy', '')}".strip() + more
    return Problem(422, "This model cannot be taken", detail, kind=REFUSED, errors=problems)
