"""How good forecasts are: `python -m benchmarks.forecast [--azure FILE] [SEED]`

Made-up traces, ten with daily and ten with weekly seasons: eight weeks of hours are known, the ninth is forecast. Each has its
own level, shape, trend, noise that lasts and bursts. Odd seeds served to choose the methods; only even ones are reported,
SEED and the nine even numbers after it. Printed: error as a share of what came (WAPE) beside the seasonal naive forecast,
which repeats the last week, and the share of hours inside the 80 % band.

Then Azure's public trace of requests to a language model (58 minutes, CC-BY 4.0; Splitwise, ISCA 2024), by minutes: from the
twentieth minute on, the next minute and the next five, beside repeating the last one. Nothing was chosen on this trace.

Ends with status 1 when a forecast is worse than the naive one, or when a band covers less than 70 or more than 90 %.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from apps.reports.forecasting import HOUR, Series, forecast, series_of_events, trace_read
from benchmarks.arguments import parser, whole
from benchmarks.data import given_or_fetched

START = datetime(2026, 1, 5, tzinfo=UTC)  # a Monday
TRACES, WEEKS, WEEK = 10, 8, 168
FIRST_MINUTE = 20
COVERED = (0.70, 0.90)


class Sums:
    """Errors over several forecasts."""

    def __init__(self) -> None:
        self.wrong = self.naive = self.came = 0.0
        self.inside = self.steps = 0

    def add(self, made: Any, truth: np.ndarray[Any, Any], naive: np.ndarray[Any, Any]) -> None:
        """One forecast, what came, and what the naive one said."""
        count = len(truth)
        self.wrong += float(np.abs(made.middle[:count] - truth).sum())
        self.naive += float(np.abs(naive - truth).sum())
        self.came += float(truth.sum())
        self.inside += int(((truth >= made.low[:count]) & (truth <= made.high[:count])).sum())
        self.steps += count

    def told(self, what: str, beside: str) -> bool:
        """Print them; whether they are good enough."""
        ours, theirs, covered = self.wrong / self.came, self.naive / self.came, self.inside / self.steps
        good = ours < theirs and COVERED[0] <= covered <= COVERED[1]
        print(
            f"{what:34} error {ours:6.1%}, {beside} {theirs:6.1%}; the band covers {covered:6.1%} of {self.steps:,} steps"
            + ("" if good else "  MISSED"),
            flush=True,
        )
        return good


def main(arguments: list[str]) -> int:
    command = parser("forecast", __doc__ or "")
    command.add_argument("--azure", type=Path, help="Azure's trace; fetched unless given")
    command.add_argument("seed", nargs="?", type=whole, default=2, help="an even number; default: 2")
    options = command.parse_args(arguments)
    if options.seed % 2:
        command.error("odd seeds chose the methods and are not reported; state an even one")
    azure = given_or_fetched(options.azure, "azure-llm", command)
    good = [_seeded(options.seed, is_weekly=False), _seeded(options.seed, is_weekly=True)]
    good += _azure(azure)
    return 0 if all(good) else 1


def _seeded(seed: int, *, is_weekly: bool) -> bool:
    sums, better, chosen = Sums(), 0, set()
    for number in range(TRACES):
        values = made_up(seed + 2 * number, is_weekly=is_weekly)
        known, truth = values[:-WEEK], values[-WEEK:]
        made = forecast(Series(START, HOUR, known), horizon=WEEK)
        naive = known[-WEEK:]
        sums.add(made, truth, naive)
        better += float(np.abs(made.middle - truth).sum()) < float(np.abs(naive - truth).sum())
        chosen.add(made.method)
    kind = "weekly" if is_weekly else "daily"
    good = sums.told(f"{TRACES} traces with {kind} seasons", "seasonal naive")
    print(f"{'':34} better in {better} of {TRACES}; chosen: {', '.join(sorted(chosen))}")
    return good


def made_up(seed: int, *, is_weekly: bool) -> np.ndarray[Any, Any]:
    """Requests by hour over nine weeks."""
    dice = np.random.default_rng(seed)
    hours = np.arange((WEEKS + 1) * WEEK)
    level, morning, evening = dice.uniform(50, 5000), dice.uniform(0, 24), dice.uniform(0, 24)
    large, small = dice.uniform(0.3, 0.9), dice.uniform(0, 0.4)
    day = 1 + large * np.cos(2 * np.pi * (hours - morning) / 24) + small * np.cos(4 * np.pi * (hours - evening) / 24)
    week = np.where((hours // 24) % 7 < 5, 1.0, dice.uniform(0.3, 0.8)) if is_weekly else 1.0
    trend = 1 + dice.uniform(-0.2, 0.6) * hours / len(hours)
    noise = np.zeros(len(hours))
    shocks = dice.normal(0, dice.uniform(0.03, 0.12), len(hours))
    for hour in hours[1:]:
        noise[hour] = 0.8 * noise[hour - 1] + shocks[hour]
    mean = level * np.maximum(day, 0.02) * week * trend * np.exp(noise)
    bursts = dice.uniform(10, 60)
    return np.asarray(dice.poisson(dice.gamma(bursts, mean / bursts)), dtype=np.float64)


def _azure(path: Path) -> list[bool]:
    with path.open("rb") as lines:
        trace = trace_read(lines)
    minutes = series_of_events(trace.micros, trace.counts, step=timedelta(minutes=1))
    good = []
    for leads in (1, 5):
        sums = Sums()
        for at in range(FIRST_MINUTE, len(minutes.values)):
            truth = minutes.values[at : at + leads]
            sums.add(forecast(minutes.until(at), horizon=leads), truth, np.full(len(truth), minutes.values[at - 1]))
        good.append(sums.told(f"Azure's trace, next {leads} min", "last value"))
    return good


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
