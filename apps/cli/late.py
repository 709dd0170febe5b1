"""Recomputes a quote's late-cancellation terms."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.cli.agreement import Difference, same
from apps.pricing.rating import (
    Counts,
    PriceBookDocument,
    Terms,
    Unused,
    decimal_text,
    exact_sum,
    free_until,
    rate,
    shared_seconds,
)


def late_verify(document: dict[str, Any], books: dict[str, PriceBookDocument]) -> list[str]:
    """Check the quote's late-cancellation terms, and return one sentence for each check. Raises Difference."""
    book = books[document["book"]["digest"]]
    price_class, stated = book.price_class(document["class"]["name"]), document.get("late")
    if price_class.late is None or stated is None:
        if (price_class.late is None) != (stated is None):
            raise Difference("late cancellation", stated, price_class.late and price_class.late.to_json())
        return []
    for key, value in price_class.late.to_json().items():
        same(f"late cancellation, {key}", stated[key], value)
    amount = exact_sum(_amount(book, line, counted) for line, counted in _counted(document) if counted)
    same("late cancellation, the most that it costs", stated["amount"], decimal_text(amount))
    until = _free_until(document, price_class.late.notice_minutes)
    told = None if stated["free_until"] is None else datetime.fromisoformat(stated["free_until"])
    same("late cancellation, until when releasing costs nothing", told, until)
    return [f"late cancellation: {stated['share']} of the price, at most {stated['amount']} {book.currency.code}"]


def _counted(document: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
    key = "expected_executions" if document.get("plan") is not None else "executions"
    return [(line, _volume(line) if line["program"] is None else line[key]) for line in document["lines"]]


def _volume(line: dict[str, Any]) -> int:
    volume: int = line["quota"]["operations"] if line["program"] is None else line["executions"]
    return volume


def _amount(book: PriceBookDocument, line: dict[str, Any], counted: int) -> Decimal:
    terms, counts = Terms.from_json(line["rating"]["terms"]), Counts.from_json(line["rating"]["counts"])
    if line["program"] is None:  # a quota counts as one execution of all its operations
        counts, counted = Counts(counted, 0), 1
    return rate(book=book, counts=counts, executions=counted, terms=terms, unused=True, late=True).amount


def _free_until(document: dict[str, Any], notice_minutes: int) -> datetime | None:
    if document["reservation"] is None:
        return None
    is_host = document["pool"]["kind"] == "host"
    parts = [(_volume(line), _weight(line, is_host=is_host)) for line in document["lines"]]
    each = shared_seconds(Fraction(document["device_seconds"]), parts)
    unused = [Unused(counted, one) for (_, counted), one in zip(_counted(document), each, strict=True)]
    reserved = [
        (datetime.fromisoformat(one["start"]), datetime.fromisoformat(one["end"])) for one in document["reservation"]
    ]
    return free_until(unused, reserved=reserved, notice_minutes=notice_minutes)


def _weight(line: dict[str, Any], *, is_host: bool) -> Fraction:
    if is_host or line["program"] is None:
        return Fraction(1)
    return Fraction(line["program"]["cycles"], line["program"]["clock_hz"])
