"""Store uploaded traces: the requests by hour, and by second for the last 24 hours."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.reports.forecasting import HOUR, Series, SeriesError, TraceError, series_of_events, trace_read
from apps.reports.models import DemandTrace

BYTES_MOST = 64 * 1024 * 1024
DAY_SECONDS = 86_400
MICROS = 1_000_000


def trace_upload(*, name: str, size: int, lines: Iterable[bytes], actor: User | None, now: datetime) -> DemandTrace:
    """Read and store a trace. Raises Problem with the faulty line and the remedy."""
    if size > BYTES_MOST:
        detail = f"The file is {size:,} bytes long; the maximum is {BYTES_MOST:,}. Upload a trace of a shorter period."
        raise Problem(413, "Trace too large", detail, kind="trace-too-large")
    try:
        trace = trace_read(lines)
        hours = series_of_events(trace.micros, trace.counts, step=HOUR)
    except (TraceError, SeriesError) as refused:
        raise Problem(422, "Trace cannot be read", str(refused), kind="trace-invalid") from refused
    seconds = trace.micros // MICROS
    last = int(seconds.max())
    mine = seconds > last - DAY_SECONDS
    by_second = np.bincount(seconds[mine] - (last - DAY_SECONDS + 1), weights=trace.counts[mine], minlength=DAY_SECONDS)
    with transaction.atomic():
        kept = DemandTrace.objects.create(
            name="".join(letter for letter in name if letter.isprintable())[:120] or "trace",
            format=trace.format,
            requests=trace.total,
            first_at=_instant(int(trace.micros[0])),
            last_at=_instant(int(trace.micros[-1])),
            hours={"start": hours.start.isoformat(), "values": hours.values.tolist()},
            seconds=zlib.compress(by_second.astype("<f8").tobytes()),
            ignored=list(trace.ignored)[:20],
            uploaded_by=actor,
            uploaded_at=now,
        )
        audit_record(action="trace.upload", subject=f"trace {kept.pk}", actor=actor, now=now)
    return kept


def _instant(micros: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=micros)


def hours_of(trace: DemandTrace) -> Series:
    """Return the number of requests by hour."""
    return Series(datetime.fromisoformat(trace.hours["start"]), HOUR, np.array(trace.hours["values"], dtype=np.float64))


def seconds_of(trace: DemandTrace) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the number of requests by second in the last 24 hours of the trace."""
    return np.frombuffer(zlib.decompress(bytes(trace.seconds)), dtype="<f8")
