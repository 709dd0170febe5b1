"""The command that shows what a model or a compiled program costs: as text, Markdown, CSV or JSON, and as a trace."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from compiler.bundle import read_programs
from compiler.commands import examples, files, listing, options, programs
from compiler.commands.tables import add_formats, comma_separated, numbers
from compiler.program import Program

WHAT = "a model or a compiled program"
Extra = Callable[[Program, str], tuple[dict[str, Any], list[str]]]
"""What ``takt`` adds to a program's report: further data, and lines in the form that is asked for."""


def add_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", help="a model (ONNX or text form) or a program; - reads standard input")
    options.add_place(command)
    options.add_sizes(command, buckets=True)
    options.add_course(command)
    examples.add_options(command)
    add_formats(command)
    command.add_argument("--trace", metavar="FILE", help="write the schedule for a trace viewer, such as Perfetto")


def run(chosen: argparse.Namespace, extra: Extra | None = None) -> None:
    """Print the report of each program of a file. ``ModelError`` for what cannot be compiled or read."""
    found = read(chosen)
    more = [extra(program, chosen.form) if extra else ({}, []) for program in found]
    if chosen.trace is not None:
        files.keep(chosen.trace, "--trace", chosen.file)
        files.write(chosen.trace, json.dumps(traced(found)).encode(), "--trace")
    out = sys.stderr if chosen.trace == files.PIPE else sys.stdout
    out.write(_rendered(chosen, [program.report() for program in found], more))


def _rendered(
    chosen: argparse.Namespace, reports: Sequence[dict[str, Any]], more: Sequence[tuple[dict[str, Any], list[str]]]
) -> str:
    """The reports in the form that is chosen, each with what a command adds. Text and Markdown name a model by its file."""
    if chosen.form == "json":
        data = [numbers(report) | added for report, (added, _) in zip(reports, more, strict=True)]
        return json.dumps(data[0] if len(data) == 1 else data, indent=2) + "\n"
    if chosen.form == "csv":
        return comma_separated(rows(reports))
    if chosen.file != files.PIPE:
        for report in reports:
            report["headline"]["model"] = Path(chosen.file).name
    render = listing.markdown if chosen.form == "markdown" else listing.report
    return (
        "\n".join(line for report, (_, lines) in zip(reports, more, strict=True) for line in render(report, lines))
        + "\n"
    )


def read(chosen: argparse.Namespace) -> list[Program]:
    """The programs of a file, or those that a model is compiled to."""
    data = files.read(chosen.file, "", WHAT)
    if not programs.is_program(data):
        return programs.of(options.compiled(files.source(chosen.file, data), chosen))
    programs.refuse_typed(chosen.file, chosen)
    return programs.known(programs.of(read_programs(data)), options.described(chosen))


def rows(reports: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each operation of each size, with the columns that sum to the totals."""
    columns = ("index", "name", "kind", *reports[0]["columns"], "limiting")
    return [
        report["headline"]["dims"] | {column: row[column] for column in columns}
        for report in reports
        for row in report["per_operation"]
    ]


def traced(found: Sequence[Program]) -> dict[str, Any]:
    """Trace events of each program, as a process of its own."""
    traces = [program.chrome_trace() for program in found]
    events = [event | {"pid": n} for n, trace in enumerate(traces, 1) for event in trace["traceEvents"]]
    return traces[0] | {"traceEvents": events}
