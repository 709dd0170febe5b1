"""The volume of a task, stated as a total, a rate or a trace of requests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil

import numpy as np

from apps.cli.planning.reading import FileFault, Table, file_read

KEYS = ("items", "rate", "hours", "trace")
HOURS_MAX = 62 * 24  # maximum period of a quote
HOUR = timedelta(hours=1)
MICROS = 1_000_000
BUCKET = 60  # seconds of the interval in which the peak of a trace is counted


@dataclass(frozen=True)
class Volume:
    """The number of items of a task.

    `items` is the total. `peak` is in items per second; `period` is the time in which the items arrive. `peak` and
    `period` are None if only a total is stated.
    """

    items: int
    peak: Fraction | None
    period: timedelta | None
    words: str


def volume_read(task: Table) -> Volume:
    """Read the volume. Raises FileFault."""
    table = task.table("volume")
    if table is None:
        raise task.wrong("volume", "state how much is to be done: [volume] with items, rate and hours, or trace.")
    table.only(KEYS)
    ways = [key for key in ("items", "rate", "trace") if key in table]
    if len(ways) != 1:
        raise task.wrong("volume", "state one of items, rate (with hours) or trace, and no other of them.")
    if ways != ["rate"] and "hours" in table:
        raise table.wrong("hours", "it belongs to rate; remove it.")
    return {"items": _total, "rate": _rate, "trace": _trace}[ways[0]](table)


def _total(table: Table) -> Volume:
    items = table.whole("items") or 1
    return Volume(items, None, None, f"{items:,} items")


def _rate(table: Table) -> Volume:
    rate = table.number("rate", above=True, most=Decimal(10) ** 9)
    hours = table.number("hours", above=True, most=Decimal(HOURS_MAX))
    if rate is None or hours is None:
        raise table.wrong(
            "hours", f"state for how many hours the rate holds, at most {HOURS_MAX:,}, such as hours = 24."
        )
    items = ceil(Fraction(rate) * Fraction(hours) * 3600)
    period = timedelta(microseconds=int(Fraction(hours) * 3600 * MICROS))
    return Volume(items, Fraction(rate), period, f"{rate.normalize():,f} items a second for {hours.normalize():f} h")


def _trace(table: Table) -> Volume:
    from apps.reports.forecasting.formats import TraceError
    from apps.reports.forecasting.traces import trace_read

    path = table.path_of("trace")
    lines = file_read(
        path, "a trace of requests: CSV, OpenTelemetry spans or an access log", named_by=table.at("trace")
    )
    try:
        trace = trace_read(lines.splitlines(keepends=True))
    except TraceError as error:
        raise FileFault(path, "", str(error)) from None
    start = int(trace.micros.min()) // MICROS
    minutes = np.bincount((trace.micros // MICROS - start) // BUCKET, weights=trace.counts)
    period = timedelta(seconds=BUCKET * len(minutes))
    if period > HOUR * HOURS_MAX:
        raise FileFault(
            path,
            "",
            f"the trace is longer than {HOURS_MAX // 24} days, as far as a quote reaches; give a shorter part.",
        )
    items = ceil(trace.total)
    peak = Fraction(ceil(minutes.max()), BUCKET)
    return Volume(
        max(1, items), peak, period, f"{items:,} requests of {path.name}, at most {ceil(minutes.max()):,} a minute"
    )
