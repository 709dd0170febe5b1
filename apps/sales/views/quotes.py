"""The quote pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation, User
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING, ENGINEERING
from apps.ledger.selectors import caps_like, spending
from apps.registry.models import Project
from apps.sales import selectors, services
from apps.sales.amendments import amendment_rest
from apps.sales.exports import priced_lines, quote_file_response
from apps.sales.filters import QUOTE_STATES, Filters, filters_read, filters_unknown, quotes_filter
from apps.sales.models import FormName, Quote
from apps.sales.releasing import takeover_stored
from apps.sales.standing_selectors import wait_of

PER_PAGE = 25


@require_GET
def quote_list(request: HttpRequest) -> HttpResponse:
    """List the organisation's quotes, newest first."""
    organisation, now = organisation_get(request), timezone.now()
    filters = filters_read(request.GET, states=tuple(name for name, _ in QUOTE_STATES))
    found = quotes_filter(selectors.quotes_of(organisation), filters, now=now)
    page = page_of(request, found, ordering=("-created_at", "-id"), size=PER_PAGE)
    rows = [{"quote": quote, "state": quote.display_state(now=now)} for quote in page]
    unknown = filters_unknown(request.GET, filters, states=QUOTE_STATES, rows="quotes")
    context = {"page": page, "rows": rows, **list_context(organisation, filters), "states": QUOTE_STATES}
    return render(request, "sales/quote_list.html", context | {"unknown": unknown})


def list_context(organisation: Organisation, filters: Filters) -> dict[str, Any]:
    """Return the template context for the filters above a list."""
    return {
        "filters": filters,
        "forms": FormName.choices,
        "projects": Project.objects.filter(organisation=organisation).order_by("name"),
    }


@require_GET
def quote_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one quote with every line and price step."""
    return _detail(request, pk)


def _detail(request: HttpRequest, pk: UUID, *, naming: dict[str, Any] | None = None) -> HttpResponse:
    related = Quote.objects.select_related("pool", "contract", "created_by", "amends")
    quote = org_object_get(request, related, pk=pk)
    actor, now = principal_get(request).user, timezone.now()
    share = request.build_absolute_uri(f"/shared/quotes/{quote.share_token}") if quote.is_shared(now=now) else ""
    refused = services.acceptance_refusals(quote, actor=actor, now=now) if quote.is_valid(now=now) else []
    context = _context(quote) | {"share_url": share, "is_shared": False, "refused": refused}
    context["wait"] = wait_of(quote, now=now) if quote.is_valid(now=now) else None
    context["naming"] = naming
    return render(request, "sales/quote_detail.html", context, status=naming["refusal"].status if naming else 200)


@require_GET
def quote_validity(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the countdown of the price lock."""
    quote = org_object_get(request, Quote, pk=pk)
    return render(request, "sales/_validity.html", _context(quote))


@require_GET
@login_not_required
def quote_shared(request: HttpRequest, token: str) -> HttpResponse:
    """Show the quote, read-only, to anybody who has the share link."""
    quote = selectors.quote_shared(token, now=timezone.now())
    if quote is None:
        raise Http404
    return render(request, "sales/quote_detail.html", _context(quote) | {"share_url": "", "is_shared": True})


@require_GET
def quote_file(request: HttpRequest, pk: UUID, kind: str) -> HttpResponse:
    """Download the quote as PDF, CSV or JSON."""
    quote = org_object_get(request, Quote, pk=pk)
    if kind not in {"pdf", "csv", "json"}:
        raise Http404
    return quote_file_response(quote, kind)


