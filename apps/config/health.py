"""What an orchestrator asks: is the process alive, can it work, what has it counted."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.cache import cache
from django.core.files.storage import default_storage
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from django_prometheus.exports import ExportToDjangoView

_applied = threading.Event()


@login_not_required
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers. Touches nothing else, so that a slow database does not restart the web."""
    return JsonResponse({"status": "alive"})


@login_not_required
def readyz(request: HttpRequest) -> HttpResponse:
    """200 when database, migrations, Redis and storage serve; 503 with the part that does not."""
    parts = {name: _verdict(check) for name, check in CHECKS.items()}
    is_ready = all(verdict == "ok" for verdict in parts.values())
    return JsonResponse(
        {"status": "ready" if is_ready else "not ready", "parts": parts}, status=200 if is_ready else 503
    )


@login_not_required
def metrics(request: HttpRequest) -> HttpResponse:
    """Prometheus text. METRICS_TOKEN, when set, is asked for as a bearer token."""
    wanted = settings.METRICS_TOKEN
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if wanted != "none" and not hmac.compare_digest(given.encode(), wanted.encode()):
        return HttpResponse("Send METRICS_TOKEN as a bearer token.\n", status=401, content_type="text/plain")
    response: HttpResponse = ExportToDjangoView(request)
    return response


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
    """What a process has once seen applied stays applied, so that a probe every second costs nothing."""
    if _applied.is_set():
        return "ok"
    executor = MigrationExecutor(connection)
    pending = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if pending:
        return f"{len(pending)} migrations are not applied: run manage.py migrate"
    _applied.set()
    return "ok"


def _redis() -> str:
    cache.get("readyz")
    return "ok"


def _storage() -> str:
    default_storage.exists("readyz")
    return "ok"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "migrations": _migrations,
    "redis": _redis,
    "storage": _storage,
}
