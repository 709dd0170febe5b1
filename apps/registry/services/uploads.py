"""Uploads in pieces: open, put, complete or cancel. Whatever the ending, no piece and no row of the upload stays."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from uuid import UUID

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Sum

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.registry.child import folders_sweep
from apps.registry.inspection import findings
from apps.registry.models import ModelVersion, Upload, UploadPart
from apps.registry.services.checking import refusal
from apps.registry.services.versions import model_file_add

LASTS = timedelta(hours=24)
CHECK_LASTS = timedelta(seconds=60)
OPEN_MAX = 20
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
    """Announce a file of `size` bytes. Pieces follow by `upload_chunk_put`, then `upload_complete`.

    Raises Problem: 422 for an empty file or a malformed digest, 413 for one that is too large, 429 for too many at once.
    """
    if size <= 0:
        raise refusal([findings.EMPTY.to_json()])
    if size > settings.UPLOAD_BYTES_MAX:
        detail = (
            f"The file has {size:,} bytes; the most is {settings.UPLOAD_BYTES_MAX:,}. "
            "Store the weights in a narrower type, or ask us to raise the limit."
        )
        raise Problem(413, "The file is too large", detail, kind="too-large", errors=[_error("too-large", detail)])
    if sha256 and not SHA256.match(sha256):
        raise Problem(422, "Malformed digest", "sha256 must be 64 lower-case hexadecimal digits, or be left out.")
    clean = PurePosixPath(filename.replace("\\", "/")).name[:200] or "model.onnx"
    with transaction.atomic():
        Organisation.objects.select_for_update().get(pk=organisation.pk)
        waiting = Upload.objects.filter(organisation=organisation, expires_at__gt=now)
        held = waiting.aggregate(total=Sum("size"))["total"] or 0
        if waiting.count() >= OPEN_MAX or held + size > 2 * settings.UPLOAD_BYTES_MAX:
            raise Problem(429, "Too many uploads at once", "Finish or cancel an open upload first; they end after a day.")
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


def _error(kind: str, message: str) -> dict[str, object]:
    return {"kind": kind, "message": message, "remedy": "", "count": 1}


@transaction.atomic
def upload_chunk_put(
    *, organisation: Organisation, upload_id: UUID, offset: int, data: bytes, now: datetime, sha256: str = ""
) -> Upload:
    """Store the piece that begins at byte `offset`; pieces come in order.

    A piece that is there already is accepted again without effect, so that a client may repeat what was not answered.
    Raises Problem: 404 unknown or expired, 409 with the offset that is wanted, 422 for a wrong digest or too many bytes.
    """
    upload = _locked(organisation, upload_id, now)
    if upload.state != Upload.State.OPEN:
        raise Problem(409, "Already complete", "The file is being checked; no further pieces can be added.")
    if sha256 and hashlib.sha256(data).hexdigest() != sha256:
        raise Problem(422, "A piece was damaged", "Its SHA-256 is not the one stated; send the piece again.")
    if UploadPart.objects.filter(upload=upload, offset=offset, size=len(data)).exists():
        return upload
    if offset != upload.received:
        detail = f"The next piece begins at byte {upload.received}; this one begins at {offset}."
        raise Problem(409, "Not the next piece", detail, kind="wrong-offset", errors=[{"offset": upload.received}])
    if not data or offset + len(data) > upload.size:
        detail = f"The file was announced with {upload.size:,} bytes; this piece of {len(data):,} bytes does not fit in."
        raise Problem(422, "The piece does not fit", detail)
    key = default_storage.save(f"uploads/{upload.pk}/{offset:012d}", ContentFile(data))
    try:
        UploadPart.objects.create(upload=upload, offset=offset, size=len(data), storage_key=key)
        upload.received = offset + len(data)
        upload.save(update_fields=["received"])
    except BaseException:
        default_storage.delete(key)
        raise
    return upload


def upload_complete(
    *, organisation: Organisation, actor: User, upload_id: UUID, now: datetime, sha256: str = ""
) -> tuple[ModelVersion, bool]:
    """Put the pieces together, check them, and keep the file as a version. Returns (version, whether it is new).

    Raises Problem: 404, 409 while bytes are missing or another request is checking, 422 with every problem of the file;
    after a 422 the upload is gone.
    """
    with transaction.atomic():
        upload = _locked(organisation, upload_id, now)
        if upload.received != upload.size:
            detail = f"{upload.size - upload.received:,} bytes are still missing; the next begins at {upload.received}."
            raise Problem(409, "Not complete yet", detail, kind="wrong-offset", errors=[{"offset": upload.received}])
        busy = upload.checking_since is not None and now < upload.checking_since + CHECK_LASTS
        if busy:
            raise Problem(409, "Being checked", "Another request is checking this file; ask again in a moment.")
        upload.state, upload.checking_since = Upload.State.CHECKING, now
        upload.save(update_fields=["state", "checking_since"])
        keys = list(upload.parts.order_by("offset").values_list("storage_key", flat=True))
    try:
        data = b"".join(_part(key) for key in keys)
        wanted = sha256 or upload.sha256
        if wanted and hashlib.sha256(data).hexdigest() != wanted:
            detail = "The bytes that arrived do not have the SHA-256 that was stated. Upload the file again."
            raise refusal([_error("digest", detail)])
        return model_file_add(
            organisation=organisation,
            actor=actor,
            name=upload.name,
            filename=upload.filename,
            project_name=upload.project_name,
            data=data,
            now=now,
        )
    finally:
        _remove(upload)


def upload_cancel(*, organisation: Organisation, upload_id: UUID, now: datetime) -> None:
    """Forget an upload and its pieces. Raises Problem(404) for one that is not there."""
    with transaction.atomic():
        upload = _locked(organisation, upload_id, now)
    _remove(upload)


def uploads_sweep(*, now: datetime) -> int:
    """Remove uploads that nobody finished within a day, and folders of killed children; returns how many uploads."""
    expired = list(Upload.objects.filter(expires_at__lte=now))
    for upload in expired:
        _remove(upload)
    folders_sweep()
    return len(expired)


def _locked(organisation: Organisation, upload_id: UUID, now: datetime) -> Upload:
    found = Upload.objects.select_for_update().filter(pk=upload_id, organisation=organisation, expires_at__gt=now).first()
    if found is None:
        raise Problem(404, "No such upload", "It was finished, cancelled, or a day has passed; upload the file again.")
    return found


def _part(key: str) -> bytes:
    with default_storage.open(key, "rb") as stored:
        data: bytes = stored.read()
    return data


def _remove(upload: Upload) -> None:
    """Pieces first, then the row: a row without pieces can be swept again, a piece without a row could not."""
    for key in upload.parts.values_list("storage_key", flat=True):
        default_storage.delete(key)
    default_storage.delete(f"uploads/{upload.pk}")
    Upload.objects.filter(pk=upload.pk).delete()
