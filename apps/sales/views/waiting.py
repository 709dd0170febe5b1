"""The pages of standing requests."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING
from apps.fleet.selectors import pools
from apps.pricing.amounts import amount_typed
from apps.pricing.rating import payable_of
from apps.pricing.selectors import book_of_digest
from apps.sales import services
from apps.sales.models import Quote, StandingRequest
from apps.sales.request_lines import window_of_document
from apps.sales.standing_selectors import places_of, protected_at, standing_of_organisation, wait_of

PAGE = 50


@require_GET
def standing_list(request: HttpRequest) -> HttpResponse:
    """List the organisation's standing requests, newest first."""
    page = page_of(
        request, standing_of_organisation(organisation_get(request)), ordering=("-filed_at", "-id"), size=PAGE
    )
    return render(request, "sales/standing_list.html", {"page": page, "rows": list(page)})


@require_GET
def standing_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one standing request and its position on each pool."""
    row = org_object_get(request, StandingRequest.objects.select_related("quote", "filed_by", "contract"), pk=pk)
    context = {"row": row, "places": places_of(row, now=timezone.now()), "protected_at": protected_at(row)}
    return render(request, "sales/standing_detail.html", context)


@require_POST
def standing_withdraw(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Withdraw a standing request."""
    row = org_object_get(request, StandingRequest, roles=BUYING, pk=pk)
    try:
        services.standing_withdraw(
            request_id=row.pk, organisation=row.organisation, actor=principal_get(request).user, now=timezone.now()
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, "Withdrawn. The amount that was set aside is released.")
    return redirect("sales:standing_detail", pk=row.pk)


@require_http_methods(["GET", "POST"])
def quote_wait(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the form for a standing request. POST files the request."""
    quote = org_object_get(request, Quote.objects.select_related("pool", "organisation"), roles=BUYING, pk=pk)
    now, refusal = timezone.now(), None
    if request.method == "POST":
        try:
            currency = book_of_digest(quote.document["book"]["digest"]).currency
            row = services.standing_file(
                quote_id=quote.pk,
                organisation=quote.organisation,
                actor=principal_get(request).user,
                now=now,
                most=amount_typed(request.POST.get("most", ""), currency=currency),
                until=_until(request.POST.get("until", "")),
                # The database takes no text with a NUL in it, and no pool is named so.
                pools=[slug.replace("\x00", "?") for slug in request.POST.getlist("pools")],
            )
        except Problem as problem:
            refusal = problem
        else:
            messages.success(
                request, "Your request is waiting for room. The amount is set aside until the request ends."
            )
            return redirect("sales:standing_detail", pk=row.pk)
    chosen = request.POST.getlist("pools") or [quote.pool.slug]
    context = _form(quote) | {"refusal": refusal, "entered": request.POST, "chosen_pools": chosen}
    context["wait"] = wait_of(quote, now=now)
    return render(request, "sales/quote_wait.html", context, status=refusal.status if refusal else 200)


def _form(quote: Quote) -> dict[str, Any]:
    book = book_of_digest(quote.document["book"]["digest"])
    siblings = pools().filter(processor=quote.pool.processor, kind=quote.pool.kind).order_by("slug")
    return {
        "quote": quote,
        "document": quote.document,
        "most": payable_of(quote.worst, exponent=book.currency.exponent).payable,
        "until": window_of_document(quote.document).end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M"),
        "pools": list(siblings),
    }


def _until(text: str) -> datetime | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError as error:
        raise Problem(
            422, "No such time", "Enter the time by which the work must finish as a date and a time.", kind="window"
        ) from error
