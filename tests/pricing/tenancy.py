"""Who may open the addresses of the pricing room."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from apps.accounts.roles import Scope
from apps.pricing.models import PriceBook
from apps.pricing.services import pricebook_publish
from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.pricing.rating.books import document
from tests.sales.market import open_market
from tests.tenancy import operation, page


def _book(cast: Cast) -> dict[str, Any]:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    if not PriceBook.objects.exists():  # a market may have opened with one
        pricebook_publish(document=document(), effective_from=start, now=start)
    return {"version": 1}


def _priced(cast: Cast) -> dict[str, Any]:
    open_market()
    return {"pk": compiled(cast, "digits-small").pk}


ROUTES = [
    page("/prices", public=True, make=_book),
    page("/prices/derivation", public=True),
    page("/prices/compare", signed_in=True, make=_book),
    page("/prices/<int:version>/price-book.json", signed_in=True, make=_book),
    operation("GET /price-books"),
    operation("GET /price-books/current"),
    operation("GET /price-books/{int:version}", scope=None, make=_book),
    operation("GET /programs/{uuid:pk}/price", make=_priced),
    operation("POST /price-books", scope=Scope.ADMIN, body={"document": {}, "effective_from": "2030-01-01T00:00:00Z"}),
]
