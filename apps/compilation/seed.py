"""Compiles of the sample models, queued for the worker that starts next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.models import Organisation, User
from apps.compilation.models import CompileJob
from apps.compilation.services import job_create
from apps.registry.selectors import versions_present

SEEDED = ("lpu", "lpu2")  # those that the demo's pools have
DIMS: dict[str, dict[str, Any]] = {"batch": {"batch": [1, 8, 64]}}


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Every sample for every processor version of the demo's pools, unless something was compiled before."""
    if CompileJob.objects.filter(organisation=organisation).exists():
        return
    for version in versions_present().filter(organisation=organisation).order_by("created_at", "model__name"):
        names = [row["name"] for row in version.symbolic_dims]
        dims = DIMS["batch"] if names == ["batch"] else {}
        for target in SEEDED if not names or dims else ():
            job_create(version=version, target=target, dims=dims, actor=owner, now=now)
