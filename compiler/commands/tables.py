"""Tables and figures of commands in the forms that others read: Markdown, CSV, and numbers in JSON."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

EXACT = ("latency_us", "inferences_per_second", "peak_share", "memory_share", "share", "ratio")
"""Figures that reports keep as text, so that no digit is lost; JSON of commands has them as numbers."""


FORMS = {"json": "data", "markdown": "Markdown", "csv": "a table as CSV"}


def add_formats(command: argparse.ArgumentParser, *names: str) -> None:
    """Options of the names of some ``FORMS`` (default: all), of which one may be given: ``form``."""
    forms = command.add_mutually_exclusive_group()
    for form in names or FORMS:
        forms.add_argument(
            f"--{form}",
            action="store_const",
            const=form,
            dest="form",
            default=argparse.SUPPRESS,
            help=f"print {FORMS[form]} instead of text",
        )


def numbers(data: Any) -> Any:
    """The data with numbers in place of figures that are kept as text; None for one that is not known."""
    if isinstance(data, list):
        return [numbers(one) for one in data]
    if not isinstance(data, dict):
        return data
    return {
        name: (float(Fraction(value)) if value else None)
        if isinstance(value, str) and name.endswith(EXACT)
        else numbers(value)
        for name, value in data.items()
    }


def comma_separated(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of one shape under their names; empty for None."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [], lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(
        {name: line_of(value) if isinstance(value, str) else value for name, value in row.items()} for row in rows
    )
    return out.getvalue()


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A table whose first ``left`` columns begin at the left and whose others end at the right."""
    marks = ["---"] * left + ["---:"] * (len(head) - left)
    return [f"| {' | '.join(row)} |" for row in (head, marks, *([escaped(cell) for cell in row] for row in rows))]


def line_of(text: str) -> str:
    """Names come from models: one line of what can be printed."""
    return "".join(c if c.isprintable() else " " for c in text)


def escaped(text: str) -> str:
    """Text that says nothing to Markdown or HTML."""
    html = line_of(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join(f"\\{c}" if c in "\\`*_[]|~@#!" else c for c in html)
