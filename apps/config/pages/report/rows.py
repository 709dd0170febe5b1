"""The table of operations, its totals, and the bounds: every row adds up to the headline."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

Report = Mapping[str, Any]

# column of a row -> where its total stands in the resources
TOTALS = {
    "operations": ("operations",),
    "executed_operations": ("executed_operations",),
    "cycles": ("cycles",),
    "storage": ("storage", "total"),
    "read": ("memory", "read"),
    "written": ("memory", "written"),
    "bytes_in": ("io", "bytes_in"),
    "bytes_out": ("io", "bytes_out"),
    "energy_fj": ("energy_fj",),
}
SUMMED = (
    "operations", "executed_operations", "cycles", "weights", "activations", "state", "instructions", "scratch", "storage",
    "bytes_in", "bytes_out", "external_in", "external_out", "read", "written", "energy_fj",
)  # fmt: skip
COLUMNS = ("index", "name", "source", "kind", *SUMMED, "share_of_cycles", "share_of_operations", "limiting", "start", "end")

UNITS = {
    "matrix": "matrix planes",
    "weights": "weight loading",
    "vector": "vector unit",
    "move": "data movement",
    "link_in": "link in",
    "link_out": "link out",
}


def share(part: int, whole: int) -> Fraction:
    """part / whole, nought for an empty whole."""
    return Fraction(part, whole) if whole else Fraction(0)


def operation_rows(report: Report) -> list[dict[str, Any]]:
    """One row per compiled operation in the compiler's order, with its shares of the totals and its limit in words."""
    resources = report["resources"]
    rows = []
    for row in report["per_operation"]:
        known = set(row["source"]) - {row["name"]}
        rows.append(
            {
                **row,
                "origin": ", ".join(sorted(known)),
                "share_of_cycles": share(row["cycles"], resources["cycles"]),
                "share_of_operations": share(row["operations"], resources["operations"]),
                "limit_name": UNITS.get(row["limiting"], row["limiting"]),
            }
        )
    return rows


def totals(report: Report) -> dict[str, dict[str, Any]]:
    """For every column that stands in the headline too: the sum of the rows, the headline, and whether the two agree."""
    found = {}
    for column, way in TOTALS.items():
        headline: Any = report["resources"]
        for key in way:
            headline = headline[key]
        total = sum(row[column] for row in report["per_operation"])
        found[column] = {"sum": total, "headline": headline, "agrees": total == headline}
    return found


def unit_rows(report: Report) -> list[dict[str, Any]]:
    """How long each unit is busy during one inference."""
    latency = report["resources"]["cycles"]
    return [
        {
            **unit,
            "title": UNITS.get(unit["class"], unit["class"]),
            "part": share(unit["busy"], latency),
            "idle": latency - unit["busy"],
        }
        for unit in report["units"]
    ]


def bound_rows(report: Report) -> list[dict[str, Any]]:
    """Each proven lower bound beside what was reached: ratio = reached / bound, `gap` what lies above it."""
    rows = []
    for key, title in (("latency", "Latency"), ("interval", "Interval"), ("memory", "Memory")):
        known = report["bounds"].get(key)
        if known and known["bound"]:
            ratio = Fraction(known["ours"], known["bound"])
            rows.append({**known, "key": key, "title": title, "ratio": ratio, "gap": ratio - 1, "reach": 1 / ratio})
    return rows


def operations_csv(report: Report) -> str:
    """The table as CSV: plain integers, shares as decimals with six places, and a last row with the totals."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = operation_rows(report)
    writer.writerows([[_plain(row[column]) for column in COLUMNS] for row in rows])
    sums = {column: sum(row[column] for row in rows) for column in SUMMED}
    writer.writerow([{"name": "total", **sums}.get(column, "") for column in COLUMNS])
    return out.getvalue()


def _plain(value: Any) -> Any:
    """A cell that no spreadsheet takes for a formula."""
    if isinstance(value, Fraction):
        millionths = round(value * 10**6)
        return f"{millionths // 10**6}.{millionths % 10**6:06d}"
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return "" if value is None else value
