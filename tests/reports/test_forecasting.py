"""Series, traces and forecasts keep what they state, without a database."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.reports.forecasting import (
    HOUR,
    NotEnough,
    Series,
    SeriesError,
    TraceError,
    backtest,
    forecast,
    headroom_end,
    series_of_events,
    trace_read,
)

START = datetime(2026, 3, 2, tzinfo=UTC)
LOG = '192.0.2.1 - ann [02/Mar/2026:11:00:05 +0100] "GET /v1/digits?x=1 HTTP/1.1" 200 512 "-" "curl/8"'


def series(values: list[float]) -> Series:
    return Series(START, HOUR, np.array(values, dtype=np.float64))


def span(nanos: object, name: str = "digits") -> str:
    spans = [{"name": name, "startTimeUnixNano": nanos}]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]})


def read(*lines: str) -> tuple[list[tuple[str, float, str]], str]:
    """(instant, count, program) of every event, and the format."""
    found = trace_read(line.encode() for line in lines)
    told = [
        (datetime.fromtimestamp(micros / 1e6, UTC).isoformat(), count, found.names[program])
        for micros, count, program in zip(
            found.micros.tolist(), found.counts.tolist(), found.programs.tolist(), strict=True
        )
    ]
    return told, found.format


def test_the_three_formats_say_the_same() -> None:
    instant = datetime(2026, 3, 2, 10, 0, 5, tzinfo=UTC)
    expected = [(instant.isoformat(), 1.0, "digits")]
    assert read("\ufefftimestamp,count,program", "2026-03-02T11:00:05+01:00,1,digits") == (expected, "csv")
    assert read(span(str(int(instant.timestamp()) * 10**9))) == (expected, "otlp")
    assert read(LOG) == ([(instant.isoformat(), 1.0, "/v1/digits")], "access")


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["timestamp", "2026-03-02T10:00:00Z", "2026-03-02T09:54:59Z"],
            "The time in line 3 is 0:05:01 earlier than the time in a previous line",
        ),
        (["timestamp", "2026-03-02T10:00:00Z", "yesterday"], "Line 3 has the time 'yesterday'"),
        (
            ["timestamp", "2026-03-02T10:00:00Z", "2026-03-02T10:00:00"],
            "Line 3 has no time zone, but earlier lines have one",
        ),
        (
            ["timestamp", "2026-03-02T10:00:00", "2026-03-02T10:00:00Z"],
            "Line 3 has a time zone, but earlier lines have none",
        ),
        (["timestamp", "2026-03-02T10:00:00Z", "2026-03-02T10:00:00Z\0"], "Line 3 has a NUL character"),
        (["timestamp,count", "2026-03-02T10:00:00Z,nan"], "Line 2 has the count 'nan'"),
        (["timestamp,count", "2026-03-02T10:00:00Z,-1"], "Line 2 has the count '-1'"),
        (["timestamp,count", "2026-03-02T10:00:00Z"], "Line 2 has 1 columns, but the first line has 2"),
        (["timestamp,count", "2026-03-02T10:00:00Z,0"], "Every count in the trace is 0"),
        (["timestamp", "1990-01-01T00:00:00Z", "2026-01-01T00:00:00Z"], "The time in line 3 is more than 10 years"),
        (["timestamp,time,timestamp", "a,b,c"], "Line 1 names the column 'timestamp' twice"),
        (["moment", "2026-03-02T10:00:00Z"], "Line 1 does not name the column 'timestamp'"),
        (["timestamp"], "The trace has no requests"),
        ([], "The trace is empty"),
        ([span("12"), "{"], "Line 2 is not a line of OTLP JSON"),
        ([span("12"), "[" * 5000], "Line 2 is not a line of OTLP JSON"),
        ([span(-5)], "In line 1, a span has the startTimeUnixNano '-5'"),
        ([LOG, "GET / 200"], "Line 2 is not in the common or combined log format"),
        ([LOG, LOG.replace("02/Mar", "31/Feb")], "Line 2 has the time '31/Feb/2026"),
        (["timestamp", "x" * 70_000], "Line 2 is 70,000 bytes long"),
    ],
)
def test_a_wrong_line_is_named_with_its_remedy(lines: list[str], sentence: str) -> None:
    with pytest.raises(TraceError) as refused:
        read(*lines)
    assert str(refused.value).startswith(sentence)
    assert ". " in str(refused.value)  # what is wrong, and what to do


def test_lines_within_the_tolerance_are_put_in_order() -> None:
    told, _ = read("timestamp", "2026-03-02T10:04:00Z", "2026-03-02T10:00:00Z")
    assert [at[11:16] for at, _, _ in told] == ["10:00", "10:04"]


@given(st.binary(max_size=300))
def test_any_bytes_are_a_trace_or_a_sentence(data: bytes) -> None:
    with suppress(TraceError):
        assert trace_read(data.split(b"\n")).total > 0


def test_a_series_without_a_sensible_amount_is_refused_with_its_hour() -> None:
    with pytest.raises(SeriesError, match="The step that starts at 2026-03-02 01:00 has the amount nan"):
        series([1.0, math.nan])
    with pytest.raises(NotEnough) as short:
        forecast(series([1.0] * 119), horizon=1)
    assert (short.value.needed, short.value.known) == (120, 119)


def test_the_steps_of_events_hold_all_but_the_cut_ends() -> None:
    micros = np.array([30, 90, 100, 150, 210, 270], dtype=np.int64) * 1_000_000
    found = series_of_events(micros, np.ones(6), step=timedelta(minutes=1))
    assert (found.values.tolist(), found.start.minute) == ([2, 1, 1], 1)


@settings(max_examples=12, deadline=None)
@given(
    scale=st.sampled_from([0.0, 1.0, 1e6]),
    noise=st.floats(0, 0.9),
    seed=st.integers(0, 99),
    hours=st.integers(120, 400),
)
def test_the_lines_never_cross_and_headroom_ends_in_their_order(
    scale: float, noise: float, seed: int, hours: int
) -> None:
    dice = np.random.default_rng(seed)
    values = scale * (1 + np.sin(np.arange(hours) / 24 * 2 * np.pi)) * (1 - noise * dice.random(hours))
    made = forecast(Series(START, HOUR, values), horizon=60)
    assert np.isfinite([made.low, made.middle, made.high]).all()
    assert (made.low >= 0).all()
    assert ((made.low <= made.middle) & (made.middle <= made.high)).all()
    ends = headroom_end(made, float(made.middle.max()) * 0.9)
    known = [end for end in (ends.high, ends.middle, ends.low) if end is not None]
    assert known == sorted(known)
    assert ends.middle is None or ends.high is not None


def test_a_season_that_is_sure_is_continued_and_chosen() -> None:
    hours = np.arange(21 * 24)
    values = 100 + 50.0 * (hours % 24 > 7) + 30.0 * (hours // 24 % 7 < 5)
    made = forecast(Series(START, HOUR, values), horizon=168)
    assert np.allclose(made.middle, values[:168], rtol=0.02)
    assert "seasonal" in made.method
    assert headroom_end(made, 179.0).middle == made.start + 8 * HOUR


def test_the_backtest_never_sees_what_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same past gives the same score and band of every origin, whatever follows the last of them."""
    seen: list[int] = []
    real = backtest.methods_for

    def watched(step: timedelta, length: int) -> dict[str, backtest.Method]:
        def method(roots: np.ndarray, horizon: int) -> backtest.Path:
            seen.append(len(roots))
            return real(step, length)["last value"](roots, horizon)

        return {"last value": method}

    monkeypatch.setattr(backtest, "methods_for", watched)
    forecast(series([float(n % 24) for n in range(200)]), horizon=5)
    assert seen == [*range(104, 177, 24), 200]
