"""Worked examples for a public page: the price of a million inferences with each sample model."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

from apps.pricing.rating import Counts, PriceBookDocument, Rating, RatingError, Terms, rate, tariff_bound

FILE = Path(__file__).parent / "books" / "samples.json"  # counts of the samples as compiled; a test compiles them again
INFERENCES = 10**6
BY_DAY, BY_NIGHT = "standard", "off_peak"
NIGHT_HOUR = 22


class Example(NamedTuple):
    """A sample model on a processor class, with the exact prices of a million inferences by day and by night.

    `items` is the number of inferences in one execution. `night` is None if the book sells nothing off-peak.
    """

    title: str
    processor: str
    items: int
    billed_operations: int
    day: Decimal
    night: Decimal | None

    @property
    def tera_operations(self) -> Decimal:
        return Decimal(self.billed_operations).scaleb(-12).normalize()


def examples(book: PriceBookDocument, *, now: datetime) -> list[Example]:
    """Return an example for each sample model on each processor class that the book prices."""
    document = json.loads(FILE.read_text())
    tonight = _tonight(book, now)
    found = []
    for sample in document["samples"]:
        executions = INFERENCES // sample["items"]
        for processor, counted in sample["counts"].items():
            counts = Counts(counted["operations"], counted["cycles"])
            terms = Terms(processor, document["precision"], BY_DAY, instant=now)
            day = _rated(book, counts, executions, terms)
            night = None
            if tonight is not None:
                off_peak = Terms(processor, document["precision"], BY_NIGHT, instant=tonight)
                night = _rated(book, counts, executions, off_peak)
            if day is not None:
                amount = None if night is None else night.amount
                found.append(
                    Example(sample["title"], processor, sample["items"], day.billed_operations, day.amount, amount)
                )
    return found


def _tonight(book: PriceBookDocument, now: datetime) -> datetime | None:
    price_class = book.classes.get(BY_NIGHT)
    if price_class is None or not price_class.offered:
        return None
    local = now.astimezone(ZoneInfo(book.tariff.zone))
    evening = max(local, local.replace(hour=NIGHT_HOUR, minute=0, second=0, microsecond=0))
    return tariff_bound(book, BY_NIGHT, evening, evening + timedelta(hours=12))


def _rated(book: PriceBookDocument, counts: Counts, executions: int, terms: Terms) -> Rating | None:
    try:
        return rate(book=book, counts=counts, executions=executions, terms=terms)
    except RatingError:
        return None
