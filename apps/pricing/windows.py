"""Compute when the work of a contract may run. The module uses neither Django nor a clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from apps.pricing.rating import PriceBookDocument, PriceClass
from apps.pricing.rating.tariff import Interval

DEFAULT_WINDOW = timedelta(days=7)
LONGEST_WINDOW = timedelta(days=62)


class Window(NamedTuple):
    """The half-open period [start, end) of a contract."""

    start: datetime
    end: datetime


class Limits(NamedTuple):
    """The times at which work may run: [not_before, not_after), restricted to the `allowed` intervals unless `allowed`
    is None.
    """

    not_before: datetime
    not_after: datetime
    allowed: list[Interval] | None


def limits_of(
    *, book: PriceBookDocument, price_class: PriceClass, window: Window, duration: Fraction, now: datetime
) -> Limits:
    """Return the limits that a class sets at `now` for work of `duration` seconds."""
    begin, end = max(window.start, now), window.end
    if price_class.start_within_minutes is not None:
        latest_start = begin + timedelta(minutes=price_class.start_within_minutes)
        needed = ceil(duration * 1_000_000)
        if needed < (end - latest_start) // timedelta(
            microseconds=1
        ):  # otherwise it may be longer than a date can represent
            end = latest_start + timedelta(microseconds=needed)
    if price_class.finish_within_minutes is not None:
        end = min(end, begin + timedelta(minutes=price_class.finish_within_minutes))
    allowed = None
    if price_class.off_peak_only:
        allowed = book.tariff.intervals(begin, end) if begin < end else []
    return Limits(begin, end, allowed)
