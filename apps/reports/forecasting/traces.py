"""Read traces of requests from CSV, OpenTelemetry spans or access logs.

Lines may be out of chronological order by at most `TOLERANCE`.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import numpy.typing as npt

from apps.reports.forecasting import formats
from apps.reports.forecasting.formats import Event, TraceError

TOLERANCE = timedelta(minutes=5)
EVENTS_MAX = 5_000_000
LINE_MAX = 65_536  # characters
SPAN_MAX = timedelta(days=3660)
PROGRAMS_MAX = 10_000
SHORT = {"csv": "CSV", "otlp": "OpenTelemetry", "access": "access log"}


@dataclass(frozen=True, eq=False)
class Trace:
    """Requests in chronological order. `micros` holds microseconds since 1970 (UTC), `counts` holds the number of
    requests, and `programs` holds indices into `names`.
    """

    format: str
    micros: npt.NDArray[np.int64]
    counts: npt.NDArray[np.float64]
    programs: npt.NDArray[np.int64]
    names: tuple[str, ...]
    ignored: tuple[str, ...] = ()  # unknown columns

    @property
    def total(self) -> float:
        return float(self.counts.sum())


def trace_read(lines: Iterable[bytes], *, format: str = "") -> Trace:  # noqa: A002 - the field's word
    """Read a trace. `format` is "csv", "otlp" or "access"; if empty, the format is detected from the first line. Raises
    TraceError, which names the line and the remedy.
    """
    numbered = _lines(lines)
    try:
        first = next(numbered)
    except StopIteration:
        raise TraceError("The trace is empty. Upload a file with at least one request.") from None
    chosen = format or formats.detect(first[1])
    if chosen not in SHORT:
        raise TraceError(f"There is no format '{chosen}'. Choose csv, otlp or access.")
    reader = formats.READERS[chosen](first)
    return _collected(chosen, reader, _rows(reader, first, numbered))


def _rows(
    reader: formats.Reader, first: tuple[int, str], rest: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, Event]]:
    if not reader.has_header:
        yield from ((first[0], event) for event in reader.events(*first))
    for number, line in rest:
        for event in reader.events(number, line):
            yield number, event


def _lines(lines: Iterable[bytes]) -> Iterator[tuple[int, str]]:
    for number, raw in enumerate(lines, 1):
        if len(raw) > LINE_MAX:
            raise TraceError(
                f"Line {number} is {len(raw):,} bytes long; the maximum is {LINE_MAX:,}. Split the file into lines."
            )
        try:
            text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
        except UnicodeDecodeError:
            raise TraceError(f"Line {number} is not UTF-8 text. Save the file as UTF-8.") from None
        if "\0" in text:
            raise TraceError(f"Line {number} has a NUL character (U+0000). Save the file as UTF-8 text.")
        if text:
            yield number, text


def _collected(chosen: str, reader: formats.Reader, rows: Iterator[tuple[int, Event]]) -> Trace:
    micros, counts, programs = array("q"), array("d"), array("q")
    places: dict[str, int] = {}
    latest = first = None
    slack = TOLERANCE // timedelta(microseconds=1)
    zoned: bool | None = None
    for number, event in rows:
        zoned = event.has_zone if zoned is None else zoned
        if zoned != event.has_zone:
            fault = (
                "has a time zone, but earlier lines have none"
                if event.has_zone
                else "has no time zone, but earlier lines have one"
            )
            raise TraceError(f"Line {number} {fault}. Give a time zone in every line or in none.")
        if latest is not None and event.micros < latest - slack:
            behind = timedelta(microseconds=latest - event.micros)
            raise TraceError(
                f"The time in line {number} is {behind} earlier than the time in a previous line; at most "
                f"{TOLERANCE} is allowed. "
                "Sort the file by time."
            )
        first = event.micros if first is None else min(first, event.micros)
        latest = event.micros if latest is None else max(latest, event.micros)
        _within(number, first, latest, len(micros))
        micros.append(event.micros)
        counts.append(event.amount)
        programs.append(_place(number, places, event.program))
    if not micros:
        raise TraceError("The trace has no requests. Upload a file with at least one request.")
    return _trace(chosen, reader, micros, counts, programs, tuple(places))


def _place(number: int, places: dict[str, int], name: str) -> int:
    place = places.setdefault(name, len(places))
    if len(places) > PROGRAMS_MAX:
        raise TraceError(
            f"The trace has more than {PROGRAMS_MAX:,} programs at line {number}. Upload a trace with fewer programs."
        )
    return place


def _within(number: int, first: int, latest: int, known: int) -> None:
    if known >= EVENTS_MAX:
        raise TraceError(
            f"At line {number}, the trace exceeds the limit of {EVENTS_MAX:,} requests. Upload a trace of a shorter period."
        )
    if latest - first > SPAN_MAX // timedelta(microseconds=1):
        years = SPAN_MAX.days // 365
        raise TraceError(
            f"The time in line {number} is more than {years} years from the time in another line. Check the "
            "year, or split the file."
        )


def _trace(
    chosen: str,
    reader: formats.Reader,
    micros: array[int],
    counts: array[float],
    programs: array[int],
    names: tuple[str, ...],
) -> Trace:
    times = np.frombuffer(micros, dtype=np.int64)
    order = np.argsort(times, kind="stable")
    amounts, which = np.frombuffer(counts, dtype=np.float64)[order], np.frombuffer(programs, dtype=np.int64)[order]
    if not amounts.any():
        raise TraceError("Every count in the trace is 0. Upload a period with requests.")
    return Trace(chosen, times[order], amounts, which, names, reader.ignored)
