"""Queries about compile jobs and programs."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from dataclasses import asdict, fields
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.files.base import File
from django.core.files.storage import default_storage
from django.db.models import QuerySet

from apps.accounts.models import Organisation
from apps.compilation.dimensions import names_shown
from apps.compilation.models import CompileJob, CompileRequest, OwnProcessor, Program
from apps.fleet.selectors import pools, processor_find, processors_offered
from apps.registry.models import ModelVersion
from compiler import targets
from compiler.isa.resources import Storage
from compiler.reporting import load_of
from compiler.targets import Target

# A room above says what a thousand executions cost: {"amount", "currency", "book", "klass"}, or None without a price.
PRICERS: list[Callable[[Program, datetime], dict[str, Any] | None]] = []

BINARY, REPORT, TRACE, ASSEMBLY = "program.bin", "report.json.gz", "trace.json.gz", "program.asm.gz"
RANGES = "ranges.json.gz"
GRAPH = "graph.takt.txt.gz"
STORED = {field.name for field in fields(Storage)}


def target_names(organisation: Organisation) -> list[str]:
    """Return the names of the processors for which the organisation can compile."""
    own = (row.name for row in processors_own(organisation))
    return list(dict.fromkeys([*sorted(targets.names()), *processors_offered(), *own]))


def processors_own(organisation: Organisation) -> QuerySet[OwnProcessor]:
    """Return the organisation's own processors, sorted by name."""
    return OwnProcessor.objects.filter(organisation=organisation).order_by("name")


def target_text(job: CompileJob) -> str:
    """Return the file of a job's custom processor; empty for a built-in processor."""
    own = processors_own(job.organisation).filter(name=job.target).values_list("text", flat=True).first()
    return own or processors_offered().get(job.target, "")


def target_of(program: Program) -> Target | None:
    """Return the description of the processor for which a program was compiled.

    Return None if the description has changed or was removed.
    """
    if program.target in targets.names():
        found = targets.load(program.target)
    else:
        row = processors_own(program.organisation).filter(name=program.target, digest=program.target_digest).first()
        if row is None:
            return processor_find(name=program.target, digest=program.target_digest)
        found = targets.parse(row.text)
    return found if found.digest == program.target_digest else None


def targets_with_pools() -> set[str]:
    """Return the names of the processors with an active pool."""
    return set(pools().filter(processor__isnull=False).values_list("processor__name", flat=True))


def dimension_names(version: ModelVersion) -> dict[str, str]:
    """Return the displayed name of each variable dimension of a version."""
    return names_shown(version.inputs, [row["name"] for row in version.symbolic_dims])


def program_resources(program: Program) -> dict[str, Any]:
    """Return the counts for loading the program and for one execution, as JSON.

    The counts for loading are missing if they are unknown.
    """
    return _with_load(program, program.resources)


def _with_load(program: Program, resources: dict[str, Any]) -> dict[str, Any]:
    if "load" in resources or not set(resources.get("storage", ())) >= STORED:
        return resources
    target = target_of(program)
    if target is None:
        return resources
    return {**resources, "load": asdict(load_of(Storage(**resources["storage"]), target))}


def program_on_chip(program: Program) -> int:
    """Return the bytes of on-chip memory that a program needs: its storage without instructions that are streamed.

    All of the storage if the processor is unknown.
    """
    storage, target = program.resources["storage"], target_of(program)
    if target is None:
        return int(storage["total"])
    return target.on_chip(storage["total"] - storage["instructions"], storage["instructions"])


def program_load(program: Program) -> dict[str, int] | None:
    """Return the bytes and cycles for loading the program onto its processor; None if unknown."""
    found: dict[str, int] | None = program_resources(program).get("load")
    return found


def load_seconds(program: Program) -> Fraction:
    """Return the device time for loading the program at full clock, in seconds; 0 if unknown."""
    load = program_load(program)
    return Fraction(0) if load is None else Fraction(load["cycles_in"], program.clock_hz)


def program_bytes(program: Program) -> bytes:
    return _stored(program.binary_key)


def program_save(program: Program, path: Path) -> None:
    """Write the binary to a path, piece by piece. Raises FileNotFoundError if it is missing."""
    with program_open(program) as stored, path.open("wb") as file:
        shutil.copyfileobj(stored, file, 2**20)


def program_open(program: Program) -> File[bytes]:
    """Return the open file of the binary. Raises FileNotFoundError if it is missing."""
    return default_storage.open(program.binary_key, "rb")


def program_report(program: Program) -> dict[str, Any]:
    """Return the compiler's report on the program."""
    report: dict[str, Any] = json.loads(gzip.decompress(_stored(program.report_key)))
    resources = report.get("resources")
    return report if resources is None else {**report, "resources": _with_load(program, resources)}


