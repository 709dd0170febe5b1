"""The API of quote comparisons."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Query, Router, Schema

from apps.accounts.access import org_object_get
from apps.sales.comparing import MOST_COLUMNS, compare_json
from apps.sales.models import Quote

router = Router(tags=["quotes and contracts"])
COMPARED: Any = Query(..., min_length=1, max_length=MOST_COLUMNS)  # type: ignore[type-arg]  # called, it is no type


class ComparisonRowOut(Schema):
    name: str
    title: str
    differs: bool
    values: list[str]
    changes: list[str | None]


class ComparedOut(Schema):
    id: UUID
    number: str
    name: str
    digest: str


class ComparisonOut(Schema):
    """`values` are exact. `changes` are fractions of the baseline value; null if the values are not comparable numbers."""

    baseline: UUID
    quotes: list[ComparedOut]
    rows: list[ComparisonRowOut]


@router.get("/quotes/compare", response=ComparisonOut, operation_id="quote_compare", summary="Compare quotes")
def quote_compare(request: HttpRequest, quote: list[UUID] = COMPARED) -> dict[str, Any]:
    """Compares up to four quotes. The first quote is the baseline."""
    related = Quote.objects.select_related("pool", "contract")
    chosen = {pk: org_object_get(request, related, pk=pk) for pk in quote}
    return compare_json(list(chosen.values()), now=timezone.now())
