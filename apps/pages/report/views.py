"""Views for a program's report."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import FileResponse, Http404, HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone

from apps.accounts.access import org_object_get, organisation_get
from apps.compilation.models import Program
from apps.compilation.selectors import (
    BINARY,
    has_graph_text,
    program_disassembly,
    program_graph_text,
    program_open,
    program_ranges,
    program_trace,
)
from apps.pages.report import compare, graph, page, rows, timeline

PROGRAMS_OFFERED = 60
GRAPH = "graph.takt.txt"


def program(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the report page."""
    found = org_object_get(request, Program.objects.select_related("model_version__model"), pk=pk)
    return render(request, "compilation/report.html", page.program_page(found, now=timezone.now()))


def program_compare(request: HttpRequest) -> HttpResponse:
    """Show the comparison of up to four programs (?p=<id>&p=<id>). The first program is the baseline."""
    own = Program.objects.filter(organisation=organisation_get(request)).select_related("model_version__model")
    wanted = list(dict.fromkeys(_uuids(request.GET.getlist("p"))))[: compare.COLUMNS_MAX]
    known = own.in_bulk(wanted)
    if len(known) < len(wanted):
        raise Http404
    chosen = [known[pk] for pk in wanted]
    context = {
        "chosen": chosen,
        "rows": compare.table(chosen, now=timezone.now()) if chosen else [],
        "programs": own.order_by("model_version__model__name", "target", "precision", "-created_at")[:PROGRAMS_OFFERED],
        "columns_max": compare.COLUMNS_MAX,
    }
    return render(request, "compilation/compare.html", context)


def _uuids(texts: list[str]) -> list[UUID]:
    try:
        return [UUID(text) for text in texts]
    except ValueError:
        raise Http404 from None


def program_timeline(request: HttpRequest, pk: UUID) -> JsonResponse:
    """Return the lanes of the schedule in the cycles [from, to) as JSON."""
    found = org_object_get(request, Program, pk=pk)
    start = _cycle(request.GET.get("from", ""), 0)
    end = _cycle(request.GET.get("to", ""), found.latency_cycles)
    return JsonResponse(timeline.timeline(page.report_of(found), start=start, end=end))


def program_graph(request: HttpRequest, pk: UUID) -> JsonResponse:
    """Return the graph's nodes and edges as JSON. Blocks are folded unless the query string has `all=1`."""
    found = org_object_get(request, Program, pk=pk)
    return JsonResponse(graph.graph(page.report_of(found), fold=request.GET.get("all") != "1"))


def program_download(request: HttpRequest, pk: UUID, kind: str) -> HttpResponseBase:
    """Send one file of the report."""
    found = org_object_get(request, Program, pk=pk)
    name = f"{found.digest[:12]}-{kind}"
    if kind == GRAPH and has_graph_text(found):
        file = program_graph_text(found)
        return FileResponse(file, as_attachment=True, filename=name, content_type="text/plain; charset=utf-8")
    if kind == BINARY:  # it may have gigabytes
        binary = program_open(found)
        return FileResponse(binary, as_attachment=True, filename=name, content_type="application/octet-stream")
    known = FILES.get(kind)
    if known is None or (kind == "ranges.json" and not found.accuracy):
        raise Http404
    content_type, write = known
    response = HttpResponse(write(found), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _cycle(text: str, otherwise: int) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else otherwise


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


FILES: dict[str, tuple[str, Callable[[Program], str]]] = {
    "report.json": ("application/json", lambda found: _json(page.report_of(found))),
    "operations.csv": ("text/csv; charset=utf-8", lambda found: rows.operations_csv(page.report_of(found))),
    "trace.json": ("application/json", lambda found: _json(program_trace(found))),
    "ranges.json": ("application/json", program_ranges),
    "program.asm": ("text/plain; charset=utf-8", program_disassembly),
}
