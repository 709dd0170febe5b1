from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.pricing.amounts import currency_of
from apps.pricing.differences import ABSENT, rows_of
from apps.pricing.models import PriceBook
from apps.pricing.rating import Currency, book_from_json
from apps.pricing.seed import seed
from apps.pricing.selectors import book_differences, book_in_force, book_next, book_of_digest, document_of
from apps.pricing.services import pricebook_publish
from tests.cast import Cast
from tests.pricing.rating.books import document

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
START = datetime(2026, 1, 1, tzinfo=UTC)
NEXT = NOW + timedelta(days=31)

pytestmark = pytest.mark.django_db


def _first() -> PriceBook:
    return pricebook_publish(document=document(), effective_from=START, now=START)


def _second(start: datetime = NEXT, **changes: Any) -> PriceBook:
    def change(d: dict[str, Any]) -> None:
        d["version"] = 2
        d["prices"]["lpu"]["float32"] = "0.007"
        d.update(changes)

    return pricebook_publish(document=document(change), effective_from=start, now=NOW)


def test_the_book_in_force_is_the_one_whose_period_holds_the_instant() -> None:
    first, second = _first(), _second()
    assert book_in_force(at=NEXT - timedelta(microseconds=1)) == first
    assert book_in_force(at=NEXT) == second
    assert book_next(at=NOW) == second
    assert book_next(at=NEXT) is None


def test_before_the_first_book_nothing_is_priced() -> None:
    _first()
    with pytest.raises(Problem, match="No price book is in force"):
        book_in_force(at=START - timedelta(seconds=1))


def test_a_stored_book_is_the_published_one() -> None:
    first = _first()
    assert document_of(PriceBook.objects.get()).to_json() == first.document
    assert book_of_digest(first.digest).version == 1


def test_the_database_refuses_to_change_or_delete_a_book() -> None:
    book = _first()
    for change in (
        {"document": {}},
        {"currency": "USD"},
        {"effective": DateTimeTZRange(START - timedelta(days=1), None, "[)")},
    ):
        with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
            PriceBook.objects.filter(pk=book.pk).update(**change)
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        book.delete()


def test_a_closed_end_stays_closed() -> None:
    first = _first()
    _second()
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        PriceBook.objects.filter(pk=first.pk).update(effective=DateTimeTZRange(START, None, "[)"))


def test_the_database_refuses_two_books_in_force_at_once() -> None:
    first = _first()
    with pytest.raises(IntegrityError, match="pricebook_one_in_force"), transaction.atomic():
        PriceBook.objects.create(
            version=9,
            effective=DateTimeTZRange(NOW, NOW + timedelta(days=1), "[)"),
            document=first.document,
            digest="0" * 64,
            currency="EUR",
            published_at=NOW,
        )


@pytest.mark.parametrize(
    ("start", "changes", "said"),
    [
        (NOW + timedelta(days=29), {}, "30 days' notice"),
        (NEXT, {"version": 3}, "next price book must be version 2"),
        (START, {}, "must start later"),
        (NEXT, {"floor": "7"}, "cannot be used"),
        (NEXT, {"currency": {"code": "EUR", "exponent": 3}}, "ISO 4217 gives EUR 2"),
        (NEXT, {"currency": {"code": "EUC", "exponent": 2}}, "no currency of ISO 4217"),
    ],
)
def test_a_book_that_may_not_follow_is_refused(start: datetime, changes: dict[str, Any], said: str) -> None:
    _first()
    with pytest.raises(Problem, match=said):
        _second(start, **changes)
    assert PriceBook.objects.get().effective_until is None


def test_a_book_with_other_places_that_was_published_before_stays_readable() -> None:
    """Its currency keeps the finer unit that papers under it have."""
    old = book_from_json(document(lambda d: d.update(currency={"code": "EUR", "exponent": 3})))
    PriceBook.objects.create(
        version=1,
        effective=DateTimeTZRange(START, None, "[)"),
        document=old.to_json(),
        digest=old.digest,
        currency="EUR",
        published_at=START,
    )
    assert document_of(book_in_force(at=NOW)).currency == currency_of("EUR") == Currency("EUR", 3)
    assert (
        pricebook_publish(document=document(lambda d: d.update(version=2)), effective_from=NEXT, now=NOW).version == 2
    )
    assert currency_of("EUR").exponent == 3


def test_the_difference_between_two_books_names_every_place() -> None:
    found = book_differences(_first(), _second(floor="0.2"))
    assert [(one.place, one.before, one.after) for one in found] == [
        ("floor", '"0.25"', '"0.2"'),
        ("prices.lpu.float32", '"0.008"', '"0.007"'),
        ("version", "1", "2"),
    ]


def test_holidays_are_compared_by_day_and_sorted_by_date() -> None:
    before, after = document(), document()
    holidays = after["tariff"]["holidays"]
    renamed, removed = holidays[2], holidays.pop(10)
    before["tariff"]["holidays"] = list(reversed(before["tariff"]["holidays"]))
    renamed["name"] = "Monday after Easter"
    holidays.append({"day": "2026-11-01", "name": "All Saints' Day"})
    rows = rows_of(PriceBook(document=before), PriceBook(document=after))
    assert [(row.label, row.before, row.after) for row in rows] == [
        (f"Holiday {renamed['day']}", "Easter Monday", "Monday after Easter"),
        ("Holiday 2026-11-01", ABSENT, "All Saints' Day"),
        (f"Holiday {removed['day']}", removed["name"], ABSENT),
    ]


def test_a_day_that_is_listed_twice_is_not_hidden() -> None:
    before, after = document(), document()
    after["tariff"]["holidays"].append({"day": "2026-01-01", "name": "Another name"})
    rows = rows_of(PriceBook(document=before), PriceBook(document=after))
    assert "Another name" in {row.after for row in rows}


def test_months_are_sorted_by_number() -> None:
    before, after = document(), document()
    for month in (1, 9, 10):
        after["tariff"]["weekday"][month] = [0] * 24
    rows = rows_of(PriceBook(document=before), PriceBook(document=after))
    assert [row.place for row in rows] == [f"tariff.weekday[{month}]" for month in (1, 9, 10)]


def test_any_two_books_are_compared_on_a_page(cast: Cast, as_user: Callable[[User], Client]) -> None:
    _first()
    _second(floor="0.2")
    client = as_user(cast.viewer)
    shown = client.get("/prices/compare").content.decode()
    assert "prices.lpu.float32" in shown
    assert "€\u202f7.00 per thousand tera-operations" in shown
    assert "0.007" not in shown
    assert "The two books are the same." in client.get("/prices/compare?before=2&after=2").content.decode()
    assert client.get("/prices/compare?before=7").status_code == 404
    assert "/prices/compare" in client.get("/prices").content.decode()


def test_seeding_twice_publishes_once(cast: Cast) -> None:
    for _ in range(2):
        seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    book = PriceBook.objects.get()
    shipped = Path("apps/pricing/books/book-2.json")
    assert book.document == json.loads(shipped.read_text())
