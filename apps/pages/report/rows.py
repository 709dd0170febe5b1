"""The table of operations with totals and bounds."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from apps.figures import NARROW_SPACE

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
    "operations",
    "executed_operations",
    "cycles",
    "weights",
    "activations",
    "state",
    "instructions",
    "scratch",
    "storage",
    "bytes_in",
    "bytes_out",
    "external_in",
    "external_out",
    "read",
    "written",
    "energy_fj",
)
COLUMNS = (
    "index",
    "name",
    "source",
    "kind",
    *SUMMED,
    "share_of_cycles",
    "share_of_operations",
    "limiting",
    "start",
    "end",
)

NO_NOISE = 999.0
UNITS = {
    "matrix": "matrix planes",
    "weights": "weight loading",
    "vector": "vector unit",
    "move": "data movement",
    "link_in": "link in",
    "link_out": "link out",
    "external": "external memory",
    "control": "control",
}


def share(part: int, whole: int) -> Fraction:
    """Return `part` divided by `whole`; 0 if `whole` is 0."""
    return Fraction(part, whole) if whole else Fraction(0)


def operation_rows(report: Report) -> list[dict[str, Any]]:
    """Return a row for each operation, in the compiler's order."""
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
    """Return, for each column with a total, the sum of the rows, the main figure, and whether both are equal."""
    found = {}
    for column, way in TOTALS.items():
        headline: Any = report["resources"]
        for key in way:
            headline = headline[key]
        total = sum(row[column] for row in report["per_operation"])
        found[column] = {"sum": total, "headline": headline, "agrees": total == headline}
    return found


def unit_name(unit: Mapping[str, Any], report: Report) -> str:
    """Return the name of a unit's lane, such as "link in" for the only unit of a class or "weights 2" for one of several."""
    several = sum(one["class"] == unit["class"] for one in report["units"]) > 1
    name = str(unit["class"]).replace("_", " ")
    return f"{name} {unit['instance']}" if several else name


def unit_rows(report: Report) -> list[dict[str, Any]]:
    """Return the busy and idle cycles of each unit during one inference."""
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
    """Return each proven lower bound and the value reached. `ratio` is reached / bound, and `gap` is ratio - 1."""
    rows = []
    for key, title in (("latency", "Latency"), ("interval", "Interval"), ("memory", "Peak memory")):
        known = report["bounds"].get(key)
        if known and known["bound"]:
            ratio = Fraction(known["ours"], known["bound"])
            limit = limit_text(known["limit"])
            rows.append(
                {
                    **known,
                    "key": key,
                    "title": title,
                    "limit": limit,
                    "ratio": ratio,
                    "gap": ratio - 1,
                    "reach": 1 / ratio,
                }
            )
    return rows


def limit_text(limit: str) -> str:
    """Return a limit in the words that pages use, such as "the link in port" for "the link_in port"."""
    return limit.replace("link_in", "link in").replace("link_out", "link out").replace("external", "external memory")


def combined_rows(report: Report) -> list[list[str]]:
    """Return the names of combined contractions, one list for each group."""
    return [[re.sub(r"/\d+$", "", name) for name in group] for group in report.get("combined", [])]


def executed_rows(report: Report, executed: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the bounds next to the values counted in the verification run; empty if the cost is exact."""
    if not executed:
        return []
    bound = report["resources"]
    pairs = [
        ("Cycles", bound["cycles"], executed["cycles"]),
        ("Operations", bound["operations"], executed["operations"]),
        ("Bytes read on the chip", bound["memory"]["read"], executed["memory"]["read"]),
        ("Bytes written on the chip", bound["memory"]["written"], executed["memory"]["written"]),
    ]
    return [{"title": title, "bound": most, "executed": seen, "part": share(seen, most)} for title, most, seen in pairs]


def accuracy_rows(accuracy: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the quantisation error of each output: signal-to-noise ratio in dB, errors, and changed top-1 classes."""
    rows = []
    for name, values in accuracy.get("outputs", {}).items():
        changed, _, total = values.get("changed_top1", "").partition("/")
        rows.append(
            {
                "name": name,
                "snr": decibels_text(values.get("snr_db")),
                "largest": _decimal(values.get("max")),
                "relative": _decimal(values.get("relative")),
                "changed": f"{changed} of {total}" if total else "",
            }
        )
    return rows


def decibels_text(value: float | None) -> str:
    """Format a ratio in decibels. 999 means "no difference", and -999 means "not a number"."""
    if value is None:
        return "not measured"
    if abs(value) >= NO_NOISE:
        return "no difference" if value > 0 else "not a number"
    return f"{value:.1f}{NARROW_SPACE}dB"


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def operations_csv(report: Report) -> str:
    """Return the table of operations as CSV. The last row has the totals."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    rows = operation_rows(report)
    writer.writerows([[_plain(row[column]) for column in COLUMNS] for row in rows])
    sums = {column: sum(row[column] for row in rows) for column in SUMMED}
    writer.writerow([{"name": "total", **sums}.get(column, "") for column in COLUMNS])
    return out.getvalue()


def _plain(value: Any) -> Any:
    # A spreadsheet must not interpret a cell as a formula.
    if isinstance(value, Fraction):
        millionths = round(value * 10**6)
        return f"{millionths // 10**6}.{millionths % 10**6:06d}"
    if isinstance(value, list):
        value = " ".join(value)
    if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"}:
        return f"'{value}"
    return "" if value is None else value
