"""Support for the header `Idempotency-Key`: a repeated request gets the stored response to the first request.

Place `@idempotent` below the router's decorator. One transaction stores the key, the operation's changes and the
response.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

from django.core.files.uploadedfile import UploadedFile
from django.db import IntegrityError, transaction
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from ninja.decorators import decorate_view

from apps.accounts.access import principal_get
from apps.accounts.files import file_transaction
from apps.accounts.models import IdempotencyRecord
from apps.accounts.problems import Problem

HEADER = "Idempotency-Key"
KEY_LENGTH_MAX = 120
REPLAYED = "Idempotency-Replayed"

_LATER: ContextVar[list[Callable[[], object]] | None] = ContextVar("later", default=None)

F = TypeVar("F", bound=Callable[..., Any])


def idempotent(operation: F) -> F:
    """Make an API operation idempotent. Place this decorator below the router's decorator."""

    @wraps(operation)
    def once(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        key = request.headers.get(HEADER)
        if not key:
            return operation(request, *args, **kwargs)
        if len(key) > KEY_LENGTH_MAX:
            raise Problem(
                422,
                "Key too long",
                f"{HEADER} may have at most {KEY_LENGTH_MAX} characters.",
                kind="idempotency-key-too-long",
            )
        earlier = _claim(request, key)
        return earlier if earlier is not None else operation(request, *args, **kwargs)

    # ninja reads the annotations in the operation's own module, not in this one.
    once.__signature__ = inspect.signature(operation, eval_str=True)  # type: ignore[attr-defined]
    decorate_view(_in_one_transaction)(once)
    return cast("F", once)


def _claim(request: HttpRequest, key: str) -> HttpResponse | None:
    principal = principal_get(request)
    owner = f"{principal.current or principal.user.pk}"
    digest = request_digest(request)
    try:
        with transaction.atomic():
            record = IdempotencyRecord.objects.create(
                owner=owner, key=key, request_digest=digest, created_at=timezone.now()
            )
    except IntegrityError:
        record = IdempotencyRecord.objects.get(owner=owner, key=key)
        if record.request_digest != digest or record.status is None:
            detail = f"This {HEADER} was already used for a different request. Use a new key for each new request."
            raise Problem(409, "Key used before", detail, kind="idempotency-key-reused") from None
        response = HttpResponse(bytes(record.body), status=record.status, content_type=record.content_type)
        response[REPLAYED] = "true"
        return response
    request._idempotency_record = record  # type: ignore[attr-defined]  # for the answer, when it is known
    return None


def form_once(request: HttpRequest, mark: str, make: Callable[[], str]) -> tuple[str, bool]:
    """Submit a form at most once. Return the URL to redirect to, and whether this call ran `make`.

    `mark` is the token rendered with the form. If `make` raises a refusal, nothing is stored and the form can be sent
    again.
    """
    with _one_transaction():
        return _form_once(request, mark, make)


def keep(record: Callable[[], object]) -> None:
    """Call `record`, which stores a refusal. Inside an idempotent operation, the call waits until the transaction has
    ended.
    """
    later = _LATER.get()
    if later is None:
        record()
    else:
        later.append(record)


@contextmanager
def _one_transaction() -> Iterator[None]:
    later: list[Callable[[], object]] = []
    mark = _LATER.set(later)
    try:
        with file_transaction():
            yield
    finally:
        _LATER.reset(mark)
        for record in later:
            record()


def _form_once(request: HttpRequest, mark: str, make: Callable[[], str]) -> tuple[str, bool]:
    owner, key = str(principal_get(request).user.pk), f"form:{mark}:{request_digest(request)}"[:KEY_LENGTH_MAX]
    try:
        with transaction.atomic():
            record = IdempotencyRecord.objects.create(
                owner=owner, key=key, request_digest="", created_at=timezone.now()
            )
    except IntegrityError:
        return bytes(IdempotencyRecord.objects.get(owner=owner, key=key).body).decode(), False
    location = make()
    record.status, record.body = 302, location.encode()
    record.save(update_fields=["status", "body"])
    return location, True


def request_digest(request: HttpRequest) -> str:
    """Return the SHA-256 digest of the request's method, full path and body, including uploaded files."""
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    if request.content_type != "multipart/form-data":
        digest.update(request.body)
        return digest.hexdigest()
    for name, values in sorted(request.POST.lists()):
        digest.update(repr((name, values)).encode())
    for name, files in sorted(request.FILES.lists()):
        for file in files:
            assert isinstance(file, UploadedFile)
            digest.update(repr((name, file.name, file.size)).encode())
            for chunk in file.chunks():
                digest.update(chunk)
            file.seek(0)
    return digest.hexdigest()


def _in_one_transaction(run: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    # If the operation refuses, the transaction is rolled back and no response is stored.
    @wraps(run)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.headers.get(HEADER):
            return run(request, *args, **kwargs)
        with _one_transaction():
            response = run(request, *args, **kwargs)
            record: IdempotencyRecord | None = getattr(request, "_idempotency_record", None)
            if response.status_code >= 400:
                transaction.set_rollback(True)
            elif record is not None:
                record.status, record.body = response.status_code, response.content
                record.content_type = response.headers.get("Content-Type", "")
                record.save(update_fields=["status", "body", "content_type"])
        return response

    return wrapped
