"""The report of a program: the page, what its drawings ask for, and the downloads."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone

from apps.accounts.access import org_object_get
from apps.compilation.models import Program
from apps.compilation.selectors import program_bytes, program_disassembly, program_trace
from apps.config.pages.report import graph, page, rows, timeline


def program(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page."""
    found = org_object_get(request, Program.objects.select_related("model_version__model"), pk=pk)
    return render(request, "compilation/report.html", page.program_page(found, now=timezone.now()))


def program_timeline(request: HttpRequest, pk: UUID) -> JsonResponse:
    """The lanes in the cycles [from, to), summed up as far as the pixels need."""
    found = org_object_get(request, Program, pk=pk)
    start = _cycle(request.GET.get("from", ""), 0)
    end = _cycle(request.GET.get("to", ""), found.latency_cycles)
    return JsonResponse(timeline.timeline(page.report_of(found), start=start, end=end))


def program_graph(request: HttpRequest, pk: UUID) -> JsonResponse:
    """Nodes and edges, blocks folded unless `?all=1`."""
    found = org_object_get(request, Program, pk=pk)
    return JsonResponse(graph.graph(page.report_of(found), fold=request.GET.get("all") != "1"))


def program_download(request: HttpRequest, pk: UUID, kind: str) -> HttpResponse:
    """One of the files: report.json, operations.csv, trace.json, program.bin, program.asm."""
    found = org_object_get(request, Program, pk=pk)
    known = FILES.get(kind)
    if known is None:
        raise Http404
    content_type, write = known
    response = HttpResponse(write(found), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{found.digest[:12]}-{kind}"'
    return response


def _cycle(text: str, otherwise: int) -> int:
    """A cycle of the query; what is no whole number is as if it were not there."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else otherwise


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


FILES: dict[str, tuple[str, Callable[[Program], str | bytes]]] = {
    "report.json": ("application/json", lambda found: _json(page.report_of(found))),
    "operations.csv": ("text/csv; charset=utf-8", lambda found: rows.operations_csv(page.report_of(found))),
    "trace.json": ("application/json", lambda found: _json(program_trace(found))),
    "program.bin": ("application/octet-stream", program_bytes),
    "program.asm": ("text/plain; charset=utf-8", program_disassembly),
}
