"""The page that compares quotes."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import org_object_get, organisation_get
from apps.sales import selectors
from apps.sales.comparing import MOST_COLUMNS, compare, comparison_response
from apps.sales.models import Quote

RECENT = 50


@require_GET
def quote_compare(request: HttpRequest) -> HttpResponse:
    """Show up to four quotes side by side. `format=csv` and `format=json` return files."""
    organisation, now = organisation_get(request), timezone.now()
    chosen = _chosen(request)
    if chosen and request.GET.get("format") in {"csv", "json"}:
        return comparison_response(chosen, request.GET["format"], now=now)
    others = selectors.quotes_of(organisation).exclude(pk__in=[quote.pk for quote in chosen])[:RECENT]
    context = {
        "chosen": [{"quote": quote, "state": quote.display_state(now=now)} for quote in chosen],
        "rows": compare(chosen, now=now) if chosen else [],
        "others": others if len(chosen) < MOST_COLUMNS else [],
        "most": MOST_COLUMNS,
        "query": "&".join(f"quote={quote.pk}" for quote in chosen),
    }
    return render(request, "sales/quote_compare.html", context)


def _chosen(request: HttpRequest) -> list[Quote]:
    related = Quote.objects.select_related("pool", "contract")
    found: dict[UUID, Quote] = {}
    for text in request.GET.getlist("quote")[: 2 * MOST_COLUMNS]:
        if text and len(found) < MOST_COLUMNS:
            quote = org_object_get(request, related, pk=text)
            found[quote.pk] = quote
    return list(found.values())
