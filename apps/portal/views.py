"""The portal: a month at a glance, usage by what it was for, and spend caps."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.contrib import messages
from django.db.models import Sum
from django.db.models.functions import TruncDate
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.models import Organisation
from apps.accounts.roles import MONEY
from apps.invoicing import selectors
from apps.invoicing.adjusting import credits_left
from apps.invoicing.services import cap_change
from apps.ledger.selectors import day_roots, executions_sum
from apps.portal import selectors as portal_selectors
from apps.portal.charts import burn_charts, chart_of
from apps.portal.customers.selectors import balances_prepaid
from apps.portal.forms import GROUPS, ScopedCapForm, UsageForm
from apps.portal.usage import Ask, names_of, narrowed, usage_report
from apps.pricing.amounts import currencies_offered
from apps.pricing.models import PriceBook
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_differences, book_in_force, book_next, document_of
from apps.sales.differences import differences_listed

CONTRACTS_SHOWN = 8
FILE_COLUMNS = (
    "day",
    "project",
    "model",
    "class",
    "api_token",
    "executions",
    "counted_operations",
    "billed_operations",
    "amount",
    "currency",
)


class Echo:
    """What a CSV writer writes to: it hands every row on."""

    def write(self, text: str) -> str:
        """The row itself."""
        return text


@require_GET
def portal(request: HttpRequest) -> HttpResponse:
    """The month against budget and forecast, usage, quoted against actual, credits, invoices, prices in force."""
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    form = UsageForm(request.GET, organisation=organisation, currency=book.currency, now=now)
    ask = form.ask()
    report = usage_report(organisation=organisation, ask=ask, book=document_of(book))
    start, end = ask.instants(organisation.time_zone)
    months = selectors.months_so_far(organisation=organisation, currencies=form.currencies, now=now)
    context = {
        "now": now,
        "currency": ask.currency,
        "months": months,
        "updated_at": newest(months),
        "currencies": _links(request, "currency", {code: code for code in form.currencies}),
        "method": portal_selectors.FORECAST_METHOD,
        "alert": portal_selectors.alert_highest(organisation, now=now),
        "budgets": portal_selectors.budget_rows(organisation, now=now),
        "caps": portal_selectors.cap_rows(organisation, now=now),
        "report": report,
        "chart": chart_of(report),
        "groups": _links(request, "group", GROUPS),
        "group_shown": GROUPS[ask.group],
        "excluded": portal_selectors.excluded(organisation=organisation, start=start, end=end),
        "compared": _compared(organisation),
        "invoices": selectors.invoices_of(organisation)[:5],
        "roots": day_roots(organisation.id, now=now)[:3],
        "credits": credits_left(organisation),
        "promise": portal_selectors.promise_of(organisation, now=now),
        "burns": burn_charts(organisation, now),
        "balances": balances_prepaid(organisation),
        **_books(book, book_next(at=now)),
    }
    return render(request, "portal/portal.html", context)


def _compared(organisation: Organisation) -> list[tuple[Any, Any, list[dict[str, Any]]]]:
    """The newest contracts: what they are, quoted against actual, and every difference in words."""
    rows = selectors.contracts_compared(organisation=organisation, limit=CONTRACTS_SHOWN)
    named = differences_listed(rows)
    return [(contract, usage, why) for (contract, usage), why in zip(rows, named, strict=True)]


def _books(book: PriceBook, following: PriceBook | None) -> dict[str, Any]:
    differences = book_differences(book, following) if following else []
    return {"book": book, "book_next": following, "differences": len(differences)}


def _links(request: HttpRequest, name: str, choices: dict[str, str]) -> list[tuple[str, str]]:
    """(address, label) of this page with each choice of one filter, the others as they are."""
    query = request.GET.copy()
    links = []
    for value, label in choices.items():
        query[name] = value
        links.append((f"?{query.urlencode()}", label))
    return links


def newest(months: list[selectors.Month]) -> datetime | None:
    """When usage was last recorded, in any currency."""
    return max((month.updated_at for month in months if month.updated_at), default=None)


@require_GET
def usage(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """Usage by day and by what it was for; every filter stands in the address, `format=csv` is the file."""
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    form = UsageForm(request.GET, organisation=organisation, currency=book.currency, now=now)
    ask = form.ask()
    if request.GET.get("format") == "csv" and form.is_valid():
        return _file(organisation, ask, request.GET.get("currency", ""))
    report = usage_report(organisation=organisation, ask=ask, book=document_of(book))
    start, end = ask.instants(organisation.time_zone)
    query = request.GET.copy()
    query["format"] = "csv"
    context = {
        "form": form,
        "report": report,
        "chart": chart_of(report),
        "group": GROUPS[ask.group],
        "currency": ask.currency,
        "csv": query.urlencode(),
        "api_path": api_path(request),
        "zone": organisation.time_zone,
        "now": now,
        "updated_at": newest(selectors.months_so_far(organisation=organisation, currencies=form.currencies, now=now)),
        "others": [code for code in form.currencies if code != ask.currency],
        "excluded": portal_selectors.excluded(organisation=organisation, start=start, end=end),
    }
    return render(request, "portal/usage.html", context)


def api_path(request: HttpRequest) -> str:
    """The address that answers with what the page shows."""
    query = request.GET.copy()
    query.pop("format", None)
    return f"/api/v1/usage/summary?{query.urlencode()}".rstrip("?")


def _file(organisation: Organisation, ask: Ask, currency: str) -> StreamingHttpResponse:
    """Every currency, or the one that was asked for; each row says which."""
    rows = csv.writer(Echo())
    lines = (rows.writerow(row) for row in _file_rows(organisation, ask, currency))
    response = StreamingHttpResponse(lines, content_type="text/csv; charset=utf-8")
    mark = organisation.file_mark(ask.instants(organisation.time_zone)[0])
    response["Content-Disposition"] = f'attachment; filename="takt-usage-{ask.first}-{ask.last}{mark}.csv"'
    return response


def _file_rows(organisation: Organisation, ask: Ask, currency: str) -> Iterator[tuple[Any, ...]]:
    """One row for each day, project, model, class, key and currency; amounts exact."""
    yield FILE_COLUMNS
    book = document_of(book_in_force(at=timezone.now()))
    project, key = (names_of(organisation, group, book) for group in ("project", "key"))
    parts = ("day", "project_id", "model_name", "klass", "token_id", "currency")
    chosen = narrowed(organisation, ask).filter(**({"currency": currency} if currency else {}))
    rows = chosen.annotate(day=TruncDate("recorded_at", tzinfo=ZoneInfo(organisation.time_zone)))
    summed = (
        rows.order_by()
        .values(*parts)
        .annotate(q=executions_sum(), o=Sum("operations"), b=Sum("billed_operations"), a=Sum("amount"))
        .order_by(*parts)
    )
    for row in summed.iterator():
        names = (project(row["project_id"]), row["model_name"], row["klass"], key(row["token_id"]))
        told = (row["q"], row["o"], row["b"], decimal_text(row["a"]), row["currency"])
        yield (row["day"], *(text_cell(name) for name in names), *told)


def text_cell(text: str) -> str:
    """A text that a spreadsheet does not take for a formula."""
    return f"'{text}" if text[:1] in {"=", "+", "-", "@", "\t", "\r"} else text


@require_http_methods(["GET", "POST"])
def caps(request: HttpRequest) -> HttpResponse:
    """Caps of the organisation, of projects and of API tokens: what is used, held and left, and a form."""
    roles = {"roles": MONEY} if request.method == "POST" else {}
    organisation, now = organisation_get(request, **roles), timezone.now()
    asked = {"scope": request.GET.get("scope"), "currency": request.GET.get("currency")}
    form = ScopedCapForm(
        request.POST or None, organisation=organisation, initial=asked, currencies=currencies_offered(now=now)
    )
    if request.method == "POST" and form.is_valid():
        amount = form.cleaned_data["amount"]
        cap_change(
            organisation=organisation,
            amount=amount,
            currency=form.chosen.code,
            actor=principal_get(request).user,
            now=now,
            **form.scope_ids(),
        )
        messages.success(request, "The cap is removed." if amount is None else "The cap is set; it holds from now on.")
        return redirect("portal:cap_list")
    context = {"rows": portal_selectors.cap_rows(organisation, now=now), "form": form, "now": now}
    return render(request, "portal/caps.html", context)
