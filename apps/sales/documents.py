"""The documents of quotes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.pricing.rating import (
    decimal_text,
    payable_of,
)
from apps.sales.assumptions import assumptions_of
from apps.sales.contract_minimum import minimum_json
from apps.sales.late_cancellation import late_json
from apps.sales.loading import loading_json
from apps.sales.priced import Priced, request_lines_price
from apps.sales.request_lines import QuoteRequestLine
from apps.sales.volumes import PER_EXECUTION
from apps.timetable.selectors import Slot

FORMAT = "takt-quote/1"


def quote_document(
    *,
    priced: Priced,
    identity: dict[str, Any],
    alternatives: list[dict[str, Any]],
    starts: list[dict[str, Any]],
    now: datetime,
) -> dict[str, Any]:
    """Return the document of a quote."""
    book, slots, minimum = priced.book, priced.preview(now=now), priced.minimum
    rounded = payable_of(priced.worst, exponent=book.currency.exponent)
    return {
        "format": FORMAT,
        **identity,
        "created_at": stamp(now),
        "valid_until": stamp(now + timedelta(minutes=book.quote_validity_minutes)),
        "book": {"version": book.version, "digest": book.digest},
        "currency": book.currency.to_json(),
        "class": {"name": priced.price_class.name, **priced.price_class.to_json()},
        **({} if priced.form == PER_EXECUTION else {"form": priced.form.to_json()}),
        "pool": pool_json(priced.pool),
        "window": {"start": stamp(priced.window.start), "end": stamp(priced.window.end)},
        "tariff": {"instant": stamp(priced.instant), "zone": book.tariff.zone},
        "lines": [line.to_json(number) for number, line in enumerate(priced.lines, 1)],
        **({} if minimum is None else {"minimum": minimum_json(book, minimum, priced.expected_lines)}),
        **_late(priced, slots),
        "net": decimal_text(priced.worst),
        "expected": decimal_text(priced.expected),
        "payable": decimal_text(rounded.payable),
        "carried": decimal_text(rounded.carried),
        "device_seconds": str(priced.duration),
        **loading_json([line.request_line for line in priced.lines], priced.pool),
        "reservation": None
        if slots is None
        else [{"device": one.device.name, "start": stamp(one.start), "end": stamp(one.end)} for one in slots],
        "assumptions": assumptions_of(priced),
        "alternatives": alternatives,
        **({"starts": starts} if starts else {}),
    }


def _late(priced: Priced, slots: Sequence[Slot] | None) -> dict[str, Any]:
    return late_json(
        book=priced.book,
        price_class=priced.price_class,
        request_lines=[line.request_line for line in priced.lines],
        terms=[line.worst.terms for line in priced.lines],
        duration=priced.duration,
        is_host=priced.pool.is_host,
        reserved=None if slots is None else [(one.start, one.end) for one in slots],
        stamp=stamp,
    )


def alternatives_of(
    *, request_lines: Sequence[QuoteRequestLine], chosen: Priced, now: datetime
) -> list[dict[str, Any]]:
    """Return the other classes offered for the same work, cheapest first."""
    found: list[tuple[Decimal, dict[str, Any]]] = []
    for name, price_class in chosen.book.classes.items():
        if not price_class.offered or name == chosen.price_class.name:
            continue
        try:
            other = request_lines_price(
                request_lines=request_lines,
                book=chosen.book,
                klass=name,
                pool=chosen.pool,
                window=chosen.window,
                now=now,
                form=chosen.form,
            )
        except Problem:
            continue
        slots = other.preview(now=now)
        found.append(
            (
                other.worst,
                {
                    "klass": name,
                    "title": price_class.title,
                    "promise": price_class.promise,
                    "amount": decimal_text(other.worst),
                    "share": str(Fraction(other.worst) / Fraction(chosen.worst)),
                    "start": stamp(min(one.start for one in slots)) if slots else None,
                    "end": stamp(max(one.end for one in slots)) if slots else None,
                },
            )
        )
    return [document for _, document in sorted(found, key=lambda pair: pair[0])]


def pool_json(pool: Pool) -> dict[str, Any]:
    """Return the description of a pool for documents."""
    return {
        "slug": pool.slug,
        "name": pool.name,
        "kind": pool.kind,
        "processor_class": pool.processor_class,
        "target": pool.target,
        **({} if pool.power_percent == 100 else {"power_percent": pool.power_percent}),
    }


def stamp(instant: datetime) -> str:
    """Format an instant for documents, as ISO 8601 in UTC."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")
