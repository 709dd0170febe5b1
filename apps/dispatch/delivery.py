"""Determines whether work was delivered in the bought class of service or in a lesser class. Pure functions."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from apps.pricing.rating import PriceBookDocument, PriceClass


def class_delivered(*, book: PriceBookDocument, bought: str, since: datetime, work: Fraction, end: datetime) -> str:
    """Return the lesser class that was delivered; empty if the promise of the bought class was kept or no lesser class
    fits.

    `since` is the earliest time at which the work could have started; `end` is when it finished. `work` is the device
    time, in seconds, of all work promised together.
    """
    promised = book.price_class(bought)
    if _is_in_time(promised, since, work, end):
        return ""
    lesser = [
        one
        for one in book.classes.values()
        if _factor(one) < _factor(promised) and not one.off_peak_only and not one.unused and not one.time_of_use
    ]
    in_time = [one for one in lesser if _is_in_time(one, since, work, end)]
    delivered = max(in_time, key=lambda one: (_factor(one), one.name), default=None)
    return "" if delivered is None else delivered.name


def _factor(price_class: PriceClass) -> Fraction:
    return Fraction(price_class.surcharge) * Fraction(price_class.discount)


def _is_in_time(price_class: PriceClass, since: datetime, work: Fraction, end: datetime) -> bool:
    start_within, finish_within = price_class.start_within_minutes, price_class.finish_within_minutes
    latest = [
        *([] if start_within is None else [since + timedelta(minutes=start_within) + _span(work)]),
        *([] if finish_within is None else [since + timedelta(minutes=finish_within)]),
    ]
    return all(end <= instant for instant in latest)


def _span(seconds: Fraction) -> timedelta:
    return timedelta(microseconds=ceil(seconds * 10**6))
