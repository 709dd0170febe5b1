"""Late cancellation as a quote states it: the term, the most that it can cost, and until when releasing costs nothing."""

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
from apps.sales.asks import Ask
from apps.sales.facts import ProgramFacts

TITLE = "Late cancellation"
Period = tuple[datetime, datetime]


def late_term(document: dict[str, Any]) -> LateCancellation | None:
    """The term of a stored quote, or of a contract's terms; None where its book has none."""
    stored = document.get("late")
    return None if stored is None else LateCancellation(stored["notice_minutes"], Decimal(stored["share"]))


def late_rating(book: PriceBookDocument, facts: ProgramFacts, terms: Terms, count: int) -> Rating:
    """What releasing `count` executions, of a quota operations, late adds."""
    return volume_rating(book, facts, terms, count, unused=True, late=True)


def volume_rating(
    book: PriceBookDocument, facts: ProgramFacts, terms: Terms, count: int, *, unused: bool, late: bool = False
) -> Rating:
    """The price of `count` executions, of a quota operations: if they are used, as reserved and not used, or what releasing
    them late adds to that."""
    if facts.is_quota:
        return rate_quota(book=book, operations=count, terms=terms, unused=unused, late=late)
    return rate(book=book, counts=facts.counts, executions=count, terms=terms, unused=unused, late=late)


def seconds_each(asks: Sequence[Ask], duration: Fraction, *, is_host: bool) -> list[Fraction]:
    """Seconds of the reserved `duration` for one execution (of a quota: operation) of each ask. What programs take on a
    host is measured for all of them together, so it is divided evenly."""
    return shared_seconds(duration, [(volume_of(ask), _weight(ask.facts, is_host=is_host)) for ask in asks])


def volume_of(ask: Ask) -> int:
    """Executions that are bought, of a quota operations."""
    return ask.facts.operations if ask.facts.is_quota else ask.executions


def _weight(facts: ProgramFacts, *, is_host: bool) -> Fraction:
    return Fraction(1) if is_host or facts.is_quota else facts.seconds


def late_json(
    *,
    book: PriceBookDocument,
    price_class: PriceClass,
    asks: Sequence[Ask],
    terms: Sequence[Terms],
    duration: Fraction,
    is_host: bool,
    reserved: Sequence[Period] | None,
    stamp: Any,
) -> dict[str, Any]:
    """The quote's entry `late`, absent where the class has no such term. `amount` is what all of it costs when it is released
    late; `free_until` follows from the windows that the quote found."""
    term = price_class.late
    if term is None:
        return {}
    each = seconds_each(asks, duration, is_host=is_host)
    unused = [Unused(ask.counted, seconds) for ask, seconds in zip(asks, each, strict=True)]
    until = None if reserved is None else free_until(unused, reserved=reserved, notice_minutes=term.notice_minutes)
    ratings = [
        late_rating(book, ask.facts, one, ask.counted) for ask, one in zip(asks, terms, strict=True) if ask.counted
    ]
    late = {
        "title": TITLE,
        **term.to_json(),
        "amount": decimal_text(exact_sum(one.amount for one in ratings)),
        "free_until": None if until is None else stamp(until),
    }
    return {"late": late}


def late_said(term: LateCancellation, *, unused: Decimal) -> str:
    """The term in a sentence; `unused`: the share that the class charges for unused work anyhow."""
    share, rest = share_format(term.share), f"{share_format(unused)} of the list price" if unused else "nothing"
    return (
        f"{TITLE}: reserved time that is not used costs {share} of its price, unless the contract is ended "
        f"{notice_format(term.notice_minutes)} before that time or earlier; then it costs {rest}."
    )
