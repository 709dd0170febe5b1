"""The commitments page."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.problems import Problem
from apps.accounts.roles import ANY_ROLE, MONEY
from apps.pricing.amounts import amount_typed, currency_chosen
from apps.pricing.rating import PriceBookDocument, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_in_force, document_of
from apps.sales import services
from apps.sales.commitments import (
    MONTHS,
    TITLES,
    Month,
    commitment_at,
    commitment_left,
    commitment_months,
    commitments_of,
    commitments_paused,
    promised,
)
from apps.sales.models import Commitment


@require_http_methods(["GET", "POST"])
def commitment_list(request: HttpRequest) -> HttpResponse:
    """Show the commitments and their usage. POST enters a commitment."""
    organisation = organisation_get(request, roles=MONEY if request.method == "POST" else ANY_ROLE)
    now, refusal = timezone.now(), None
    try:
        if request.method == "POST":
            _check_book(request.POST.get("book", ""), now)
            services.commitment_enter(
                organisation=organisation,
                kind=request.POST.get("kind", ""),
                actor=principal_get(request).user,
                minimum=amount_typed(request.POST.get("minimum", ""), currency=currency_chosen(None, now=now)),
                now=now,
            )
            messages.success(request, "Commitment entered. New quotes use the commitment's factor from now on.")
            return redirect("sales:commitment_list")
    except Problem as problem:
        refusal = problem
    paused = commitments_paused(organisation, at=now)
    context: dict[str, Any] = {"refusal": refusal, "paused": paused, "entered": request.POST, "now": now, "kinds": []}
    current = None
    try:
        book = document_of(book_in_force(at=now))
        current = commitment_at(organisation, at=now, currency=book.currency.code)
        context |= {"kinds": kinds_of(book), "currency": book.currency.code, "book_digest": book.digest}
    except Problem as problem:
        context["refusal"] = context["refusal"] or problem
    context |= {"current": current, "shown": current or next(iter(paused), None)}
    if context["shown"] is not None:
        context |= _burn_down(context["shown"], now)
    context["earlier"] = [one for one in commitments_of(organisation) if one != context["shown"]]
    return render(request, "sales/commitment_list.html", context, status=refusal.status if refusal else 200)


def _check_book(digest: str, now: datetime) -> None:
    if digest and digest != document_of(book_in_force(at=now)).digest:
        raise Problem(
            409,
            "The prices have changed",
            "A new price book came into force while this page was open. Nothing was entered. Check the factors below, "
            "and enter the commitment again if you still want it.",
            kind="price-changed",
        )


def kinds_of(book: PriceBookDocument) -> list[dict[str, Any]]:
    """Return the commitments that a price book offers, with their lengths in months and their factors."""
    return [
        {
            "name": name,
            "title": TITLES[name],
            "months": months,
            "factor": book.commitments[name],
            "saving": 1 - book.commitments[name],
        }
        for name, months in MONTHS.items()
        if book.commitments.get(name, Decimal(1)) < 1
    ]


def _burn_down(commitment: Commitment, now: datetime) -> dict[str, Any]:
    months = commitment_months(commitment)
    rows = [{"month": month, "state": _state(month, now), "left": left} for month, left in _lefts(commitment, months)]
    begun = [row for row in rows if row["month"].start <= now]  # type: ignore[attr-defined]
    present = begun[-1]["month"]
    return {
        "months": rows,
        "present": present,
        "missed": exact_sum(row.missing for row in months if row.end <= now),
        "left": commitment_left(commitment),
        "promised": promised(commitment),
        "chart": {
            "unit": commitment.currency,
            "times": [commitment.starts_at.isoformat(), *(min(row["month"].end, now).isoformat() for row in begun)],  # type: ignore[attr-defined]
            "series": [
                {
                    "name": "Unused commitment",
                    "values": [float(promised(commitment)), *(float(row["left"]) for row in begun)],  # type: ignore[arg-type]
                    "step": True,
                }
            ],
            "days": True,
            "until": commitment.ends_at.isoformat(),
        },
    }


def _lefts(commitment: Commitment, months: list[Month]) -> list[tuple[Month, Decimal]]:
    found, left = [], promised(commitment)
    for month in months:
        left = subtract(left, month.used)
        found.append((month, left))
    return found


def _state(month: Month, now: datetime) -> str:
    if now < month.start:
        return "to come"
    if not month.priced:
        return "paused"
    if now < month.end:
        return "running"
    return "short" if month.missing else "kept"
