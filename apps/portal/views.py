"""The pages of the billing portal: the overview, quoted and actual amounts, credits, and spend caps."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.invoicing import selectors
from apps.invoicing.adjustments import credits_left
from apps.invoicing.services import cap_change
from apps.notifications.budgets.selectors import alert_highest, budget_rows
from apps.portal import selectors as portal_selectors
from apps.portal.charts import credit_charts, usage_chart
from apps.portal.customers.selectors import balances_prepaid
from apps.portal.forms import ScopedCapForm
from apps.portal.usage import UsageQuery, usage_report
from apps.pricing.amounts import currencies_offered
from apps.pricing.selectors import book_differences, book_in_force, book_next, document_of
from apps.sales.differences import differences_listed

CONTRACTS_SHOWN = 20
INVOICES_SHOWN = 5
BUDGETS_SHOWN = 5
DAYS_SHOWN = 30


class Missing(NamedTuple):
    """An empty part of the overview: a sentence, and a link to the page where the user can start."""

    title: str
    sentence: str
    url: str
    action: str


@require_GET
def portal(request: HttpRequest) -> HttpResponse:
    """Show the month at a glance: usage, forecast, budgets, the draft invoice and the newest invoices.

    `?currency=` selects the currency.
    """
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    currencies = portal_selectors.currencies_of(organisation, first=book.currency)
    wanted = request.GET.get("currency", "")
    months = selectors.months_so_far(organisation=organisation, currencies=currencies, now=now)
    today = now.astimezone(ZoneInfo(organisation.time_zone)).date()
    query = UsageQuery(
        first=today - timedelta(days=DAYS_SHOWN - 1),
        last=today,
        currency=wanted if wanted in currencies else currencies[0],
    )
    report = usage_report(organisation=organisation, query=query, book=document_of(book))
    budgets = budget_rows(organisation, now=now)
    invoices = list(selectors.invoices_of(organisation)[:INVOICES_SHOWN])
    following = book_next(at=now)
    context = {
        "now": now,
        "currency": query.currency,
        "currencies": [(f"?currency={code}", code) for code in currencies],
        "months": months,
        "updated_at": newest_usage(months),
        "method": portal_selectors.FORECAST_METHOD,
        "alert": alert_highest(organisation, now=now),
        "budgets": sorted(budgets, key=lambda row: -row.share)[:BUDGETS_SHOWN],
        "more_budgets": max(len(budgets) - BUDGETS_SHOWN, 0),
        "report": report,
        "chart": usage_chart(report),
        "invoices": invoices,
        "missing": _missing(has_usage=bool(report.groups), has_budgets=bool(budgets), has_invoices=bool(invoices)),
        "book": book,
        "book_next": following,
        "differences": len(book_differences(book, following)) if following else 0,
    }
    return render(request, "portal/portal.html", context)


def _missing(*, has_usage: bool, has_budgets: bool, has_invoices: bool) -> list[Missing]:
    parts = [
        (has_usage, Missing("Usage", "No usage in the last 30 days.", "dispatch:job_list", "Run a job")),
        (has_budgets, Missing("Budgets", "No budgets yet.", "notifications:budget_list", "Set a budget")),
        (
            has_invoices,
            Missing("Invoices", "No invoices yet: usage is invoiced every month.", "invoicing:invoice_list", "Preview"),
        ),
    ]
    return [missing._replace(url=reverse(missing.url)) for is_there, missing in parts if not is_there]


def newest_usage(months: list[selectors.Month]) -> datetime | None:
    """Return when usage was last recorded, in any currency; None if there is no usage."""
    return max((month.updated_at for month in months if month.updated_at), default=None)


@require_GET
def contracts(request: HttpRequest) -> HttpResponse:
    """Show quoted and actual amounts of the newest contracts, and the commitment in force."""
    organisation, now = organisation_get(request), timezone.now()
    rows = selectors.contracts_compared(organisation=organisation, limit=CONTRACTS_SHOWN)
    reasons = differences_listed(rows)
    compared = [(contract, usage, why) for (contract, usage), why in zip(rows, reasons, strict=True)]
    commitment = portal_selectors.commitment_status(organisation, now=now)
    return render(
        request, "portal/contracts.html", {"compared": compared, "commitment": commitment, "shown": CONTRACTS_SHOWN}
    )


@require_GET
def credits_page(request: HttpRequest) -> HttpResponse:
    """Show credits with their remaining amounts and uses, and the balance."""
    organisation, now = organisation_get(request), timezone.now()
    context = {
        "credits": credits_left(organisation),
        "balances": balances_prepaid(organisation),
        "histories": credit_charts(organisation, now),
    }
    return render(request, "portal/credits.html", context)


@require_http_methods(["GET", "POST"])
def caps(request: HttpRequest) -> HttpResponse:
    """Show the spend caps of the organisation, its projects and its API tokens, with a form to set or remove a cap."""
    roles = {"roles": MONEY} if request.method == "POST" else {}
    organisation, now = organisation_get(request, **roles), timezone.now()
    chosen = {"scope": request.GET.get("scope"), "currency": request.GET.get("currency")}
    form = ScopedCapForm(
        request.POST or None, organisation=organisation, initial=chosen, currencies=currencies_offered(now=now)
    )
    if request.method == "POST" and form.is_valid():
        amount = form.cleaned_data["amount"]
        try:
            cap_change(
                organisation=organisation,
                amount=amount,
                currency=form.chosen.code,
                actor=principal_get(request).user,
                now=now,
                **form.scope_ids(),
            )
        except Problem as problem:
            form.add_error("amount", problem.detail)
        else:
            messages.success(request, "Spend cap removed." if amount is None else "Spend cap set, effective now.")
            return redirect("portal:cap_list")
    context = {"rows": portal_selectors.cap_rows(organisation, now=now), "form": form, "now": now}
    return render(request, "portal/caps.html", context, status=422 if form.errors else 200)
