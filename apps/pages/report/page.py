"""The template context of a program's report page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from typing import Any

from apps import figures
from apps.accounts.problems import Problem
from apps.compilation.models import CompileJob, Program
from apps.compilation.selectors import has_graph_text, program_load, program_on_chip, program_report
from apps.fleet.models import Pool
from apps.pages.report import compare, graph, memory, rows, timeline
from apps.pricing.previews import EXECUTIONS, program_rating, token_prices
from apps.pricing.rating import RatingError
from apps.pricing.selectors import book_in_force

Report = Mapping[str, Any]


@lru_cache(maxsize=6)
def _parsed(key: Any) -> Report:
    return program_report(Program.objects.get(pk=key))


def report_of(program: Program) -> Report:
    """Return the program's stored report. Recently used reports are cached."""
    return _parsed(program.pk)


@dataclass(frozen=True)
class Fit:
    """Whether a program fits into a processor's memory, and the bytes needed and available."""

    target: str
    fits: bool
    needs: int
    available: int | None
    note: str
    program: Program | None


def program_page(program: Program, *, now: datetime) -> dict[str, Any]:
    """Return the template context of the report page."""
    report = report_of(program)
    listed = rows.operation_rows(report)
    ranked = sorted((row for row in listed if row["start"] is not None), key=lambda row: (-row["cycles"], row["index"]))
    return {
        "program": program,
        "id_text": str(program.pk),
        "version": program.model_version,
        "report": report,
        "headline": _headline(program),
        "price": price_of(program, report, now=now),
        "sequence": report.get("sequence"),
        "fits": fits_of(program),
        "siblings": _siblings(program),
        "rows": ranked,
        "rest": [row for row in listed if row["start"] is None],
        "totals": report["totals"],
        "sums": rows.totals(report),
        "units": rows.unit_rows(report),
        "bounds": rows.bound_rows(report),
        "executed": rows.executed_rows(report, program.executed),
        "accuracy": rows.accuracy_rows(program.accuracy),
        "combined": rows.combined_rows(report),
        "peak_share": compare.share_of_peak(program),
        "storage": memory.storage_rows(report, on_chip=program_on_chip(program)),
        "buffers": sorted(report["memory"], key=lambda one: (-one["size"], one["address"]))[:200],
        "map": memory.memory_map(report),
        "timeline": timeline.timeline(report, start=0, end=program.latency_cycles),
        "names": _names(report, listed),
        "profile": _profile(listed),
        "has_graph_text": has_graph_text(program),
        "has_graph": bool(graph.graph(report)["edges"]),
        "comparisons": program.comparisons.order_by("-created_at")[:3],
    }


def _headline(program: Program) -> dict[str, Any]:
    clock, on_chip = program.clock_hz, program_on_chip(program)
    return {
        "kind": "exact" if program.exact else "bound",
        "latency": Fraction(program.latency_cycles, clock),
        "interval": Fraction(program.interval_cycles, clock),
        "per_second": Fraction(clock, program.interval_cycles),
        "link": program.resources["io"]["bytes_in"] + program.resources["io"]["bytes_out"],
        "external": program.resources["io"]["external_in"] + program.resources["io"]["external_out"],
        "storage": on_chip,
        "streamed": program.resources["storage"]["total"] - on_chip,
        "load": load_of(program),
    }


def load_of(program: Program) -> dict[str, Any] | None:
    """Return the bytes loaded before the first item, in total and by kind, and the loading time; None if unknown."""
    load = program_load(program)
    if load is None:
        return None
    kinds = [(kind, load[kind]) for kind in ("instructions", "constants", "state", "external") if load[kind]]
    seconds = Fraction(load["cycles_in"], program.clock_hz)
    return {"bytes": load["bytes_in"], "cycles": load["cycles_in"], "seconds": seconds, "kinds": kinds}


def price_of(program: Program, report: Report, *, now: datetime) -> dict[str, Any]:
    """Return today's price of EXECUTIONS executions in the default class, and of tokens. If the price is unknown, return the
    reason.
    """
    processor_class = report["headline"]["price_class"]
    try:
        book = book_in_force(at=now)
        rating = program_rating(program, book=book, processor_class=processor_class, now=now)
        tokens = token_prices(program, book=book, processor_class=processor_class, now=now)
    except (Problem, RatingError) as reason:
        return {"amount": None, "reason": str(reason)}
    return {
        "amount": rating.amount,
        "currency": rating.currency,
        "rating": rating,
        "book": book,
        "executions": EXECUTIONS,
        "tokens": tokens,
    }


def fits_of(program: Program) -> list[Fit]:
    """Return a Fit for the program and for each variant on another processor.

    Processors whose memory is too small are included.
    """
    same = Program.objects.filter(model_version=program.model_version, precision=program.precision, dims=program.dims)
    newest: dict[str, Program] = {}
    for one in same.order_by("created_at"):
        newest[one.target] = one
    newest[program.target] = program
    sizes = dict(
        Pool.objects.filter(processor__isnull=False).values_list("processor__name", "processor__memory_bytes"),
    )
    ours_first = sorted(newest.items(), key=lambda pair: (pair[1] != program, pair[0]))
    found = [_fit(one, sizes.get(target)) for target, one in ours_first]
    refused = CompileJob.objects.filter(model_version=program.model_version, state=CompileJob.State.FAILED)
    for job in refused.order_by("-created_at"):
        error = job.error or {}
        if job.target not in newest and "asked" in error and not any(fit.target == job.target for fit in found):
            note = f"needs {figures.bytes_format(error['asked'])} of {figures.bytes_format(error['available'])}"
            found.append(
                Fit(job.target, fits=False, needs=error["asked"], available=error["available"], note=note, program=None)
            )
    return found


def _fit(program: Program, available: int | None) -> Fit:
    needs = program_on_chip(program)
    if available is None:
        note = f"needs {figures.bytes_format(needs)}"
    else:
        spare = figures.bytes_format(available - needs)
        note = f"needs {figures.bytes_format(needs)} of {figures.bytes_format(available)}, {spare} to spare"
    return Fit(program.target, fits=True, needs=needs, available=available, note=note, program=program)


def _siblings(program: Program) -> list[Program]:
    return list(program.model_version.programs.exclude(pk=program.pk).order_by("target", "latency_cycles")[:20])


def _names(report: Report, listed: list[dict[str, Any]]) -> dict[str, Any]:
    units = [rows.unit_name(unit, report) for unit in report["units"]]
    return {"rows": [{"name": graph.name_of(row)} for row in listed], "units": units}


def _profile(listed: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "rows": [
            {
                "index": row["index"],
                "name": graph.name_of(row),
                "kind": row["kind"],
                "limit": row["limit_name"],
                "cycles": row["cycles"],
                "operations": row["operations"],
                "bytes": row["read"] + row["written"],
            }
            for row in sorted(listed, key=lambda row: (row["start"] or 0, row["index"]))
            if row["start"] is not None
        ]
    }
