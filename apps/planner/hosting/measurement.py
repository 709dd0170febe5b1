"""Read and check `takt-measurement/1` files, which hold a model's execution times on a machine."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from apps.measurements import FORMAT, NANOSECONDS, document_digest, rate_text
from apps.planner.hosting.faults import Fault, Unreadable, shown

BYTES_MAX = 256 * 1024
ROWS_MAX, NAMES_MAX, GPUS_MAX, DIMS_MAX = 64, 8, 64, 32
TEXT_MAX, LONGEST, DEEPEST = 200, 400, 6
NUMBER_MAX = 2**62
CLOCKS_DIFFER = timedelta(minutes=10)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_NAME_MAX = 80
AGAIN = "measure again with takt measure"


@dataclass(frozen=True)
class Row:
    """A measurement at one batch size and concurrency. Times are in nanoseconds per execution."""

    batch: int
    concurrency: int
    dims: Mapping[str, int]
    samples: int
    items: int
    wall_ns: int
    p50_ns: int
    p95_ns: int
    p99_ns: int
    milliwatts: int | None
    power_reason: str

    @property
    def rate(self) -> Fraction:
        """The number of items per second."""
        return Fraction(self.items * NANOSECONDS, self.wall_ns)

    @property
    def latency(self) -> Fraction:
        """The 95th percentile of the execution times, in seconds."""
        return Fraction(self.p95_ns, NANOSECONDS)


@dataclass(frozen=True)
class Measurement:
    """A checked measurement. `document` is the whole file."""

    digest: str
    measured_at: datetime
    model_name: str
    model_sha256: str
    machines: tuple[str, ...]
    hardware: str
    runtime: str
    provider: str
    batch_dimension: str | None
    rows: tuple[Row, ...]
    document: Mapping[str, Any]


class _Reader:
    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def wrong(self, where: str, message: str) -> None:
        self.faults.append(Fault(message, column=where))

    def number(self, parent: Mapping[str, Any], name: str, where: str, *, least: int = 0) -> int:
        value = parent.get(name)
        if type(value) is int and least <= value <= NUMBER_MAX:
            return value
        self.wrong(f"{where}{name}", f"give a whole number of at least {least}, not {shown(value)}.")
        return max(least, 1)

    def text(
        self, parent: Mapping[str, Any], name: str, where: str, *, longest: int = TEXT_MAX, empty: bool = False
    ) -> str:
        value = parent.get(name)
        if isinstance(value, str) and len(value) <= longest and value.isprintable() and (value.strip() or empty):
            return value
        self.wrong(f"{where}{name}", f"give a text of at most {longest} printable characters, not {shown(value)}.")
        return ""

    def part(self, parent: Mapping[str, Any], name: str, where: str = "") -> Mapping[str, Any]:
        value = parent.get(name)
        if isinstance(value, Mapping):
            return value
        self.wrong(f"{where}{name}", f"give an object, not {shown(value)}.")
        return {}

    def parts(self, parent: Mapping[str, Any], name: str, where: str, *, most: int) -> list[Any]:
        value = parent.get(name)
        if isinstance(value, list) and len(value) <= most:
            return value
        self.wrong(f"{where}{name}", f"give a list of at most {most}, not {shown(value)}.")
        return []


def measurement_read(data: bytes, *, now: datetime) -> Measurement:
    """Read a measurement file. Raises Unreadable with every fault."""
    if len(data) > BYTES_MAX:
        raise Unreadable([Fault(f"The file has {len(data):,} bytes; a measurement can have at most {BYTES_MAX:,}.")])
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise Unreadable([Fault(f"The file is not UTF-8 text; {AGAIN}.")]) from None
    except (ValueError, RecursionError):
        raise Unreadable([Fault(f"The file is not JSON, or it is cut off; {AGAIN}.")]) from None
    return measurement_of(document, now=now)


def measurement_of(document: Any, *, now: datetime) -> Measurement:
    """Read a measurement from parsed JSON. Raises Unreadable with every fault."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, Mapping) else document
        raise Unreadable(
            [
                Fault(
                    f"this is {shown(found)}, not {FORMAT!r}; import a file that takt measure -o wrote.",
                    column="format",
                )
            ]
        )
    strange = _strange(document)
    if strange:
        raise Unreadable([Fault(f"a measurement holds whole numbers and short texts, and no {strange}; {AGAIN}.")])
    digest = document.get("digest")
    if digest != document_digest(document):
        raise Unreadable([Fault(f"the file was changed after it was written; {AGAIN}.", column="digest")])
    read = _Reader()
    model, runtime = read.part(document, "model"), read.part(document, "runtime")
    leading = document.get("batch_dimension")
    if leading is not None:
        leading = read.text(document, "batch_dimension", "")
    found = Measurement(
        digest=str(digest),
        measured_at=_instant(read, document, now),
        model_name=read.text(model, "name", "model."),
        model_sha256=_sha256(read, model),
        machines=_machines(read, document),
        hardware=_hardware(read, document),
        runtime=f"{read.text(runtime, 'name', 'runtime.')} {read.text(runtime, 'version', 'runtime.')}",
        provider=read.text(runtime, "provider", "runtime.", longest=60),
        batch_dimension=leading,
        rows=_rows(read, document, leading),
        document=document,
    )
    if read.faults:
        raise Unreadable(read.faults)
    return found