@require_http_methods(["GET", "POST"])
def quote_accept(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the effects of acceptance. POST accepts the quote."""
    quote = org_object_get(request, Quote.objects.select_related("pool", "contract", "amends"), roles=BUYING, pk=pk)
    now, refusal, actor = timezone.now(), None, principal_get(request).user
    if request.method == "POST":
        try:
            contract = services.quote_accept(quote_id=quote.id, organisation=quote.organisation, actor=actor, now=now)
        except Problem as problem:
            refusal = problem
            quote.refresh_from_db()
        else:
            messages.success(request, "Accepted. Capacity is reserved and the amount is set aside.")
            return redirect("sales:contract_detail", pk=contract.pk)
    context = _context(quote) | _acceptance(quote, refusal, actor, now)
    return render(request, "sales/quote_accept.html", context, status=refusal.status if refusal else 200)


def _acceptance(quote: Quote, refusal: Problem | None, actor: User | None, now: datetime) -> dict[str, Any]:
    caps = caps_like(quote.organisation_id)
    rest = amendment_rest(quote.amends, takeover_stored(quote.document), now=now)[0] if quote.amends else None
    is_open = not hasattr(quote, "contract")
    is_full = refusal is not None and refusal.kind == "capacity-taken"
    return {
        "rest": rest,
        "change": rest.difference(quote.worst) if rest else None,
        "refusal": refusal,
        "refused": services.acceptance_refusals(quote, actor=actor, now=now) if is_open else [],
        "wait": wait_of(quote, now=now) if is_open else None,
        "alternatives": [one for one in refusal.errors if "pool" in one] if refusal is not None and is_full else [],
        "cap": caps.get(quote.currency),
        "caps_elsewhere": [] if quote.currency in caps else list(caps.values()),
        "spent": spending(organisation_id=quote.organisation_id, currency=quote.currency, now=now),
    }


@require_POST
def quote_withdraw(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Withdraw the quote."""
    return _change(request, pk, services.quote_withdraw, "Withdrawn. This quote can no longer be accepted.")


@require_POST
def quote_rename(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Set the quote's name."""
    quote, typed = org_object_get(request, Quote, roles=ENGINEERING, pk=pk), request.POST.get("name", "")
    try:
        services.quote_rename(
            quote_id=pk,
            organisation=quote.organisation,
            name=typed,
            actor=principal_get(request).user,
            now=timezone.now(),
        )
    except Problem as refusal:
        return _detail(request, pk, naming={"typed": typed, "refusal": refusal})
    messages.success(request, "Name saved.")
    return redirect("sales:quote_detail", pk=pk)


@require_POST
def quote_unshare(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End the share link."""
    return _change(request, pk, services.quote_unshare, "The link no longer works.")


@require_POST
def quote_share(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Create a share link for a number of days."""
    days = request.POST.get("days", "")
    count = int(days) if days.isascii() and days.isdigit() and len(days) < 6 else 0  # 0 is refused with a sentence
    service = partial(services.quote_share, days=count if days else None)
    return _change(request, pk, service, "Anyone with the link can read this quote until it expires.")


def _change(request: HttpRequest, pk: UUID, service: Callable[..., Quote], said: str) -> HttpResponse:
    quote = org_object_get(request, Quote, roles=ENGINEERING, pk=pk)
    try:
        service(
            quote_id=quote.id, organisation=quote.organisation, actor=principal_get(request).user, now=timezone.now()
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, said)
    return redirect("sales:quote_detail", pk=quote.pk)


def _context(quote: Quote) -> dict[str, Any]:
    now = timezone.now()
    document = quote.document
    return {
        "quote": quote,
        "document": document,
        "lines": [lined(line) for line in priced_lines(document)],
        "state": quote.display_state(now=now),
        "valid": quote.is_valid(now=now),
        "valid_for": quote.valid_until - now if quote.is_valid(now=now) else None,
        "contract": getattr(quote, "contract", None),
        "amendment": document.get("amends"),
        "window": (instant(document["window"]["start"]), instant(document["window"]["end"])),
        "slots": [
            {"device": one["device"], "start": instant(one["start"]), "end": instant(one["end"])}
            for one in document["reservation"] or []
        ],
        "alternatives": [
            {**one, "saving": 1 - Fraction(one["share"]), "start": instant(one["start"]) if one["start"] else None}
            for one in document["alternatives"]
        ],
        "now": now,
    }


def lined(line: dict[str, Any]) -> dict[str, Any]:
    """Return a stored line with the figures that a page shows."""
    if "charged" in line["rating"]:
        return {**line, "is_minimum": True, "steps": line["rating"]["steps"]}
    steps = {step["name"]: step for step in line["rating"]["steps"]}
    return {
        **line,
        "unit_price": steps["list"]["factor"],
        "billed": steps["billed"]["result"],
        "factor": _ratio(Decimal(line["amount"]), Decimal(steps["list"]["result"])),
        "steps": line["rating"]["steps"],
    }


def _ratio(amount: Decimal, listed: Decimal) -> str:
    exact = Fraction(amount) / Fraction(listed)
    return f"{Decimal(exact.numerator) / Decimal(exact.denominator):f}"


def instant(text: str) -> datetime:
    """Parse an instant of a document."""
    return datetime.fromisoformat(text)
