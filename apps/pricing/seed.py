"""Publish or announce the price books that ship with the product."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from apps.accounts.models import Organisation, User
from apps.pricing.derivation import Derivation, derive
from apps.pricing.measured import Measured, measured_price
from apps.pricing.models import PriceBook
from apps.pricing.rating import book_from_json
from apps.pricing.services import pricebook_publish

BOOKS = Path(__file__).parent / "books"
SHIPPED = (1, 2)  # a published book is immutable; what was sold under an older one is rated by it for ever
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Publish the newest shipped book if no book is published.

    If the last published book is an older, unmodified shipped book, announce the next shipped book with the promised
    notice period.
    """
    last = PriceBook.objects.order_by("-version").first()
    if last is None:
        pricebook_publish(document=shipped(SHIPPED[-1]), effective_from=min(FIRST_DAY, now), now=now)
    elif last.version in SHIPPED[:-1] and last.digest == book_from_json(shipped(last.version)).digest:
        notice = timedelta(days=int(last.document["notice_days"]))
        begins = max(now, last.effective_from + timedelta(seconds=1)) + notice
        pricebook_publish(document=shipped(last.version + 1), effective_from=begins, now=now)


def shipped(version: int) -> dict[str, Any]:
    """Return the document of a shipped book."""
    found: dict[str, Any] = json.loads((BOOKS / f"book-{version}.json").read_text())
    return found


def host_measured() -> Measured:
    """Return the latest host measurement, with the price derived from it."""
    return measured_price(derivation(), json.loads((BOOKS / "host-measured.json").read_text()))


def derivation() -> Derivation:
    """Return the derivation of the newest shipped book."""
    targets = json.loads((BOOKS / f"targets-{SHIPPED[-1]}.json").read_text())
    return derive(targets, json.loads((BOOKS / targets["base"]).read_text()))
