"""Check uploads in workers, and record the results."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.core.files.storage import default_storage
from django.db import DatabaseError, connection, transaction
from django.db.models import Q, QuerySet

from apps.accounts.beating import beating
from apps.accounts.outages import Unavailable, told_when_back, unavailable_of
from apps.accounts.problems import Problem
from apps.registry.child import work_file
from apps.registry.models import ModelVersion, Upload
from apps.registry.selectors import line_now
from apps.registry.services.checking import CheckLate, ended, refusal
from apps.registry.services.versions import model_file_add

SILENT_AFTER = timedelta(seconds=20)  # four missed heartbeats; then the worker counts as dead
ATTEMPTS_MAX = 3
KEPT = timedelta(hours=1)  # how long the result can be read
LOCK = 0x7A6B0065  # an advisory lock: one worker claims at a time, so that turns are kept
Clock = Callable[[], datetime]

log = structlog.get_logger("registry")


def upload_check_next(*, clock: Clock) -> bool:
    """Check the next upload in the queue; return False if no upload can be checked now. Several workers may call this
    function at once.
    """
    upload = _claim(clock())
    if upload is None:
        return False
    if upload.attempts > ATTEMPTS_MAX:
        _finish(upload, refusal=ended("killed"), now=clock())
        return True
    try:
        version, is_new = _version_of(upload, clock=clock)
    except CheckLate as late:
        if upload.attempts < ATTEMPTS_MAX:
            _put_back(upload, counted=True)
        else:
            _finish(upload, refusal=late, now=clock())
    except FileNotFoundError:
        _finish(upload, refusal=lost(), now=clock())
    except (Unavailable, DatabaseError, OSError) as error:  # the file waits until storage and database are back
        outage = unavailable_of(error)
        if outage is None:
            raise
        log.warning("upload check postponed", upload=str(upload.pk), reason=outage.detail)
        told_when_back(lambda: _put_back(upload))
        return False
    except Problem as problem:
        _finish(upload, refusal=problem, now=clock())
    else:
        _finish(upload, version=version, is_new=is_new, now=clock())
    return True


def _version_of(upload: Upload, *, clock: Clock) -> tuple[ModelVersion, bool]:
    # Putting a large file together, hashing and storing it take longer than a worker may be silent.
    with work_file() as path, beating(lambda: _beat(upload, now=clock())):
        digest = hashlib.sha256()
        with path.open("wb") as file:
            for key in upload.parts.order_by("offset").values_list("storage_key", flat=True):
                piece = _part(key)
                digest.update(piece)
                file.write(piece)
        if upload.sha256 and digest.hexdigest() != upload.sha256:
            raise damaged()
        return model_file_add(
            organisation=upload.organisation,
            actor=upload.created_by,
            name=upload.name,
            filename=upload.filename,
            project_name=upload.project_name,
            data=path,
            now=clock(),
            beat=lambda: _beat(upload, now=clock()),
        )


def _beat(upload: Upload, *, now: datetime) -> None:
    # Without a heartbeat the upload may be checked twice, but the result is recorded once.
    with suppress(DatabaseError):
        Upload.objects.filter(_mine(upload)).update(seen_at=now)


def damaged() -> Problem:
    """Return the refusal of bytes that do not match the stated digest."""
    detail = "The SHA-256 of the received bytes differs from the stated one. Upload the file again."
    return refusal([{"kind": "digest", "message": detail, "remedy": "", "count": 1}])


def lost() -> Problem:
    """Return the refusal of a file whose chunks are missing from the storage."""
    detail = "Some pieces of this file are no longer in storage. Upload the file again."
    return refusal([{"kind": "lost", "message": detail, "remedy": "", "count": 1}])


@transaction.atomic
def _claim(now: datetime) -> Upload | None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
    _abandoned(now).update(state=Upload.State.QUEUED)
    busy = set(Upload.objects.filter(state=Upload.State.CHECKING).values_list("organisation_id", flat=True))
    line = [pk for pk, organisation_id in line_now() if organisation_id not in busy]
    if not line:
        return None
    upload = Upload.objects.select_for_update(of=("self",)).select_related("organisation", "created_by").get(pk=line[0])
    upload.state, upload.attempts = Upload.State.CHECKING, upload.attempts + 1
    upload.checking_since = upload.seen_at = now
    upload.save(update_fields=["state", "checking_since", "seen_at", "attempts"])
    return upload


def _abandoned(now: datetime) -> QuerySet[Upload]:
    silent = Q(seen_at__lte=now - SILENT_AFTER) | Q(seen_at=None)
    return Upload.objects.filter(silent, state=Upload.State.CHECKING)


def _put_back(upload: Upload, *, counted: bool = False) -> None:
    Upload.objects.filter(_mine(upload)).update(
        state=Upload.State.QUEUED, attempts=upload.attempts if counted else upload.attempts - 1
    )


def _mine(upload: Upload) -> Q:
    return Q(pk=upload.pk, state=Upload.State.CHECKING, checking_since=upload.checking_since)


def _finish(
    upload: Upload,
    *,
    now: datetime,
    version: ModelVersion | None = None,
    is_new: bool = False,
    refusal: Problem | None = None,
) -> None:
    # If two workers check the same upload, only the worker that claimed the upload last records the result.
    result: dict[str, Any] = {"state": Upload.State.READY, "version": version, "is_new": is_new}
    if refusal is not None:
        result = {"state": Upload.State.REFUSED, "refusal": refusal_stored(refusal)}
    if Upload.objects.filter(_mine(upload)).update(finished_at=now, expires_at=now + KEPT, **result):
        try:
            parts_remove(upload)
        except Unavailable as outage:  # the result is kept and true; the sweep removes the pieces
            log.warning("pieces not removed", upload=str(upload.pk), reason=outage.detail)


def refusal_stored(problem: Problem) -> dict[str, Any]:
    """Return a refusal in its stored form."""
    return {
        "status": problem.status,
        "title": problem.title,
        "detail": problem.detail,
        "code": problem.kind,
        "errors": problem.errors,
    }


def refusal_of(upload: Upload) -> Problem:
    """Return the stored refusal of an upload as a Problem."""
    kept = upload.refusal or {}
    return Problem(kept["status"], kept["title"], kept["detail"], kind=kept["code"], errors=kept["errors"])


def checks_sweep(*, now: datetime, send: Callable[[], None]) -> int:
    """Request a check if any upload is waiting or abandoned. Return the number of waiting and abandoned uploads."""
    waiting = Upload.objects.filter(state=Upload.State.QUEUED).count()
    waiting += _abandoned(now).count()
    if waiting:
        send()
    return waiting


def parts_remove(upload: Upload) -> None:
    """Delete the chunks of an upload: first the files, then the rows. Raises Unavailable if the storage cannot be
    reached.
    """
    folder = f"uploads/{upload.pk}"
    for key in upload.parts.values_list("storage_key", flat=True):
        default_storage.delete(key)
    with suppress(FileNotFoundError):
        for name in default_storage.listdir(folder)[1]:  # pieces whose row was lost with the connection
            default_storage.delete(f"{folder}/{name}")
    default_storage.delete(folder)
    upload.parts.all().delete()


def _part(key: str) -> bytes:
    with default_storage.open(key, "rb") as stored:
        data: bytes = stored.read()
    return data
