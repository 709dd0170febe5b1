"""Documents of any age keep their digests: what was added later is absent where it is not used."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from decimal import Decimal
from itertools import product

from apps.pricing.rating import Counts, Rating, Terms, canonical_json, rate
from tests.pricing.rating.books import book

FIRST_BOOK = "50194c0f4dd9cd95c152c9d159164cb704355409ac992328c25672e8baa834a8"
FIRST_RATINGS = "aada716122503db8bed6e1dc32bbd95fad521f1638dcea963be2645491d2fdb5"
NIGHT = datetime(2026, 11, 24, 1, tzinfo=UTC)


def _ratings() -> list[Rating]:
    first = book()
    found = []
    for processor, precision, klass, commitment in product(
        ("lpu", "lpu2"), ("float32", "int8"), sorted(first.classes), sorted(first.commitments)
    ):
        for discounts, unused in (({}, False), ({}, True), ({"launch": Decimal("0.2")}, False)):
            terms = Terms(processor, precision, klass, commitment, NIGHT, discounts)
            counts = Counts(704_123_456_789, 5_000)
            found.append(rate(book=first, counts=counts, executions=77, terms=terms, unused=unused))
    return found


def test_the_first_book_keeps_its_digest() -> None:
    assert book().digest == FIRST_BOOK


def test_ratings_of_the_first_release_are_made_again_byte_for_byte() -> None:
    told = hashlib.sha256()
    for rating in _ratings():
        told.update(canonical_json(rating.to_json()).encode())
    assert told.hexdigest() == FIRST_RATINGS
