"""The first price book."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

from apps.accounts.models import Organisation, User
from apps.pricing.models import PriceBook
from apps.pricing.services import pricebook_publish

FIRST_BOOK = Path(__file__).parent / "books" / "book-1.json"
FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def seed(*, now: datetime, organisation: Organisation, owner: User, admin: User) -> None:
    """Publish the first book unless some book is published."""
    if not PriceBook.objects.exists():
        pricebook_publish(document=json.loads(FIRST_BOOK.read_text()), effective_from=min(FIRST_DAY, now), now=now)
