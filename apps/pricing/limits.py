"""When a class of service may run: the time limits that quote, acceptance and every later re-placement share."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from apps.accounts.problems import Problem
from apps.pricing.rating import PriceBookDocument, PriceClass, tariff_bound
from apps.pricing.rating.tariff import Interval

DEFAULT_WINDOW = timedelta(days=7)
LONGEST_WINDOW = timedelta(days=62)


class Window(NamedTuple):
    """The half-open period [start, end) that a contract is for."""

    start: datetime
    end: datetime


class Limits(NamedTuple):
    """Work lies in [not_before, not_after), and inside `allowed` when that is given."""

    not_before: datetime
    not_after: datetime
    allowed: list[Interval] | None


def window_of(start: datetime | None, end: datetime | None, *, now: datetime) -> Window:
    """The period that was asked for: from now, for seven days, unless said otherwise. Raises Problem."""
    begin = max(start or now, now)
    finish = end or begin + DEFAULT_WINDOW
    if finish <= begin:
        raise Problem(422, "Window is over", "The window must end in the future, after it has begun.", kind="window")
    if finish - now > LONGEST_WINDOW:
        raise Problem(
            422,
            "Window too long",
            f"Quotes reach {LONGEST_WINDOW.days} days ahead; end the window earlier.",
            kind="window",
        )
    return Window(begin, finish)


def limits_of(
    *, book: PriceBookDocument, price_class: PriceClass, window: Window, duration: Fraction, now: datetime
) -> Limits:
    """The limits that a class sets at `now`; `duration` in seconds. The window's own ends always hold."""
    begin, end = max(window.start, now), window.end
    if price_class.start_within_minutes is not None:
        latest_start = begin + timedelta(minutes=price_class.start_within_minutes)
        end = min(end, latest_start + timedelta(microseconds=ceil(duration * 1_000_000)))
    if price_class.finish_within_minutes is not None:
        end = min(end, begin + timedelta(minutes=price_class.finish_within_minutes))
    allowed = None
    if price_class.off_peak_only:
        allowed = book.tariff.intervals(begin, end) if begin < end else []
    return Limits(begin, end, allowed)


def tariff_instant(*, book: PriceBookDocument, price_class: PriceClass, window: Window) -> datetime:
    """The instant that binds the tariff: the start of the window, its first off-peak instant, or where the price follows
    the hours its dearest one. Raises Problem."""
    bound = tariff_bound(book, price_class.name, window.start, window.end)
    if bound is None:
        raise Problem(
            422,
            "No off-peak hour",
            f"The window has no off-peak hour in {book.tariff.zone}; make it longer, move it, or take another class.",
            kind="no-off-peak",
        )
    return bound
