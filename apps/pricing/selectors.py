"""Read price books."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from apps.accounts.problems import Problem
from apps.pricing.models import PriceBook
from apps.pricing.rating import BookError, PriceBookDocument, book_from_text

HOLIDAYS = "tariff.holidays"


class Difference(NamedTuple):
    """A difference between two price books: its place, and the value in each book (None if the book has no value
    there).
    """

    place: str
    before: str | None
    after: str | None


def book_in_force(*, at: datetime) -> PriceBook:
    """Return the price book in force at an instant. Raises Problem if no book is in force."""
    book = PriceBook.objects.filter(effective__contains=at).first()
    if book is None:
        detail = f"No price book is in force at {at:%Y-%m-%d %H:%M} UTC; ask the administrator to publish one."
        raise Problem(409, "Nothing is priced", detail, kind="no-price-book")
    return book


def book_next(*, at: datetime) -> PriceBook | None:
    """Return the first published book that is not yet in force; None if there is none."""
    return PriceBook.objects.filter(effective__startswith__gt=at).order_by("version").first()


def book_of_digest(digest: str) -> PriceBookDocument:
    """Return the parsed book with this digest. Raises PriceBook.DoesNotExist if there is none."""
    return document_of(PriceBook.objects.get(digest=digest))


def books_of_digests(digests: Iterable[str]) -> dict[str, PriceBookDocument]:
    """Return the parsed books by digest. Raises PriceBook.DoesNotExist if a book is missing."""
    wanted = set(digests)
    found = {book.digest: document_of(book) for book in PriceBook.objects.filter(digest__in=wanted)} if wanted else {}
    if found.keys() != wanted:
        raise PriceBook.DoesNotExist(f"no price book has the digest {min(wanted - found.keys())}")
    return found


def document_of(book: PriceBook) -> PriceBookDocument:
    """Return the parsed document of a book. Raises Problem if the stored document differs from the published document."""
    altered, parsed = _looked_into(book)
    if altered or parsed is None:
        raise Problem(
            503,
            "A price book was altered",
            f"{altered[0].capitalize()}. Nothing will be priced with this price book until the administrator has restored "
            "the published one.",
            kind="price-book-altered",
        )
    return parsed


def book_alterations(book: PriceBook) -> list[str]:
    """Return a sentence for each difference between the stored book and the published book."""
    return list(_looked_into(book)[0])


def _looked_into(book: PriceBook) -> tuple[tuple[str, ...], PriceBookDocument | None]:
    text = json.dumps(book.document, sort_keys=True)
    return _judged(text, book.digest, book.version, book.currency)


@lru_cache(maxsize=64)
def _judged(text: str, digest: str, version: int, currency: str) -> tuple[tuple[str, ...], PriceBookDocument | None]:
    name = f"price book {version}"
    try:
        parsed = book_from_text(text)
    except BookError:
        return (f"{name}: its document is not a price book any more, nor the one that was published",), None
    if parsed.digest != digest:
        return (f"{name}: its document is not the one that was published",), parsed
    if (parsed.version, parsed.currency.code) != (version, currency):
        return (f"{name} in {currency}: its document is version {parsed.version} in {parsed.currency.code}",), parsed
    return (), parsed


def book_differences(before: PriceBook, after: PriceBook) -> list[Difference]:
    """Return the differences between two books, sorted by place. Numbers and dates in a place sort by value.

    A holiday's place is its day, such as `tariff.holidays[2026-12-25]`, because its position changes with every holiday
    before it.
    """
    old, new = _flat(before.document), _flat(after.document)
    places = sorted(old.keys() | new.keys(), key=_place_key)
    return [Difference(at, old.get(at), new.get(at)) for at in places if old.get(at) != new.get(at)]


def _place_key(place: str) -> list[Any]:
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", place)]


def _flat(value: Any, place: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        items = [(f"{place}.{key}" if place else str(key), item) for key, item in value.items()]
    elif place == HOLIDAYS and (named := _holidays_by_day(value)) is not None:
        items = [(f"{place}[{day}]", name) for day, name in named.items()]
    elif isinstance(value, list) and not all(isinstance(item, int) for item in value):
        items = [(f"{place}[{index}]", item) for index, item in enumerate(value)]
    else:
        return {place: json.dumps(value)}
    found: dict[str, str] = {}
    for path, item in items:
        found.update(_flat(item, path))
    return found


def _holidays_by_day(value: Any) -> dict[str, Any] | None:
    # None if a draft is faulty, such as a day that is listed twice; nothing may be hidden then.
    if not isinstance(value, list) or not all(
        isinstance(item, dict) and item.keys() == {"day", "name"} for item in value
    ):
        return None
    found = {str(item["day"]): item["name"] for item in value}
    return found if len(found) == len(value) else None
