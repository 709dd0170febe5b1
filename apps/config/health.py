"""Health checks for an orchestrator: liveness, readiness and metrics."""

from __future__ import annotations

import hmac
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.core.files.storage import default_storage
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django_prometheus.exports import ExportToDjangoView

from apps.accounts.outages import Unavailable
from apps.accounts.storages import FolderStorage, free_bytes

_applied = threading.Event()


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """Respond that the process is alive, without checking any other service."""
    return JsonResponse({"status": "alive"})


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """Respond with 200 if the database, migrations, Redis, storage and disk are in order; otherwise with 503 and the
    faults.
    """
    parts = {name: _verdict(check) for name, check in CHECKS.items()}
    is_ready = all(verdict == "ok" for verdict in parts.values())
    return JsonResponse(
        {"status": "ready" if is_ready else "not ready", "parts": parts}, status=200 if is_ready else 503
    )


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics in Prometheus text format.

    A request needs METRICS_TOKEN as its bearer token, unless METRICS_LOCAL is set and the request comes from this
    machine.
    """
    if not _may_read(request):
        said = "Send the value of METRICS_TOKEN as a bearer token. If METRICS_TOKEN is not set, metrics are not available.\n"
        return HttpResponse(said, status=401, content_type="text/plain")
    response: HttpResponse = ExportToDjangoView(request)
    return response


def _may_read(request: HttpRequest) -> bool:
    wanted = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if wanted != "none" and hmac.compare_digest(given.encode(), wanted.encode()):
        return True
    # A proxy on this machine forwards requests of others, with one of these headers.
    is_direct = not any(
        name in request.headers for name in ("Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "Via")
    )
    return bool(settings.METRICS_LOCAL) and is_direct and request.META.get("REMOTE_ADDR") in {"127.0.0.1", "::1"}


def _verdict(check: Callable[[], str]) -> str:
    try:
        return check()
    except Exception as error:  # noqa: BLE001 - whatever is broken is what this page is for
        return f"failed ({type(error).__name__})"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _migrations() -> str:
    # A positive result is cached, so that frequent probes cost nothing.
    if _applied.is_set():
        return "ok"
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        return f"{len(pending)} migrations are not applied: run manage.py migrate"
    _applied.set()
    return "ok"


def _redis() -> str:
    # A server with a full disk still responds to reads.
    cache.set("readyz", 1, 60)
    return "ok"


def _storage() -> str:
    try:
        default_storage.exists("readyz")
    except Unavailable as outage:
        return f"failed ({outage.detail})"
    return "ok"


def _disk() -> str:
    folders = [*settings.FREE_SPACE_FOLDERS, tempfile.gettempdir()]
    if isinstance(default_storage, FolderStorage):
        folders.append(str(default_storage.location))
    for folder in folders:
        free = free_bytes(Path(folder))
        if free < settings.FREE_BYTES_MIN:
            wanted = settings.FREE_BYTES_MIN >> 20
            return f"full: {free >> 20} MiB are free on the disk of {folder}, at least {wanted} MiB are needed"
    return "ok"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "storage": _storage,
    "disk": _disk,
}
