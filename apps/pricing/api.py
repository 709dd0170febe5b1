"""The API of price books."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.compilation.models import Program
from apps.pricing import selectors, services
from apps.pricing.models import PriceBook
from apps.pricing.previews import EXECUTIONS, TokenPrice, processor_class_of, program_rating, token_prices
from apps.pricing.rating import RatingError, decimal_text

router = Router(tags=["prices"])


class TokenPriceOut(Schema):
    kind: str = Field(description="decode: one token in an execution; prefill: several.")
    program_id: UUID = Field(description="The program that adds these tokens.")
    dims: dict[str, Any]
    tokens_per_execution: int
    tokens: int = Field(description="The number of tokens that cost `amount`.")
    amount: str


class ProgramPriceOut(Schema):
    executions: int
    amount: str = Field(description="The price of so many executions.")
    currency: str
    price_book: int
    klass: str
    tokens: list[TokenPriceOut] = Field(
        description="Prices of tokens for a program that continues a sequence, also of the programs that continue it with "
        "another number of tokens in one execution. Empty for other programs."
    )


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


@router.get(
    "/programs/{uuid:pk}/price", response=ProgramPriceOut, summary="Today's price of a program's executions and tokens"
)
def program_price(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """The price of 1,000 executions by the price book in force, in the default class. It is rated as a quote's line is, and
    reserves nothing. Returns 422 if the program is not priced.
    """
    program = org_object_get(request, Program.objects.select_related("organisation"), pk=pk)
    now, processor_class = timezone.now(), processor_class_of(program)
    book = selectors.book_in_force(at=now)
    try:
        rating = program_rating(program, book=book, processor_class=processor_class, now=now)
        tokens = token_prices(program, book=book, processor_class=processor_class, now=now)
    except RatingError as error:
        raise Problem(422, "Not priced", str(error), kind="not-priced") from error
    return {
        "executions": EXECUTIONS,
        "amount": decimal_text(rating.amount),
        "currency": rating.currency,
        "price_book": book.version,
        "klass": rating.terms.klass,
        "tokens": [_token_out(one) for one in tokens],
    }


def _token_out(price: TokenPrice) -> dict[str, Any]:
    return {
        "kind": price.kind,
        "program_id": price.program.pk,
        "dims": price.program.dims,
        "tokens_per_execution": price.each,
        "tokens": price.tokens,
        "amount": decimal_text(price.amount),
    }
