"""Who may open the addresses of compilation."""

from __future__ import annotations

import gzip
from typing import Any
from uuid import uuid4

from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.utils import timezone

from apps.accounts.roles import ENGINEERING, Scope
from apps.compilation.models import CompileJob, CompileRequest, Program
from apps.compilation.services import processor_add
from apps.compilation.stages import waiting
from compiler import targets
from tests.cast import Cast
from tests.registry.tenancy import bare_version
from tests.tenancy import operation, page


def bare_job(cast: Cast, state: str = CompileJob.State.DONE) -> CompileJob:
    """A job that never ran: enough to ask who may open it."""
    return CompileJob.objects.create(
        organisation=cast.organisation,
        model_version=bare_version(cast),
        created_by=cast.engineer,
        target="lpu",
        state=state,
        stages=[waiting({})],
        created_at=timezone.now(),
    )


def bare_program(cast: Cast) -> Program:
    """A row with artefacts that say nothing: enough to ask who may open it."""
    job, place = bare_job(cast), f"programs/{uuid4()}"
    for name in ("report.json.gz", "trace.json.gz", "program.asm.gz", "graph.takt.txt.gz"):
        default_storage.save(f"{place}/{name}", ContentFile(gzip.compress(b"{}")))
    return Program.objects.create(
        organisation=cast.organisation,
        model_version=job.model_version,
        compile_job=job,
        target="lpu",
        target_digest="0" * 64,
        precision="float32",
        options_digest="0" * 64,
        compiler_version="1",
        digest=uuid4().hex * 2,
        binary_bytes=3,
        binary_key=default_storage.save(f"{place}/program.bin", ContentFile(b"abc")),
        report_key=f"{place}/report.json.gz",
        inputs=job.model_version.inputs,
        outputs=job.model_version.outputs,
        resources={"storage": {"total": 1}},
        bounds={},
        exact=True,
        latency_cycles=10,
        interval_cycles=5,
        clock_hz=900_000_000,
        operations=7,
        executed_operations=7,
        created_at=timezone.now(),
    )


def _version(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_version(cast).pk}


def _job(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_job(cast).pk}


def _request(cast: Cast) -> dict[str, Any]:
    version = bare_version(cast)
    made = CompileRequest.objects.create(
        organisation=cast.organisation, model_version=version, created_by=cast.engineer, created_at=timezone.now()
    )
    return {"pk": made.pk}


def _program(cast: Cast) -> dict[str, Any]:
    return {"pk": bare_program(cast).pk}


def own_file(name: str = "mine") -> bytes:
    """A processor's file of one's own: a shipped one under another name."""
    return targets.text("lpu").replace('name = "lpu"', f'name = "{name}"', 1).encode()


def _processor(cast: Cast) -> dict[str, Any]:
    row = processor_add(organisation=cast.organisation, data=own_file(), actor=cast.engineer, now=timezone.now())
    return {"pk": row.pk}


BUILD: dict[str, Any] = {"roles": ENGINEERING, "scope": Scope.BUILD}

ROUTES = [
    page("/versions/<uuid:pk>", make=_version),
    page("/versions/<uuid:pk>", "POST", roles=ENGINEERING, make=_version),
    page("/versions/<uuid:pk>/compile", "POST", roles=ENGINEERING, make=_version),
    page("/compiles"),
    page("/compiles/requests/<uuid:pk>", make=_request),
    page("/compiles/requests/<uuid:pk>/cancel", "POST", roles=ENGINEERING, make=_request),
    page("/compiles/<uuid:pk>", make=_job),
    page("/compiles/<uuid:pk>/cancel", "POST", roles=ENGINEERING, make=_job),
    page("/compiles/<uuid:pk>/retry", "POST", roles=ENGINEERING, make=_job),
    page("/programs/<uuid:pk>/compare", "POST", roles=ENGINEERING, make=_program),
    page("/processors"),
    page("/processors", "POST", roles=ENGINEERING),
    page("/processors/<uuid:pk>", make=_processor),
    page("/processors/<uuid:pk>/remove", "POST", roles=ENGINEERING, make=_processor),
    operation("GET /targets"),
    operation("POST /compiles", **BUILD, body={}),
    operation("GET /compiles"),
    operation("GET /compiles/{uuid:pk}", make=_job),
    operation("POST /compiles/{uuid:pk}/cancel", **BUILD, make=_job),
    operation("POST /compiles/{uuid:pk}/retry", **BUILD, make=_job),
    operation("GET /programs"),
    operation("GET /programs/{uuid:pk}", make=_program),
    operation("GET /programs/{uuid:pk}/report", make=_program),
    operation("GET /programs/{uuid:pk}/binary", make=_program),
    operation("GET /programs/{uuid:pk}/trace", make=_program),
    operation("GET /programs/{uuid:pk}/disassembly", make=_program),
    operation("GET /programs/{uuid:pk}/graph-text", make=_program),
    operation("POST /programs/{uuid:pk}/compare", **BUILD, make=_program),
]