def program_trace(program: Program) -> dict[str, Any]:
    """Return the schedule as events for trace viewers."""
    trace: dict[str, Any] = json.loads(gzip.decompress(_stored(_sibling(program, TRACE))))
    return trace


def program_disassembly(program: Program) -> str:
    return gzip.decompress(_stored(_sibling(program, ASSEMBLY))).decode()


def program_ranges(program: Program) -> str:
    """Return the calibrated ranges of a program in a narrow precision.

    The ranges replace the example inputs when the program is compiled again.
    """
    return gzip.decompress(_stored(_sibling(program, RANGES))).decode()


def has_graph_text(program: Program) -> bool:
    """Return whether the program's graph is stored as text.

    Programs from before there was a text, and graphs too large to be read back, have none.
    """
    return default_storage.exists(_sibling(program, GRAPH))


def program_graph_text(program: Program) -> gzip.GzipFile:
    """Return the open file of the graph in the text form, with its weights. Raises FileNotFoundError if there is none.

    The compiler makes the same program from it.
    """
    return gzip.open(default_storage.open(_sibling(program, GRAPH), "rb"))


def calibration_bytes(job: CompileJob) -> bytes:
    return _stored(job.calibration_key)


def _sibling(program: Program, name: str) -> str:
    return f"{program.binary_key.rpartition('/')[0]}/{name}"


def _stored(key: str) -> bytes:
    with default_storage.open(key, "rb") as file:
        data: bytes = file.read()
    return data


def price_preview(program: Program, *, now: datetime) -> dict[str, Any] | None:
    """Return the price of 1,000 executions in the default class; None if there is no price."""
    for pricer in PRICERS:
        found = pricer(program, now)
        if found is not None:
            return found
    return None


def jobs_list(*, organisation: Organisation) -> QuerySet[CompileJob]:
    """Return the organisation's compile jobs, newest first."""
    return (
        CompileJob.objects.filter(organisation=organisation)
        .select_related("model_version__model")
        .order_by("-created_at", "-id")
    )


def jobs_of_version(version: ModelVersion) -> list[CompileJob]:
    """Return the newest compile jobs of the version."""
    return list(CompileJob.objects.filter(model_version=version).order_by("-created_at")[:20])


def jobs_last(version: ModelVersion) -> list[CompileJob]:
    """Return the latest compile of the version, with all other compiles of the same request."""
    rows = CompileJob.objects.filter(model_version=version, compares_with=None)
    jobs = rows.select_related("request").order_by("-created_at", "-id")
    last = jobs.first()
    if last is None or last.request_id is None:
        return [last] if last else []
    return list(jobs.filter(request=last.request_id))


def jobs_of_request(request: CompileRequest) -> list[CompileJob]:
    """Return the jobs of a request, sorted by processor and precision."""
    return list(request.jobs.order_by("target", "precision", "id"))


def programs_of_version(version: ModelVersion) -> list[Program]:
    """Return the version's programs, sorted by target, and newest first for each target."""
    rows = Program.objects.filter(model_version=version).select_related("model_version__model")
    return list(rows.order_by("target", "-created_at"))


def programs_of_sequence(program: Program) -> list[Program]:
    """Return the programs that continue a sequence as this one does, with any number of tokens in one execution, few tokens
    first. For the same sizes it is the newest, or the program itself. Empty if the program continues no sequence.
    """
    if not program.sequence:
        return []
    rows = Program.objects.filter(
        model_version=program.model_version_id,
        target_digest=program.target_digest,
        precision=program.precision,
        options=program.options,
    )
    newest = {sizes_key(one): one for one in rows.exclude(sequence={}).order_by("created_at")}
    found = {**newest, sizes_key(program): program}.values()
    return sorted(found, key=lambda one: (one.sequence["tokens"], sizes_key(one)))


def sizes_key(program: Program) -> tuple[tuple[str, int], ...]:
    """Return the sizes of a program in a form that can be a key."""
    return tuple(sorted(program.dims.items()))


def programs_of_job(job: CompileJob) -> list[Program]:
    """Return the programs of a job in the order of the job's buckets."""
    found: dict[UUID, Program] = Program.objects.select_related("model_version__model").in_bulk(job.program_ids)
    return [found[pk] for pk in job.program_ids if pk in found]


def programs_of_versions(versions: list[UUID]) -> list[Program]:
    """Return all programs of these versions, newest first."""
    rows = Program.objects.filter(model_version_id__in=versions).select_related("model_version__model")
    return list(rows.order_by("-created_at"))
