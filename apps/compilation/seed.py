"""Demo data: queues compiles of the sample models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.models import Organisation, User
from apps.compilation.models import CompileJob, CompileState, Program
from apps.compilation.services import job_create
from apps.registry.models import ModelVersion
from apps.registry.selectors import versions_present
from compiler import targets

SEEDED = ("lpu", "lpu2")  # those that the demo's pools have
DIMS: dict[str, dict[str, Any]] = {"batch": {"batch": [1, 8, 64]}}


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Queue compiles of every sample model for the demo's processors, except for programs that exist or are queued."""
    for version in versions_present().filter(organisation=organisation).order_by("created_at", "model__name"):
        names = [row["name"] for row in version.symbolic_dims]
        dims = DIMS["batch"] if names == ["batch"] else {}
        for target in SEEDED if not names or dims else ():
            if not _is_there(version, target):
                job_create(version=version, target=target, dims=dims, actor=owner, now=now)


def _is_there(version: ModelVersion, target: str) -> bool:
    present = Program.objects.filter(model_version=version, target=target, target_digest=targets.load(target).digest)
    waiting = CompileJob.objects.filter(
        model_version=version, target=target, state__in=[CompileState.QUEUED, CompileState.RUNNING]
    )
    return present.exists() or waiting.exists()
