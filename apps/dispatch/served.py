"""Which class of service work got: the one that was bought where its promise of time was kept, else a lesser one. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from math import ceil

from apps.pricing.rating import PriceBookDocument, PriceClass


def class_served(*, book: PriceBookDocument, bought: str, since: datetime, work: Fraction, end: datetime) -> str:
    """The class that work got which could begin at `since` and ended at `end`; empty when the promise was kept.

    `work` is the device time in seconds of everything that was promised together: a class that starts in time may run on
    for so long. Of the classes whose promise was kept, the dearest that costs no more is the one that was served; what
    belongs to certain hours or is kept for its owner whether used or not is no lesser class of another.
    """
    promised = book.price_class(bought)
    if _kept(promised, since, work, end):
        return ""
    lesser = [
        one
        for one in book.classes.values()
        if _price(one) < _price(promised) and not one.off_peak_only and not one.unused and not one.time_of_use
    ]
    kept = [one for one in lesser if _kept(one, since, work, end)]
    served = max(kept, key=lambda one: (_price(one), one.name), default=None)
    return "" if served is None else served.name


def _price(price_class: PriceClass) -> Fraction:
    """What the class costs of the list price."""
    return Fraction(price_class.surcharge) * Fraction(price_class.discount)


def _kept(price_class: PriceClass, since: datetime, work: Fraction, end: datetime) -> bool:
    start_within, finish_within = price_class.start_within_minutes, price_class.finish_within_minutes
    latest = [
        *([] if start_within is None else [since + timedelta(minutes=start_within) + _span(work)]),
        *([] if finish_within is None else [since + timedelta(minutes=finish_within)]),
    ]
    return all(end <= instant for instant in latest)


def _span(seconds: Fraction) -> timedelta:
    """The least whole number of microseconds that is not shorter."""
    return timedelta(microseconds=ceil(seconds * 10**6))
