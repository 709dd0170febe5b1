"""Steps that several tests of the registry take."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.test import Client
from django.utils import timezone

from apps.registry import services
from apps.registry.models import FINISHED, Model, ModelVersion, Project, Upload, UploadPart
from tests.cast import Cast

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def version_of(cast: Cast, data: bytes, name: str = "net") -> ModelVersion:
    """A model version of the cast's organisation, through the real check."""
    version, _ = services.model_file_add(
        organisation=cast.organisation,
        actor=cast.engineer,
        name=name,
        filename=f"{name}.onnx",
        project_name="Default",
        data=data,
        now=NOW,
    )
    return version


def stored_files() -> list[str]:
    """Every file that storage holds, relative to its root."""
    root = Path(settings.MEDIA_ROOT)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def nothing_is_left() -> bool:
    """No file and no row of an upload or model, beside what an upload that is over says of itself."""
    if Upload.objects.exclude(state__in=FINISHED).exists():
        return False
    rows = [model.objects.exists() for model in (UploadPart, ModelVersion, Model, Project)]
    return not any(rows) and stored_files() == []


def post(client: Client, path: str, body: dict[str, Any] | None = None, **headers: Any) -> Any:
    return client.post(f"/api/v1{path}", json.dumps(body or {}), content_type="application/json", **headers)


def upload(client: Client, data: bytes, *, size: int | None = None, piece: int = 100_000) -> Any:
    """The whole conversation of an upload over the API; the answer is the first refusal, or that of `complete`."""
    opened = post(client, "/uploads", {"filename": "net.onnx", "size": len(data) if size is None else size})
    if opened.status_code != 201:
        return opened
    pk = opened.json()["id"]
    for offset in range(0, len(data), piece):
        answer = client.put(
            f"/api/v1/uploads/{pk}/chunks/{offset}",
            data[offset : offset + piece],
            content_type="application/octet-stream",
        )
        if answer.status_code != 200:
            return answer
    asked = post(client, f"/uploads/{pk}/complete")
    if asked.status_code != 202:
        return asked
    check_all()
    return post(client, f"/uploads/{pk}/complete")


def check_all() -> None:
    """Check every upload that waits, as the workers of the queue do, one after another."""
    while services.upload_check_next(clock=timezone.now):
        pass
