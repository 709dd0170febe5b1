"""Begin, continue, complete or cancel chunked uploads."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from apps.accounts.broker import task_send_on_commit
from apps.accounts.files import file_save, file_transaction
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.registry.child import folders_sweep
from apps.registry.inspection import findings
from apps.registry.models import FINISHED, Upload, UploadPart
from apps.registry.services.checking import refusal
from apps.registry.services.checks import parts_remove

log = structlog.get_logger("registry")

LASTS = timedelta(hours=24)
OPEN_MAX = 20
RETRY_SECONDS = 10
CHECK = "apps.registry.tasks.upload_check"
SHA256 = re.compile(r"^[0-9a-f]{64}$")


def upload_open(
    *,
    organisation: Organisation,
    actor: User,
    filename: str,
    size: int,
    now: datetime,
    sha256: str = "",
    name: str = "",
    project_name: str = "Default",
) -> Upload:
    """Begin the upload of a file of `size` bytes.

    Raises Problem: 422 for an empty file or a malformed digest, 413 if the file is too large, 429 if too many uploads
    are open.
    """
    if size <= 0:
        raise refusal([findings.EMPTY.to_json()])
    if size > settings.UPLOAD_BYTES_MAX:
        detail = (
            f"The file has {size:,} bytes; the maximum is {settings.UPLOAD_BYTES_MAX:,}. "
            "Store the weights in a narrower type, or ask us to raise the limit."
        )
        raise Problem(413, "The file is too large", detail, kind="too-large", errors=[_error("too-large", detail)])
    if sha256 and not SHA256.match(sha256):
        raise _malformed()
    clean = PurePosixPath(filename.replace("\\", "/")).name[:200] or "model.onnx"
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        waiting = Upload.objects.filter(organisation=organisation, expires_at__gt=now).exclude(state__in=FINISHED)
        held = waiting.aggregate(total=Sum("size"))["total"] or 0
        if waiting.count() >= OPEN_MAX or held + size > 2 * settings.UPLOAD_BYTES_MAX:
            raise Problem(
                429,
                "Too many uploads at once",
                f"At most {OPEN_MAX} files can be uploading or waiting to be checked at the same time. Finish or cancel an "
                "open upload, "
                "or wait until some files have been checked.",
                kind="too-many-uploads",
                retry_after=RETRY_SECONDS,
            )
        return Upload.objects.create(
            organisation=organisation,
            created_by=actor,
            project_name=project_name.strip()[:80] or "Default",
            name=(name.strip() or PurePosixPath(clean).stem)[:120],
            filename=clean,
            size=size,
            sha256=sha256,
            created_at=now,
            expires_at=now + LASTS,
        )


def _malformed() -> Problem:
    detail = "sha256 must be 64 lower-case hexadecimal digits, or be left out."
    return Problem(422, "Malformed digest", detail, kind="digest-invalid")


def _error(kind: str, message: str) -> dict[str, object]:
    return {"kind": kind, "message": message, "remedy": "", "count": 1}


@file_transaction()
def upload_chunk_put(
    *, organisation: Organisation, upload_id: UUID, offset: int, data: bytes, now: datetime, sha256: str = ""
) -> Upload:
    """Store the chunk that starts at byte `offset`. Repeating a stored chunk has no effect.

    Raises Problem: 404 if the upload is unknown or expired, 409 with the expected offset, 422 for a wrong digest or too
    many bytes.
    """
    upload = _locked(organisation, upload_id, now)
    if upload.state != Upload.State.OPEN:
        raise Problem(
            409,
            "Already complete",
            "The file is being checked; no further pieces can be added.",
            kind="upload-complete",
        )
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise Problem(
            422,
            "A piece was damaged",
            "The piece's SHA-256 differs from the stated one. Send the piece again.",
            kind="piece-damaged",
        )
    if UploadPart.objects.filter(upload=upload, offset=offset, size=len(data)).exists():
        return upload
    if offset != upload.received:
        detail = f"The next piece must begin at byte {upload.received}, but this piece begins at byte {offset}."
        raise Problem(409, "Not the next piece", detail, kind="wrong-offset", errors=[{"offset": upload.received}])
    if not data or offset + len(data) > upload.size:
        detail = f"The upload was opened for a file of {upload.size:,} bytes; this piece of {len(data):,} bytes does not fit."
        raise Problem(422, "The piece does not fit", detail, kind="piece-does-not-fit")
    key = file_save(f"uploads/{upload.pk}/{offset:012d}", data)
    UploadPart.objects.create(upload=upload, offset=offset, size=len(data), storage_key=key)
    upload.received = offset + len(data)
    upload.save(update_fields=["received"])
    return upload


@transaction.atomic
def upload_complete(*, organisation: Organisation, upload_id: UUID, now: datetime, sha256: str = "") -> Upload:
    """Queue the complete file for its check. Safe to repeat.

    Raises Problem: 404 if the upload is unknown, 409 if bytes are missing.
    """
    upload = _locked(organisation, upload_id, now)
    if upload.state != Upload.State.OPEN:
        return upload
    if upload.received != upload.size:
        detail = f"{upload.size - upload.received:,} bytes are still missing; the next begins at {upload.received}."
        raise Problem(409, "Not complete yet", detail, kind="wrong-offset", errors=[{"offset": upload.received}])
    if sha256 and not SHA256.match(sha256):
        raise _malformed()
    upload.state, upload.queued_at, upload.sha256 = Upload.State.QUEUED, now, sha256 or upload.sha256
    upload.save(update_fields=["state", "queued_at", "sha256"])
    task_send_on_commit(CHECK, queue="check")
    return upload


def upload_cancel(*, organisation: Organisation, upload_id: UUID, now: datetime) -> None:
    """Delete an upload and its chunks. Raises Problem(404) if the upload does not exist."""
    with transaction.atomic():
        upload = _locked(organisation, upload_id, now)
    _remove(upload)


def uploads_sweep(*, now: datetime) -> int:
    """Remove expired uploads, and temporary folders left by killed child processes. Return the number of removed
    uploads.
    """
    expired = list(Upload.objects.filter(expires_at__lte=now))
    for upload in expired:
        _remove(upload)
    folders_sweep()
    return len(expired)


def _locked(organisation: Organisation, upload_id: UUID, now: datetime) -> Upload:
    found = (
        Upload.objects.select_for_update().filter(pk=upload_id, organisation=organisation, expires_at__gt=now).first()
    )
    if found is None:
        raise Problem(
            404,
            "No such upload",
            "This upload was finished or cancelled, or it is more than a day old. Upload the file again.",
            kind="upload-unknown",
        )
    return found


def _remove(upload: Upload) -> None:
    # The chunks go first: a later sweep can find a row without chunks, but not chunks without a row.
    parts_remove(upload)
    Upload.objects.filter(pk=upload.pk).delete()
