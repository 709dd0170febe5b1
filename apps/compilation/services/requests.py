"""Requests and cancels several compiles of one version together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from apps.accounts.files import file_transaction
from apps.accounts.models import User
from apps.compilation.models import CompileRequest
from apps.compilation.services.jobs import job_cancel, job_create
from apps.registry.models import ModelVersion


@file_transaction()
def request_create(
    *,
    version: ModelVersion,
    targets: Sequence[str],
    precisions: Sequence[str],
    dims: dict[str, Any],
    actor: User,
    now: datetime,
    constants: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    calibration: bytes | None = None,
    mail: bool = False,
) -> CompileRequest:
    """Queue a compile for each target in each precision. If one compile is refused, none is queued.

    Raises Problem as `job_create` does. If `mail` is True, the requester also gets an e-mail when all compiles have
    ended.
    """
    request = CompileRequest.objects.create(
        organisation=version.organisation, model_version=version, created_by=actor, mail=mail, created_at=now
    )
    for target in targets:
        for precision in precisions:
            job_create(
                version=version,
                target=target,
                precision=precision,
                dims=dims,
                constants=constants,
                options=options,
                calibration=calibration,
                actor=actor,
                now=now,
                request=request,
            )
    return request


def request_cancel(*, request: CompileRequest, actor: User, now: datetime) -> None:
    """Cancel all unfinished compiles of a request. Finished compiles are kept."""
    for job in request.jobs.all():
        job_cancel(job=job, actor=actor, now=now)
