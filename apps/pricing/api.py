"""The API of price books."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import Scope
from apps.pricing import selectors, services
from apps.pricing.models import PriceBook

router = Router(tags=["prices"])


class PriceBookOut(Schema):
    version: int
    digest: str
    currency: str
    effective_from: datetime
    effective_until: datetime | None
    published_at: datetime
    document: dict[str, Any]


class PriceBookIn(RequestBody):
    document: dict[str, Any]
    effective_from: Instant


@router.get("/price-books", response=list[PriceBookOut], operation_id="price_book_list", summary="Every price book")
@paginate(Cursor, ordering=("-version",))
def price_book_list(request: HttpRequest) -> QuerySet[PriceBook]:
    """All price books, newest first."""
    return PriceBook.objects.all()


@router.get(
    "/price-books/current", response=PriceBookOut, operation_id="price_book_current", summary="The price book in force"
)
def price_book_current(request: HttpRequest) -> PriceBook:
    """The price book in force. Its `document` is the input of `takt verify`."""
    return selectors.book_in_force(at=timezone.now())


@router.get(
    "/price-books/{int:version}", response=PriceBookOut, operation_id="price_book_get", summary="One price book"
)
def price_book_get(request: HttpRequest, version: int) -> PriceBook:
    """The price book with this version number."""
    book = PriceBook.objects.filter(version=version).first() if version < 2**31 else None
    if book is None:
        raise Http404
    return book


@router.post(
    "/price-books",
    auth=requires(Scope.ADMIN),
    response={201: PriceBookOut},
    operation_id="price_book_publish",
    summary="Publish the next price book",
)
@idempotent
def price_book_publish(request: HttpRequest, payload: PriceBookIn) -> tuple[int, PriceBook]:
    """For administrators. The previous book ends when the new book starts. The new book can't start before the
    notice period of the previous book has passed.
    """
    return 201, services.pricebook_publish(
        document=payload.document,
        effective_from=payload.effective_from,
        now=timezone.now(),
        actor=principal_get(request).user,
    )
