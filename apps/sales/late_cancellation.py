"""The late cancellation term of quotes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.figures import notice_format, share_format
from apps.pricing.rating import (
    LateCancellation,
    PriceBookDocument,
    PriceClass,
    Rating,
    Terms,
    Unused,
    decimal_text,
    exact_sum,
    free_until,
    rate,
    rate_quota,
    shared_seconds,
)
from apps.sales.request_lines import QuoteRequestLine
from apps.sales.snapshots import ProgramSnapshot

TITLE = "Late cancellation"
Period = tuple[datetime, datetime]


def late_term(document: dict[str, Any]) -> LateCancellation | None:
    """Read the late cancellation term of a stored quote or contract; None if there is no such term."""
    stored = document.get("late")
    return None if stored is None else LateCancellation(stored["notice_minutes"], Decimal(stored["share"]))


def late_rating(book: PriceBookDocument, snapshot: ProgramSnapshot, terms: Terms, count: int) -> Rating:
    """Rate the late release of `count` executions, or of `count` operations for a quota."""
    return volume_rating(book, snapshot, terms, count, unused=True, late=True)


def volume_rating(
    book: PriceBookDocument, snapshot: ProgramSnapshot, terms: Terms, count: int, *, unused: bool, late: bool = False
) -> Rating:
    """Rate `count` executions, or `count` operations for a quota.

    `unused`: rate reserved but unused work. `late`: rate the additional charge for a late release.
    """
    if snapshot.is_quota:
        return rate_quota(book=book, operations=count, terms=terms, unused=unused, late=late)
    return rate(book=book, counts=snapshot.counts, executions=count, terms=terms, unused=unused, late=late)


def seconds_each(request_lines: Sequence[QuoteRequestLine], duration: Fraction, *, is_host: bool) -> list[Fraction]:
    """Apportion `duration` among the lines. Return the seconds per execution (or quota operation) of each line."""
    return shared_seconds(
        duration,
        [(volume_of(request_line), _weight(request_line.snapshot, is_host=is_host)) for request_line in request_lines],
    )


def volume_of(request_line: QuoteRequestLine) -> int:
    """Return the number of executions bought, or the number of operations for a quota."""
    return request_line.snapshot.operations if request_line.snapshot.is_quota else request_line.executions


def _weight(snapshot: ProgramSnapshot, *, is_host: bool) -> Fraction:
    return Fraction(1) if is_host or snapshot.is_quota else snapshot.seconds


def late_json(
    *,
    book: PriceBookDocument,
    price_class: PriceClass,
    request_lines: Sequence[QuoteRequestLine],
    terms: Sequence[Terms],
    duration: Fraction,
    is_host: bool,
    reserved: Sequence[Period] | None,
    stamp: Any,
) -> dict[str, Any]:
    """Return a dictionary with the key `late`, for the document of a quote.

    The dictionary is empty if the class has no late cancellation term.
    """
    term = price_class.late
    if term is None:
        return {}
    each = seconds_each(request_lines, duration, is_host=is_host)
    unused = [Unused(request_line.counted, seconds) for request_line, seconds in zip(request_lines, each, strict=True)]
    until = None if reserved is None else free_until(unused, reserved=reserved, notice_minutes=term.notice_minutes)
    ratings = [
        late_rating(book, request_line.snapshot, one, request_line.counted)
        for request_line, one in zip(request_lines, terms, strict=True)
        if request_line.counted
    ]
    late = {
        "title": TITLE,
        **term.to_json(),
        "amount": decimal_text(exact_sum(one.amount for one in ratings)),
        "free_until": None if until is None else stamp(until),
    }
    return {"late": late}


def late_sentence(term: LateCancellation, *, unused: Decimal) -> str:
    """Return the late cancellation term as a sentence. `unused`: the share charged for unused work."""
    share, rest = share_format(term.share), f"{share_format(unused)} of the list price" if unused else "nothing"
    return (
        f"{TITLE}: reserved time that is not used costs {share} of its price, unless the contract is ended "
        f"{notice_format(term.notice_minutes)} or more before that time; then it costs {rest}."
    )
