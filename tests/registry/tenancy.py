"""Who may open the addresses of the registry."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.registry.models import DataSet, Model, ModelVersion
from apps.registry.services import project_ensure, upload_open
from tests.cast import Cast
from tests.tenancy import operation, page


def bare_version(cast: Cast) -> ModelVersion:
    """A stored version whose file was never looked into: enough to ask who may open it."""
    now, organisation = timezone.now(), cast.organisation
    project = project_ensure(organisation=organisation, name="Default", now=now)
    model = Model.objects.create(
        organisation=organisation, project=project, name=f"net-{uuid4().hex[:8]}", created_at=now
    )
    return ModelVersion.objects.create(
        organisation=organisation,
        model=model,
        number=1,
        sha256=uuid4().hex * 2,
        size=3,
        filename="net.onnx",
        storage_key=default_storage.save(f"models/{uuid4()}", ContentFile(b"abc")),
        opset=17,
        inputs=[{"name": "x", "dtype": "float32", "shape": [1, 4]}],
        outputs=[{"name": "y", "dtype": "float32", "shape": [1, 4]}],
        created_by=cast.engineer,
        created_at=now,
    )


def bare_data_set(cast: Cast) -> DataSet:
    """A stored data set whose file was never looked into."""
    return DataSet.objects.create(
        organisation=cast.organisation,
        name="items",
        digest=uuid4().hex * 2,
        items=10,
        choose=3,
        seed=1,
        size=3,
        inputs=[{"name": "x", "dtype": "float32", "shape": [4]}],
        label_shape=[],
        classes=2,
        storage_key=default_storage.save(f"datasets/{uuid4()}", ContentFile(b"abc")),
        created_by=cast.engineer,
        created_at=timezone.now(),
    )


def _data_set(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_data_set(cast).pk}


def _version(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_version(cast).pk}


def _model(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_version(cast).model_id}


def _upload(cast: Cast) -> dict[str, Any]:
    now = timezone.now()
    opened = upload_open(organisation=cast.organisation, actor=cast.engineer, filename="net.onnx", size=100, now=now)
    return {"pk": opened.pk}


def _chunk(cast: Cast) -> dict[str, Any]:
    return {**_upload(cast), "offset": 0}


BUILD: dict[str, Any] = {"roles": ENGINEERING, "scope": Scope.BUILD}

ROUTES = [
    page("/models"),
    page("/models/upload", "GET", "POST", roles=ENGINEERING),
    page("/models/samples", "POST", roles=ENGINEERING, body={"slug": "digits-small"}),
    page("/uploads/<uuid:pk>", roles=ENGINEERING, make=_upload),
    page("/models/<uuid:pk>", make=_model),
    page("/versions/<uuid:pk>/delete", "POST", roles=ENGINEERING, make=_version),
    page("/versions/<uuid:pk>/file", make=_version),
    page("/versions/<uuid:pk>/evaluation", "POST", roles=ENGINEERING, make=_version),
    operation("POST /uploads", **BUILD, body={"filename": "net.onnx", "size": 100}),
    operation("GET /uploads/{uuid:pk}", **BUILD, make=_upload),
    operation("PUT /uploads/{uuid:pk}/chunks/{int:offset}", **BUILD, make=_chunk),
    operation("POST /uploads/{uuid:pk}/complete", **BUILD, make=_upload),
    operation("DELETE /uploads/{uuid:pk}", **BUILD, make=_upload),
    operation("GET /samples"),
    operation("POST /samples", **BUILD, body={"slug": "digits-small"}),
    operation("GET /versions"),
    operation("GET /versions/{uuid:pk}", make=_version),
    operation("GET /versions/{uuid:pk}/file", make=_version),
    operation("DELETE /versions/{uuid:pk}", **BUILD, make=_version),
    operation("PUT /versions/{uuid:pk}/evaluation", **BUILD, make=_version),
    operation("POST /data-sets", **BUILD, body={}),
    operation("GET /data-sets"),
    operation("GET /data-sets/{uuid:pk}", make=_data_set),
    operation("DELETE /data-sets/{uuid:pk}", **BUILD, make=_data_set),
]
