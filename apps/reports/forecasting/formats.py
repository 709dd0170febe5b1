"""Readers for the trace formats. Error messages name the line and the remedy."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
COUNT_MAX = 1e9
TIME_COLUMNS = ("timestamp", "time", "ts")
COUNT_COLUMNS = ("count", "requests")
PROGRAM_COLUMNS = ("program", "model")
# host ident user [time] "request" status bytes, and what the combined format adds
_ACCESS = re.compile(r'^\S+ \S+ .*?\[(?P<time>[^\]]+)\] "(?P<request>[^"]*)" \d{3} (?:\d+|-)(?: .*)?$')


class TraceError(ValueError):
    """Raised if a trace cannot be read; the message names the line and the remedy."""


class Event(NamedTuple):
    """A number of requests (`amount`) for a program at one instant. The instant is in microseconds since 1970 (UTC)."""

    micros: int
    amount: float
    program: str
    has_zone: bool


class Reader(Protocol):
    """Converts the lines of a trace to events."""

    has_header: bool
    ignored: tuple[str, ...]

    def events(self, number: int, line: str) -> Iterator[Event]:
        """Yield the events of a line."""


def detect(first: str) -> str:
    """Return the format of a trace, detected from the first line."""
    if first.startswith("{"):
        return "otlp"
    return "access" if _ACCESS.match(first) else "csv"


class CsvReader:
    """Reads CSV with a header. The column `timestamp` is required; `count` and `program` are optional."""

    has_header = True

    def __init__(self, first: tuple[int, str]) -> None:
        number, header = first
        names = [name.strip().lower() for name in _cells(number, header)]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise TraceError(f"Line {number} names the column '{repeated[0]}' twice. Name each column once.")
        self.names = names
        self.time = self._column(TIME_COLUMNS)
        if self.time is None:
            raise TraceError(
                f"Line {number} does not name the column 'timestamp'. Begin the file with: timestamp,count,program"
            )
        self.count, self.program = self._column(COUNT_COLUMNS), self._column(PROGRAM_COLUMNS)
        known = {self.time, self.count, self.program}
        self.ignored = tuple(name for place, name in enumerate(names) if place not in known)

    def _column(self, known: tuple[str, ...]) -> int | None:
        return next((self.names.index(name) for name in known if name in self.names), None)

    def events(self, number: int, line: str) -> Iterator[Event]:
        """Yield the event of a line."""
        cells = _cells(number, line)
        if len(cells) != len(self.names):
            wanted = len(self.names)
            raise TraceError(
                f"Line {number} has {len(cells)} columns, but the first line has {wanted}. Make them equal."
            )
        assert self.time is not None
        micros, has_zone = iso_instant(number, cells[self.time])
        count = 1.0 if self.count is None else _count(number, cells[self.count])
        program = "" if self.program is None else cells[self.program].strip()
        yield Event(micros, count, program, has_zone)


def _cells(number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True))
    except csv.Error:
        raise TraceError(
            f"Line {number} is not CSV: its quotes do not match. Close every quote, and double each quote inside a cell."
        ) from None


def iso_instant(number: int, text: str) -> tuple[int, bool]:
    """Return the microseconds since 1970 (UTC), and whether the text states a time zone."""
    try:
        read = datetime.fromisoformat(text.strip())
        has_zone = read.tzinfo is not None
        return ((read if has_zone else read.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND, has_zone
    except (ValueError, OverflowError):
        fault = f"Line {number} has the time '{text.strip()[:40]}', which cannot be read."
        raise TraceError(f"{fault} Write it as 2026-03-01T10:15:00Z.") from None


def _count(number: int, text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = math.nan
    if not 0 <= count <= COUNT_MAX:  # NaN fails this too
        fault = f"Line {number} has the count '{text.strip()[:40]}'."
        raise TraceError(f"{fault} Write a number from 0 to {COUNT_MAX:,.0f}.")
    return count


class SpanReader:
    """Reads OpenTelemetry spans as JSON lines, with one export request or one span per line."""

    has_header = False
    ignored: tuple[str, ...] = ()

    def __init__(self, first: tuple[int, str]) -> None:
        pass

    def events(self, number: int, line: str) -> Iterator[Event]:
        """Yield an event at the start of each span."""
        try:
            found = json.loads(line)
            spans = list(_spans(found))
        except (ValueError, RecursionError, AttributeError, TypeError, KeyError):
            fault = f"Line {number} is not a line of OTLP JSON."
            raise TraceError(f"{fault} Export spans as JSON lines, with resourceSpans on each line.") from None
        for span in spans:
            name = span.get("name")
            yield Event(_nanos(number, span) // 1000, 1.0, name if isinstance(name, str) else "", has_zone=True)


def _spans(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if "resourceSpans" not in found:
        yield found
        return
    for resource in found["resourceSpans"]:
        for scope in resource.get("scopeSpans", ()):
            for span in scope.get("spans", ()):
                if not isinstance(span, dict):
                    raise TypeError
                yield span


def _nanos(number: int, span: dict[str, Any]) -> int:
    text = str(span.get("startTimeUnixNano", ""))
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text)):
        fault = f"In line {number}, a span has the startTimeUnixNano '{text[:40]}'."
        raise TraceError(f"{fault} Write whole nanoseconds since 1970.")
    return int(text)


class AccessReader:
    """Reads access logs in the common or combined format. The requested path is the program."""

    has_header = False
    ignored: tuple[str, ...] = ()

    def __init__(self, first: tuple[int, str]) -> None:
        pass

    def events(self, number: int, line: str) -> Iterator[Event]:
        """Yield the event of a line."""
        match = _ACCESS.match(line)
        if match is None:
            fault = f"Line {number} is not in the common or combined log format."
            raise TraceError(f'{fault} Write: host - user [01/Mar/2026:10:15:00 +0000] "GET / HTTP/1.1" 200 512')
        try:
            instant = datetime.strptime(match["time"], "%d/%b/%Y:%H:%M:%S %z")
        except ValueError:
            fault = f"Line {number} has the time '{match['time'][:40]}', which cannot be read."
            raise TraceError(f"{fault} Write it as 01/Mar/2026:10:15:00 +0000.") from None
        words = match["request"].split()
        program = words[1].split("?")[0][:200] if len(words) > 1 else ""
        yield Event((instant - EPOCH) // MICROSECOND, 1.0, program, has_zone=True)


READERS: dict[str, Callable[[tuple[int, str]], Reader]] = {"csv": CsvReader, "otlp": SpanReader, "access": AccessReader}
