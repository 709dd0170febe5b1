"""Pages that show price books and the differences between them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import principal_get
from apps.accounts.models import Organisation
from apps.pricing.differences import rows_of
from apps.pricing.examples import examples
from apps.pricing.grid import tariff_grid
from apps.pricing.models import PriceBook
from apps.pricing.rating import PriceBookDocument, book_from_json, classes_ordered
from apps.pricing.seed import derivation as derived
from apps.pricing.seed import host_measured
from apps.pricing.selectors import book_in_force, book_next, document_of


@require_GET
@login_not_required
def book(request: HttpRequest) -> HttpResponse:
    """Show the current prices with worked examples. The page is public."""
    now = timezone.now()
    zone = _zone(request)
    current = book_in_force(at=now)
    document = document_of(current)
    following = book_next(at=now)
    context = {
        "book": current,
        "document": document,
        "precisions": sorted({name for row in document.prices.values() for name in row}),
        "rows": _price_rows(document),
        "classes": classes_ordered(document),
        "has_late": any(one.late for one in document.classes.values()),
        "examples": examples(document, now=now),
        "validity": timedelta(minutes=document.quote_validity_minutes),
        "notice": timedelta(days=document.notice_days),
        "grid": tariff_grid(book=document, zone=zone, now=now),
        "next": following,
        "differences": rows_of(current, following) if following else [],
        "is_derived": current.digest == book_from_json(derived().document).digest,
        "older": PriceBook.objects.exclude(pk=current.pk).order_by("-version") if request.user.is_authenticated else [],
    }
    return render(request, "pricing/book.html", context)


@require_GET
@login_not_required
def derivation(request: HttpRequest) -> HttpResponse:
    """Show how the newest shipped book is derived from the required revenue per device-hour. The page is public."""
    found = derived()
    document = book_from_json(found.document)
    subtitle = f"How the prices of price book {document.version} follow from the cost of a device-hour."
    context = {"derivation": found, "measured": host_measured(), "document": document, "subtitle": subtitle}
    return render(request, "pricing/derivation.html", context)


@require_GET
def compare(request: HttpRequest) -> HttpResponse:
    """Show the differences between two published books; by default, the last two books."""
    books = list(PriceBook.objects.order_by("-version"))
    known = {str(one.version): one for one in books}
    if not books:
        raise Http404
    after = known.get(request.GET.get("after", str(books[0].version)))
    before = known.get(request.GET.get("before", str(books[min(1, len(books) - 1)].version)))
    if before is None or after is None:
        raise Http404
    context = {
        "books": books,
        "before": before,
        "after": after,
        "before_label": f"Price book {before.version}",
        "after_label": f"Price book {after.version}",
        "differences": rows_of(before, after),
    }
    return render(request, "pricing/compare.html", context)


@require_GET
def book_json(request: HttpRequest, version: int) -> HttpResponse:
    """Return the book's document as a JSON file."""
    found = PriceBook.objects.filter(version=version).first() if version < 2**31 else None
    if found is None:
        raise Http404
    text = json.dumps(document_of(found).to_json(), indent=1, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="price-book-{found.version}.json"'
    return response


def _price_rows(document: PriceBookDocument) -> list[dict[str, Any]]:
    precisions = sorted({name for row in document.prices.values() for name in row})
    return [
        {
            "name": name,
            "prices": [prices.get(precision) for precision in precisions],
            "minimum": least if isinstance(least, int) else None,
            "minimums": sorted(least.items()) if isinstance(least, dict) else [],
        }
        for name, prices in document.prices.items()
        for least in [document.minimum_operations_per_cycle[name]]
    ]


def _zone(request: HttpRequest) -> str:
    if not request.user.is_authenticated:
        return "UTC"
    current = principal_get(request).current
    organisation = Organisation.objects.filter(pk=current).first() if current else None
    return organisation.time_zone if organisation else "UTC"