def _sha256(read: _Reader, model: Mapping[str, Any]) -> str:
    found = read.text(model, "sha256", "model.", longest=64)
    if found and not _DIGEST.fullmatch(found):
        read.wrong("model.sha256", "give 64 hexadecimal digits in small letters.")
    return found


def _rows(read: _Reader, document: Mapping[str, Any], leading: str | None) -> tuple[Row, ...]:
    rows = [_row(read, row, place) for place, row in enumerate(read.parts(document, "rows", "", most=ROWS_MAX))]
    if not rows:
        read.wrong("rows", f"it has no rows; {AGAIN}.")
    _batches_check(read, rows, leading)
    return tuple(row for row in rows if row is not None)


def _strange(value: Any, depth: int = 0) -> str:
    if isinstance(value, float):
        return f"decimal fraction such as {value!r}"
    if isinstance(value, str):
        return "" if len(value) <= LONGEST and (value.isprintable() or not value) else f"text such as {shown(value)}"
    if depth > DEEPEST:
        return "objects within objects within objects"
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    return next((found for part in parts if (found := _strange(part, depth + 1))), "")


def _instant(read: _Reader, document: Mapping[str, Any], now: datetime) -> datetime:
    text = document.get("measured_at")
    try:
        if not (isinstance(text, str) and _INSTANT.fullmatch(text)):
            raise ValueError(text)
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        read.wrong("measured_at", f"give an instant such as 2026-11-30T22:00:00Z, not {shown(text)}.")
        return now
    if found > now + CLOCKS_DIFFER:
        read.wrong("measured_at", f"{text} is in the future; set the clock of that machine and measure again.")
    return found


def _machines(read: _Reader, document: Mapping[str, Any]) -> tuple[str, ...]:
    names = read.parts(document, "machine", "", most=NAMES_MAX)
    if not all(
        isinstance(name, str) and name.strip() and len(name) <= _NAME_MAX and name.isprintable() for name in names
    ):
        read.wrong("machine", f"give names of at most {_NAME_MAX} printable characters.")
        return ()
    return tuple(names)


def _hardware(read: _Reader, document: Mapping[str, Any]) -> str:
    described = read.part(document, "hardware")
    parts = [read.text(described, "cpu", "hardware.")]
    if described.get("cores") is not None:
        parts.append(f"{read.number(described, 'cores', 'hardware.', least=1)} cores")
    for place, gpu in enumerate(read.parts(described, "gpus", "hardware.", most=GPUS_MAX)):
        where = f"hardware.gpus[{place}]."
        if isinstance(gpu, Mapping):
            parts.append(f"{read.text(gpu, 'name', where)} (driver {read.text(gpu, 'driver', where)})")
        else:
            read.wrong(where[:-1], f"give an object, not {shown(gpu)}.")
    return ", ".join(parts)


def gpu_names(document: Mapping[str, Any]) -> list[str]:
    """Return the GPU names in a checked measurement file."""
    return [str(gpu["name"]) for gpu in document["hardware"]["gpus"]]


def _row(read: _Reader, row: Any, place: int) -> Row | None:
    where = f"rows[{place}]."
    if not isinstance(row, Mapping):
        read.wrong(where[:-1], f"give an object, not {shown(row)}.")
        return None
    names = ("batch", "concurrency", "samples", "items", "wall_ns", "p50_ns", "p95_ns", "p99_ns")
    counts = {name: read.number(row, name, where, least=1) for name in names}
    milliwatts, reason = None, ""
    if row.get("power") is None:
        reason = read.text(row, "power_reason", where, empty=True)
    else:
        milliwatts = read.number(read.part(row, "power", where), "milliwatts", f"{where}power.")
    found = Row(**counts, dims=_dims(read, row, where), milliwatts=milliwatts, power_reason=reason)
    _row_check(read, found, row, where)
    return found


def _dims(read: _Reader, row: Mapping[str, Any], where: str) -> dict[str, int]:
    dims = read.part(row, "dims", where)
    if len(dims) > DIMS_MAX or any(len(name) > TEXT_MAX for name in dims):
        read.wrong(f"{where}dims", f"give at most {DIMS_MAX} dimensions by name.")
        return {}
    return {name: read.number(dims, name, f"{where}dims.", least=1) for name in dims}


def _row_check(read: _Reader, row: Row, stated: Mapping[str, Any], where: str) -> None:
    if not row.p50_ns <= row.p95_ns <= row.p99_ns:
        read.wrong(f"{where}p50_ns", "the percentiles fall; p50 <= p95 <= p99 holds of every measurement.")
    if row.items != row.samples * row.batch:
        product = row.samples * row.batch
        read.wrong(f"{where}items", f"{row.samples:,} runs of {row.batch:,} are {product:,} items, not {row.items:,}.")
    if stated.get("items_per_second") != rate_text(row.items, row.wall_ns):
        rate = rate_text(row.items, row.wall_ns)
        read.wrong(
            f"{where}items_per_second", f"items and wall_ns give {rate}, not {shown(stated.get('items_per_second'))}."
        )
    if row.p50_ns * row.samples > 2 * row.wall_ns * row.concurrency:
        read.wrong(f"{where}wall_ns", "half of the runs took longer than all of them together.")


def _batches_check(read: _Reader, rows: list[Row | None], leading: str | None) -> None:
    for place, row in enumerate(rows):
        if row is not None and row.batch != (1 if leading is None else row.dims.get(leading)):
            read.wrong(f"rows[{place}].batch", f"it is not the size of the dimension {shown(leading)} in dims.")
