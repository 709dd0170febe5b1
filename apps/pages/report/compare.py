"""Compares up to four programs side by side. The first program is the baseline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps import figures
from apps.compilation.models import Program
from apps.compilation.selectors import price_preview, program_load, program_on_chip, target_of
from apps.fleet.descriptions import PRECISIONS, peak
from apps.pages.report.rows import decibels_text, limit_text
from apps.pricing.previews import EXECUTIONS as OF

COLUMNS_MAX = 4
KIND_OF = dict(PRECISIONS)
LESS_IS_BETTER, MORE_IS_BETTER = "less", "more"
EXTERNAL = "From external memory"

Measure = Callable[[Program], Fraction | int | None]


@dataclass(frozen=True)
class Cell:
    """A figure and its change from the baseline. The tone is "ok" for a better figure and "bad" for a worse figure."""

    text: str
    change: str = ""
    tone: str = ""


@dataclass(frozen=True)
class Row:
    """A row with one figure for each program. `differs` is True if the figures are not all equal."""

    title: str
    cells: list[Cell]
    differs: bool


def table(programs: Sequence[Program], *, now: datetime) -> list[Row]:
    """Return the rows of the comparison. The first program is the baseline."""
    return [*_described(programs), *_measured(programs), _priced(programs, now), _limits(programs)]


def _described(programs: Sequence[Program]) -> Iterator[Row]:
    words: list[tuple[str, Callable[[Program], str]]] = [
        ("Processor", lambda one: one.target),
        ("Precision", lambda one: one.precision),
        ("Sizes", lambda one: ", ".join(f"{name} = {value}" for name, value in one.dims.items()) or "fixed"),
        ("Cost", lambda one: "exact" if one.exact else "bound"),
    ]
    for title, write in words:
        texts = [write(one) for one in programs]
        yield Row(title, [Cell(text) for text in texts], len(set(texts)) > 1)


def _measured(programs: Sequence[Program]) -> Iterator[Row]:
    for title, measure, write, better in FIGURES:
        values = [measure(one) for one in programs]
        if _is_shown(title, values):
            cells = [_cell(value, values[0], "" if value is None else write(value), better) for value in values]
            yield Row(title, cells, len(set(values)) > 1)
    yield from _noise(programs)


def _is_shown(title: str, values: Sequence[Any]) -> bool:
    return any(values) if title == EXTERNAL else any(value is not None for value in values)


def _noise(programs: Sequence[Program]) -> Iterator[Row]:
    worst = [signal_to_noise(one) for one in programs]
    if any(value is not None for value in worst):
        texts = ["is float32" if value is None else decibels_text(value) for value in worst]
        yield Row("Signal-to-noise ratio against float32", [Cell(text) for text in texts], len(set(texts)) > 1)


def _cell(value: Any, base: Any, text: str, better: str) -> Cell:
    if value is None:
        return Cell("-")
    if not base or value == base or not better:
        return Cell(text)
    ratio = Fraction(value) / Fraction(base)
    more = ratio > 1
    change = f"{figures.percent_format(abs(ratio - 1), 0)} {'more' if more else 'less'}"
    if ratio >= 3:
        change = f"{figures.fixed(ratio, 1)} times as much"
    return Cell(text, change, "ok" if more == (better == MORE_IS_BETTER) else "bad")


def _link(program: Program) -> int:
    return int(program.resources["io"]["bytes_in"]) + int(program.resources["io"]["bytes_out"])


def load_bytes(program: Program) -> int | None:
    """Return the number of bytes sent over the link before the first item; None if unknown."""
    load = program_load(program)
    return None if load is None else load["bytes_in"]


def load_time(program: Program) -> Fraction | None:
    """Return the time to load the program, in seconds; None if unknown."""
    load = program_load(program)
    return None if load is None else Fraction(load["cycles_in"], program.clock_hz)


def above_bound(program: Program, name: str) -> Fraction | None:
    """Return how far a value is above its proven lower bound (0.15 means 15 %); None if unknown."""
    known = program.bounds.get(name) or {}
    return Fraction(known["ours"], known["bound"]) - 1 if known.get("bound") else None


def share_of_peak(program: Program) -> Fraction | None:
    """Return the program's throughput as a share of the peak of the matrix units; None if the peak is unknown."""
    target = target_of(program)
    rate = peak(target, KIND_OF.get(program.precision, "f32")) if target else None
    return Fraction(program.operations * program.clock_hz, program.interval_cycles * rate) if rate else None


def signal_to_noise(program: Program) -> float | None:
    """Return the signal-to-noise ratio of the worst output, in decibels; None for float32."""
    known = [values.get("snr_db") for values in program.accuracy.get("outputs", {}).values()]
    return min((float(value) for value in known if value is not None), default=None)


def _priced(programs: Sequence[Program], now: datetime) -> Row:
    prices = [price_preview(one, now=now) for one in programs]
    values = [None if price is None else Fraction(price["amount"]) for price in prices]
    cells = []
    scale = figures.unit_price_scale(Decimal(price["amount"]) / OF for price in prices if price)
    for price, value in zip(prices, values, strict=True):
        text = (
            " ".join(figures.unit_price_format(price["amount"], price["currency"], of=OF, scale=scale)) if price else ""
        )
        cells.append(_cell(value, values[0], text, LESS_IS_BETTER) if price else Cell("not priced"))
    return Row("Price", cells, len(set(values)) > 1)


def _limits(programs: Sequence[Program]) -> Row:
    texts = [limit_text((one.bounds.get("interval") or {}).get("limit", "")) for one in programs]
    return Row("What limits it", [Cell(text or "-") for text in texts], len(set(texts)) > 1)


# (title, measure, how it is written, which direction is better); a figure that is None is unknown.
FIGURES: tuple[tuple[str, Measure, Callable[[Any], str], str], ...] = (
    ("Latency", lambda one: Fraction(one.latency_cycles, one.clock_hz), figures.duration_format, LESS_IS_BETTER),
    ("Latency, cycles", lambda one: one.latency_cycles, figures.count_format, LESS_IS_BETTER),
    (
        "Inferences per second",
        lambda one: Fraction(one.clock_hz, one.interval_cycles),
        figures.short_format,
        MORE_IS_BETTER,
    ),
    (
        "Latency above its proven bound",
        lambda one: above_bound(one, "latency"),
        figures.percent_format,
        LESS_IS_BETTER,
    ),
    (
        "Interval above its proven bound",
        lambda one: above_bound(one, "interval"),
        figures.percent_format,
        LESS_IS_BETTER,
    ),
    ("Share of peak", share_of_peak, figures.percent_format, MORE_IS_BETTER),
    ("Operations", lambda one: one.operations, figures.short_format, ""),
    ("Memory", program_on_chip, figures.bytes_format, LESS_IS_BETTER),
    ("Over the link", _link, figures.bytes_format, LESS_IS_BETTER),
    ("Loading", load_bytes, figures.bytes_format, LESS_IS_BETTER),
    ("Loading time", load_time, figures.duration_format, LESS_IS_BETTER),
    (EXTERNAL, lambda one: one.resources["io"]["external_in"], figures.bytes_format, LESS_IS_BETTER),
    ("Energy", lambda one: one.resources["energy_fj"], figures.energy_format, LESS_IS_BETTER),
)
