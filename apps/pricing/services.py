"""Publish price books."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.currencies import PLACES
from apps.pricing.models import PriceBook
from apps.pricing.rating import BookError, PriceBookDocument, book_from_json

CLASS_NAME_MAX = 20  # as quotes, contracts and usage store it; books published before may hold longer names


@transaction.atomic
def pricebook_publish(
    *, document: Any, effective_from: datetime, now: datetime, actor: User | None = None
) -> PriceBook:
    """Publish the next price book. The previous book ends when the new book starts.

    Raises Problem if the document is faulty, the version is not the next one, the start is not after the last book's
    start, or the notice period is too short.
    """
    book = book_checked(document)
    last = PriceBook.objects.select_for_update().order_by("-version").first()
    if last is not None:
        _follow(last, version=book.version, effective_from=effective_from, now=now)
        PriceBook.objects.filter(pk=last.pk).update(
            effective=DateTimeTZRange(last.effective_from, effective_from, "[)")
        )
    published = _row(book, effective_from, now)
    published.save(force_insert=True)
    if actor is not None:
        audit_record(
            action="price-book.publish",
            subject=f"price book {book.version}",
            actor=actor,
            now=now,
            detail={"digest": book.digest, "effective_from": effective_from.isoformat()},
        )
    task_send_on_commit("apps.sales.tasks.standing_sweep", queue="default")  # what waits for a price is tried
    return published


def pricebook_preview(*, document: Any, effective_from: datetime, now: datetime) -> PriceBook:
    """Return the book as it would be published, without storing the book. Raises Problem if the book cannot be
    published.
    """
    book = book_checked(document)
    last = PriceBook.objects.order_by("-version").first()
    if last is not None:
        _follow(last, version=book.version, effective_from=effective_from, now=now)
    return _row(book, effective_from, now)


def book_checked(document: Any) -> PriceBookDocument:
    """Parse a price book document and check its currency against ISO 4217. Raises Problem with every fault."""
    try:
        book = book_from_json(document, currencies=PLACES)
        long = [name for name in book.classes if len(name) > CLASS_NAME_MAX]
        if long:
            raise BookError([f"classes has {name}, a name longer than {CLASS_NAME_MAX} characters" for name in long])
        return book
    except BookError as error:
        faults = [{"message": problem} for problem in error.problems]
        raise Problem(422, "Not a price book", str(error), kind="price-book-faulty", errors=faults) from error


def _row(book: PriceBookDocument, effective_from: datetime, now: datetime) -> PriceBook:
    return PriceBook(
        version=book.version,
        effective=DateTimeTZRange(effective_from, None, "[)"),
        document=book.to_json(),
        digest=book.digest,
        currency=book.currency.code,
        published_at=now,
    )


def _follow(last: PriceBook, *, version: int, effective_from: datetime, now: datetime) -> None:
    if version != last.version + 1:
        raise Problem(
            409,
            "Wrong version",
            f"The next price book must be version {last.version + 1}, but this one is version {version}.",
            kind="price-book-version",
        )
    if effective_from <= last.effective_from:
        raise Problem(
            409,
            "Too early",
            f"The latest price book starts at {last.effective_from:%Y-%m-%d %H:%M} UTC; a new one must start later.",
            kind="price-book-too-early",
        )
    notice = timedelta(days=int(last.document["notice_days"]))
    if effective_from < now + notice:
        raise Problem(
            409,
            "Notice too short",
            f"A new price book needs {notice.days} days' notice. Start on {now + notice:%Y-%m-%d %H:%M} UTC or later.",
            kind="price-book-notice",
        )
